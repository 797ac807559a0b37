//! What is sent to each provider, to the letter.

use antiphon_llm::{
    Block, Message, OutputSchema, Request, ToolChoice, ToolDefinition,
    providers::{ProviderConfig, StructuredOutput},
};
use serde_json::{Value, json};

use crate::support::{Answer, Kind, Server, exchange};

/// A request for a move, as data.
fn for_data() -> Request {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "cell": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 8},
            "why": {"type": ["string", "null"], "description": "In a word."},
        },
        "required": ["cell"],
    });
    let mut request = Request::prompt("Your move.");
    OutputSchema::new(schema.as_object().unwrap().clone()).ask(&mut request);
    request
}

fn with_tool(choice: ToolChoice) -> Request {
    let mut request = Request::prompt("Which way?");
    request.tools = vec![
        ToolDefinition::new("go", json!({"properties": {"way": {"type": "string"}}, "required": ["way"]}))
            .with_description("Goes a way."),
    ];
    request.tool_choice = Some(choice);
    request
}

async fn sent(kind: Kind, request: &Request) -> Value {
    sent_by(kind, |config| config, request).await
}

async fn sent_by(
    kind: Kind,
    configure: impl Fn(ProviderConfig) -> ProviderConfig,
    request: &Request,
) -> Value {
    let (body, reply) = exchange(kind, configure, request, "ok").await;
    reply.unwrap();
    body.unwrap()
}

/// The one model that is configured.
fn only(model: &'static str) -> impl Fn(ProviderConfig) -> ProviderConfig {
    move |config| config.with_models([model])
}

#[tokio::test]
async fn openai_is_asked_for_data_with_a_strict_response_format() {
    assert_eq!(
        sent(Kind::Chat, &for_data()).await,
        json!({
            "model": "gpt-4.1",
            "messages": [{"role": "user", "content": "Your move."}],
            "max_tokens": 4096,
            "response_format": {"type": "json_schema", "json_schema": {
                "name": "reply",
                "strict": true,
                "schema": {
                    "type": "object",
                    "properties": {
                        "cell": {"type": "integer", "minimum": 0, "maximum": 8},
                        "why": {"type": ["string", "null"], "description": "In a word."},
                    },
                    "required": ["cell", "why"],
                    "additionalProperties": false,
                },
            }},
        })
    );
}

#[tokio::test]
async fn openai_is_not_strict_where_the_schema_cannot_be() {
    let mut request = Request::prompt("Count the words.");
    let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    OutputSchema::new(schema.as_object().unwrap().clone()).ask(&mut request);
    let body = sent(Kind::Chat, &request).await;
    let format = json!({"name": "reply", "strict": false, "schema": schema});
    assert_eq!(body["response_format"]["json_schema"], format);
}

#[tokio::test]
async fn openai_responses_is_asked_for_data_with_a_text_format() {
    let body = sent(Kind::Responses, &for_data()).await;
    assert_eq!(
        body["text"],
        json!({"format": {
            "type": "json_schema",
            "name": "reply",
            "strict": true,
            "schema": {
                "type": "object",
                "properties": {
                    "cell": {"type": "integer", "minimum": 0, "maximum": 8},
                    "why": {"type": ["string", "null"], "description": "In a word."},
                },
                "required": ["cell", "why"],
                "additionalProperties": false,
            },
        }})
    );
    assert_eq!(body["store"], json!(false));
    assert_eq!(body["max_output_tokens"], json!(4096));
    assert!(body.get("tools").is_none());
}

#[tokio::test]
async fn a_compatible_server_is_asked_for_data_with_a_response_format() {
    let body = sent(Kind::Compatible, &for_data()).await;
    let schema = &body["response_format"]["json_schema"]["schema"];
    assert_eq!(body["response_format"]["type"], "json_schema");
    assert_eq!(schema["required"], json!(["cell"]));
    assert!(schema.get("$schema").is_none());
    let body = sent_by(
        Kind::Compatible,
        |config| config.with_structured_output(StructuredOutput::ForcedTool),
        &for_data(),
    )
    .await;
    assert_eq!(
        (&body["tools"][0]["function"]["name"], &body["tool_choice"]),
        (&json!("__schema__"), &json!("required"))
    );
}

#[tokio::test]
async fn anthropic_is_asked_for_data_with_a_tool_it_must_call() {
    let older = sent_by(Kind::Anthropic, only("claude-sonnet-4-0"), &for_data()).await;
    assert_eq!(
        older,
        json!({
            "model": "claude-sonnet-4-0",
            "max_tokens": 4096,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Your move."}]}],
            "tools": [{
                "name": "__schema__",
                "description": "Respond with structured data matching this schema.",
                "input_schema": {
                    "$schema": "https://json-schema.org/draft/2020-12/schema",
                    "type": "object",
                    "properties": {
                        "cell": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 8},
                        "why": {"type": ["string", "null"], "description": "In a word."},
                    },
                    "required": ["cell"],
                },
            }],
            "tool_choice": {"type": "tool", "name": "__schema__"},
        })
    );
    let by_tool = |config: ProviderConfig| config.with_structured_output(StructuredOutput::ForcedTool);
    let newer = sent_by(Kind::Anthropic, by_tool, &for_data()).await;
    assert_eq!(newer["tool_choice"], json!({"type": "tool", "name": "__schema__"}));
}

#[tokio::test]
async fn anthropic_is_asked_for_data_with_an_output_format_where_the_model_knows_it() {
    let body = sent(Kind::Anthropic, &for_data()).await;
    assert_eq!(
        body["output_config"],
        json!({"format": {"type": "json_schema", "schema": {
            "type": "object",
            "properties": {
                "cell": {"type": "integer", "description": "{maximum: 8, minimum: 0}"},
                "why": {"type": ["string", "null"], "description": "In a word."},
            },
            "required": ["cell"],
            "additionalProperties": false,
        }}})
    );
    assert!(body.get("tools").is_none() && body.get("tool_choice").is_none());
}

#[tokio::test]
async fn anthropic_models_that_take_no_orders_are_asked() {
    let body = sent_by(Kind::Anthropic, only("claude-sonnet-5-5"), &with_tool(ToolChoice::Required)).await;
    assert_eq!(body["tool_choice"], json!({"type": "auto"}));
    let order = "Reply by calling one of your tools, and not with text.";
    assert_eq!(body["system"][0]["text"], order);
    let by_tool =
        |config| only("claude-sonnet-5-5")(config).with_structured_output(StructuredOutput::ForcedTool);
    let body = sent_by(Kind::Anthropic, by_tool, &for_data()).await;
    assert_eq!((&body["tool_choice"], &body["system"][0]["text"]), (&json!({"type": "auto"}), &json!(order)));
}

#[tokio::test]
async fn gemini_is_asked_for_data_with_a_response_schema() {
    let body = sent(Kind::Gemini, &for_data()).await;
    assert_eq!(
        body["generationConfig"],
        json!({
            "maxOutputTokens": 4096,
            "responseMimeType": "application/json",
            "responseJsonSchema": {
                "type": "object",
                "properties": {
                    "cell": {"type": "integer", "minimum": 0, "maximum": 8},
                    "why": {"type": ["string", "null"], "description": "In a word."},
                },
                "required": ["cell"],
            },
        })
    );
}

#[tokio::test]
async fn ollama_is_asked_for_data_with_the_schema_as_format() {
    assert_eq!(
        sent(Kind::Ollama, &for_data()).await,
        json!({
            "model": "qwen3",
            "messages": [{"role": "user", "content": "Your move."}],
            "format": {
                "type": "object",
                "properties": {
                    "cell": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 8},
                    "why": {"type": ["string", "null"], "description": "In a word."},
                },
                "required": ["cell"],
            },
            "options": {"num_predict": 4096},
            "stream": false,
        })
    );
}

#[tokio::test]
async fn ollama_can_be_asked_for_json_with_the_schema_in_the_prompt() {
    let json_mode = |config: ProviderConfig| config.with_structured_output(StructuredOutput::JsonMode);
    let body = sent_by(Kind::Ollama, json_mode, &for_data()).await;
    assert_eq!(body["format"], "json");
    let prompt = body["messages"][0]["content"].as_str().unwrap();
    assert!(
        prompt.starts_with("Your move.\n\nReply with one JSON object that matches this JSON Schema"),
        "{prompt}"
    );
    assert!(prompt.contains(r#""maximum":8"#), "{prompt}");
}

#[tokio::test]
async fn every_provider_can_be_asked_for_data_by_prompt_alone() {
    for kind in Kind::ALL {
        let by_prompt = |config: ProviderConfig| config.with_structured_output(StructuredOutput::Prompt);
        let body = sent_by(kind, by_prompt, &for_data()).await.to_string();
        assert!(body.contains("Reply with one JSON object"), "{kind:?}: {body}");
        for way in ["response_format", "\"format\"", "output_config", "responseJsonSchema", "__schema__"] {
            assert!(!body.contains(way), "{kind:?}: {body}");
        }
    }
}

#[tokio::test]
async fn openai_is_told_whether_to_call_tools() {
    for choice in [ToolChoice::Auto, ToolChoice::Required, ToolChoice::None] {
        let body = sent(Kind::Chat, &with_tool(choice)).await;
        assert_eq!(
            body["tools"],
            json!([{"type": "function", "function": {
                "name": "go",
                "description": "Goes a way.",
                "parameters": {"properties": {"way": {"type": "string"}}, "required": ["way"], "type": "object"},
            }}])
        );
        assert_eq!(body["tool_choice"], choice.as_str());
        let body = sent(Kind::Responses, &with_tool(choice)).await;
        assert_eq!(
            (&body["tools"][0]["name"], &body["tool_choice"]),
            (&json!("go"), &json!(choice.as_str()))
        );
    }
}

#[tokio::test]
async fn anthropic_is_told_whether_to_call_tools() {
    for (choice, said) in
        [(ToolChoice::Auto, "auto"), (ToolChoice::Required, "any"), (ToolChoice::None, "none")]
    {
        let body = sent(Kind::Anthropic, &with_tool(choice)).await;
        assert_eq!(
            body["tools"],
            json!([{
                "name": "go",
                "description": "Goes a way.",
                "input_schema": {"properties": {"way": {"type": "string"}}, "required": ["way"], "type": "object"},
            }])
        );
        assert_eq!(body["tool_choice"], json!({"type": said}));
    }
}

#[tokio::test]
async fn gemini_is_told_whether_to_call_tools() {
    for (choice, said) in
        [(ToolChoice::Auto, "AUTO"), (ToolChoice::Required, "ANY"), (ToolChoice::None, "NONE")]
    {
        let body = sent(Kind::Gemini, &with_tool(choice)).await;
        assert_eq!(body["tools"][0]["functionDeclarations"][0]["name"], "go");
        assert_eq!(body["toolConfig"]["functionCallingConfig"]["mode"], said);
    }
}

#[tokio::test]
async fn ollama_gets_tools_and_none_where_none_may_be_called() {
    let body = sent(Kind::Ollama, &with_tool(ToolChoice::Auto)).await;
    assert_eq!(body["tools"][0]["function"]["name"], "go");
    assert!(body.get("tool_choice").is_none() && body.get("format").is_none());
    let body = sent(Kind::Ollama, &with_tool(ToolChoice::None)).await;
    assert!(body.get("tools").is_none(), "{body}");
}

#[tokio::test]
async fn ollama_can_write_nothing_but_a_call_where_one_must_be_made() {
    let request = with_tool(ToolChoice::Required);
    let says = r#"{"tool_calls": [{"name": "go", "arguments": {"way": "left"}}]}"#;
    let (body, reply) = exchange(Kind::Ollama, |config| config, &request, says).await;
    let call = &body.unwrap()["format"]["properties"]["tool_calls"]["items"];
    assert_eq!(call["properties"]["name"], json!({"const": "go"}));
    assert_eq!(call["properties"]["arguments"]["required"], json!(["way"]));
    let calls = reply.unwrap().tool_calls();
    assert_eq!((calls[0].name.as_str(), &calls[0].arguments["way"]), ("go", &json!("left")));
}

#[tokio::test]
async fn a_model_that_knows_no_tools_is_told_of_them_in_words() {
    let server = Server::start(|_, seen| {
        if seen.body.get("tools").is_some() {
            let error = json!({"error": "registry.ollama.ai/library/gemma:2b does not support tools"});
            return Answer::status(400, error);
        }
        let calls = r#"{"tool_calls": [{"name": "go", "arguments": {"way": "left"}}]}"#;
        Answer::ok(Kind::Ollama.says(calls))
    })
    .await;
    let model = Kind::Ollama.open(server.config(Kind::Ollama)).unwrap();
    let reply = model.reply(&with_tool(ToolChoice::Auto)).await.unwrap();
    assert_eq!(reply.tool_calls()[0].name, "go");
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    let prompt = seen[1].body["messages"][0]["content"].as_str().unwrap();
    assert!(prompt.contains("You have these tools:\n- `go`: Goes a way."), "{prompt}");
}

/// llama.cpp takes tools and an order for every model, and leaves both out where the model's template has no place.
#[tokio::test]
async fn a_model_that_ignores_the_order_to_call_a_tool_is_held_to_it() {
    let server = Server::start(|_, seen| {
        if seen.body.get("tools").is_some() {
            return Answer::ok(Kind::Compatible.says("Let us think about tools."));
        }
        let calls = r#"{"tool_calls": [{"name": "go", "arguments": {"way": "left"}}]}"#;
        Answer::ok(Kind::Compatible.says(calls))
    })
    .await;
    let model = Kind::Compatible.open(server.config(Kind::Compatible)).unwrap();
    for _ in 0..2 {
        let reply = model.reply(&with_tool(ToolChoice::Required)).await.unwrap();
        assert_eq!(reply.tool_calls()[0].arguments["way"], "left");
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 3, "what was learned once is not learned again");
    for held in &seen[1..] {
        let format = &held.body["response_format"]["json_schema"]["schema"]["properties"]["tool_calls"];
        assert_eq!(format["items"]["properties"]["name"], json!({"const": "go"}));
        assert_eq!((&format["minItems"], &format["maxItems"]), (&json!(1), &json!(1)));
        let prompt = held.body["messages"][0]["content"].to_string();
        assert!(prompt.contains("You have these tools:"), "{prompt}");
    }
    // Where it may do as it likes, it is offered its tools, and text is an answer.
    let reply = model.reply(&with_tool(ToolChoice::Auto)).await.unwrap();
    assert_eq!(reply.text(), "Let us think about tools.");
    assert!(server.seen()[3].body.get("tools").is_some());
}

/// Cut off, a model may yet have come to it. Twice in a row, it would not have.
#[tokio::test]
async fn one_reply_that_was_cut_off_does_not_cost_a_model_its_tools() {
    let server = Server::start(|_, seen| {
        if seen.body.get("tools").is_none() {
            let calls = r#"{"tool_calls": [{"name": "go", "arguments": {"way": "left"}}]}"#;
            return Answer::ok(Kind::Compatible.says(calls));
        }
        let mut cut = Kind::Compatible.says("Let us think about");
        cut["choices"][0]["finish_reason"] = json!("length");
        Answer::ok(cut)
    })
    .await;
    let model = Kind::Compatible.open(server.config(Kind::Compatible)).unwrap();
    for _ in 0..3 {
        let reply = model.reply(&with_tool(ToolChoice::Required)).await.unwrap();
        assert_eq!(reply.tool_calls()[0].arguments["way"], "left");
    }
    let offered: Vec<bool> = server.seen().iter().map(|seen| seen.body.get("tools").is_some()).collect();
    assert_eq!(offered, [true, false, true, false, false]);
}

#[tokio::test]
async fn a_server_that_cannot_hold_a_model_to_anything_gives_what_it_has() {
    let server = Server::start(|_, seen| {
        if seen.body.get("response_format").is_some() {
            return Answer::status(400, json!({"error": {"message": "no grammars here"}}));
        }
        Answer::ok(Kind::Compatible.says("Let us think about tools."))
    })
    .await;
    let model = Kind::Compatible.open(server.config(Kind::Compatible)).unwrap();
    let reply = model.reply(&with_tool(ToolChoice::Required)).await.unwrap();
    assert_eq!(reply.text(), "Let us think about tools.");
}

#[tokio::test]
async fn a_history_is_told_to_each_provider_in_its_own_way() {
    let mut request = with_tool(ToolChoice::Auto);
    request.system_prompt = Some("You are lost.".into());
    request.messages.push(Message::assistant(Block::tool_use("call_1", "go", json!({"way": "left"}))));
    request.messages.push(Message::user(Block::tool_error("call_1", "a wall")));

    let chat = sent(Kind::Chat, &request).await;
    assert_eq!(chat["messages"][0]["role"], "system");
    assert_eq!(chat["messages"][2]["tool_calls"][0]["function"]["arguments"], r#"{"way":"left"}"#);
    assert_eq!(
        (&chat["messages"][3]["role"], &chat["messages"][3]["tool_call_id"]),
        (&json!("tool"), &json!("call_1"))
    );

    let anthropic = sent(Kind::Anthropic, &request).await;
    assert_eq!(anthropic["system"][0]["text"], "You are lost.");
    let result = &anthropic["messages"][2]["content"][0];
    assert_eq!((&result["tool_use_id"], &result["is_error"]), (&json!("call_1"), &json!(true)));

    let ollama = sent(Kind::Ollama, &request).await;
    assert_eq!(ollama["messages"][3]["tool_name"], "go");
    assert_eq!(ollama["messages"][2]["tool_calls"][0]["function"]["arguments"], json!({"way": "left"}));

    let gemini = sent(Kind::Gemini, &request).await;
    let response = &gemini["contents"][2]["parts"][0]["functionResponse"];
    assert_eq!((&response["name"], &response["response"]), (&json!("go"), &json!({"error": "a wall"})));
}
