//! Data from models.

use antiphon::{
    ErrorKind,
    prelude::*,
    sampling::{Message, ModelPreferences, SampleConfig, SampleMethod, SampleValidationError, SampledSchema},
    testing::{Answers, Replicas, Revision, Talk},
};
use serde_json::{Value, json};

use crate::checked::{connect, connect_with};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Move {
    #[schemars(range(min = 0, max = 8))]
    pub(crate) cell: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning: Option<String>,
}

async fn once(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let reply = ctx.sample("Pick a cell").schema::<Move>().await?;
    assert_eq!(reply.parsed().is_none(), reply.parse_error().is_some(), "one or the other");
    assert_eq!(reply.parsed(), reply.exchange.parsed.as_ref());
    Ok(Json(json!({
        "text": reply.text(), "parsed": reply.parsed(), "parseError": reply.parse_error(),
        "stop": reply.stop_reason, "messages": reply.exchange.messages,
        "request": reply.exchange.request, "response": reply.exchange.response,
    })))
}

async fn surely(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let SampledSchema { parsed, exchange, .. } = ctx.sample_schema::<Move>("Pick a cell").await?;
    let Move { cell, .. } = parsed;
    Ok(Json(json!({"cell": cell, "messages": exchange.messages})))
}

fn server() -> antiphon::ServerBuilder {
    Server::builder("models", "1.0.0").tool(Tool::new("once", "Asks once", once)).tool(Tool::new(
        "surely",
        "Asks until it is right",
        surely,
    ))
}

async fn talk(revision: Revision, tool: &str, answers: Answers) -> Result<Talk> {
    let mut client = connect(&server().build()?, revision).await?.answering(answers);
    client.call(tool, json!({})).await
}

fn reply(content: Value) -> Value {
    json!({"role": "assistant", "model": "m", "stopReason": "endTurn", "content": content})
}

#[tokio::test]
async fn a_schema_goes_out_as_the_reserved_tool_and_as_nothing_else() -> Result<()> {
    for revision in Revision::BOTH {
        let talk = talk(revision, "once", Answers::new().data("sample", json!({"cell": 4}))).await?;
        assert_eq!(talk.asked.len(), 1, "one request, one reply");
        let mut params = talk.asked[0].params.clone();
        params.as_object_mut().unwrap().remove("_meta");
        assert_eq!(
            params,
            json!({
                "messages": [{"role": "user", "content": {"type": "text", "text": "Pick a cell"}}],
                "maxTokens": 4096,
                "tools": [{
                    "name": "__schema__",
                    "description": "Respond with structured data matching this schema.",
                    "inputSchema": Value::Object(antiphon_llm::schema_of::<Move>()),
                }],
                "toolChoice": {"mode": "required"},
            })
        );
        let schema = &params["tools"][0]["inputSchema"];
        assert_eq!(schema["type"], "object");
        assert!(jsonschema::meta::is_valid(schema));
    }
    Ok(())
}

#[tokio::test]
async fn data_are_read_from_a_tool_use_that_has_no_text_beside_it() -> Result<()> {
    let wire = json!({"role": "assistant", "model": "m", "stopReason": "toolUse", "content": [
        {"type": "tool_use", "id": "call_xyz", "name": "__schema__", "input": {"cell": 4}}
    ]});
    for revision in Revision::BOTH {
        let talk = talk(revision, "once", Answers::new().raw("sample", wire.clone())).await?;
        let got = &talk.result["structuredContent"];
        assert_eq!((&got["parsed"], &got["parseError"]), (&json!({"cell": 4}), &Value::Null));
        // The wire's own id is kept, the data stay where they are, and the third message is ours.
        assert_eq!(
            got["messages"],
            json!([
                {"role": "user", "content": {"type": "text", "text": "Pick a cell"}},
                {"role": "assistant", "content": wire["content"]},
                {"role": "user", "content": [
                    {"type": "tool_result", "toolUseId": "call_xyz", "content": [{"type": "text", "text": "ok"}]}
                ]},
            ])
        );
        assert_eq!((&got["request"], &got["response"]), (&got["messages"][0], &got["messages"][1]));
    }
    Ok(())
}

#[tokio::test]
async fn data_in_text_count_too() -> Result<()> {
    // The last is what a client without tools sends: one text block, as an object.
    for text in ["{\"cell\": 4}", "Sure!\n```json\n{\"cell\": 4}\n```\nGood luck."] {
        for revision in Revision::BOTH {
            let talk = talk(revision, "once", Answers::new().sample("sample", text)).await?;
            let got = &talk.result["structuredContent"];
            assert_eq!(got["parsed"], json!({"cell": 4}));
            assert_eq!(got["text"], text, "the reply stays as it came");
            assert_eq!(got["response"]["content"][0]["name"], "__schema__");
            assert_eq!(got["messages"].as_array().map(Vec::len), Some(3));
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_reply_that_is_no_json_is_a_parse_error_and_not_a_failure() -> Result<()> {
    let text = "Here's my move: {invalid json";
    for revision in Revision::BOTH {
        let talk = talk(revision, "once", Answers::new().sample("sample", text)).await?;
        assert!(!talk.is_error());
        let got = &talk.result["structuredContent"];
        assert_eq!((&got["text"], &got["parsed"]), (&json!(text), &Value::Null));
        assert_eq!(got["parseError"]["rawText"], text);
        assert_eq!(got["parseError"]["message"], "key must be a string at line 1 column 2");
    }
    Ok(())
}

#[tokio::test]
async fn json_that_does_not_match_is_a_parse_error_that_says_where() -> Result<()> {
    for (answers, raw) in [
        (Answers::new().sample("sample", r#"{"cell":"four"}"#), r#"{"cell":"four"}"#),
        (Answers::new().data("sample", json!({"cell": "four"})), r#"{"cell":"four"}"#),
    ] {
        let talk = talk(Revision::V2025_11_25, "once", answers).await?;
        let got = &talk.result["structuredContent"];
        assert_eq!(got["parsed"], Value::Null);
        assert_eq!(
            got["parseError"],
            json!({"message": "cell: value is not of type \"integer\" (got \"four\")", "rawText": raw})
        );
        // The history has what happened: the call, and that it failed.
        let result = &got["messages"][2]["content"][0];
        assert_eq!((&result["type"], &result["isError"]), (&json!("tool_result"), &json!(true)));
    }
    Ok(())
}

#[tokio::test]
async fn what_was_cut_off_is_never_taken_for_an_answer() -> Result<()> {
    let cut = json!({"role": "assistant", "model": "m", "stopReason": "maxTokens",
        "content": {"type": "text", "text": "{\"cell\": 4, \"reasoning\": \"because"}});
    let talk = talk(Revision::V2025_11_25, "once", Answers::new().raw("sample", cut)).await?;
    let message = talk.result["structuredContent"]["parseError"]["message"].as_str().unwrap();
    assert!(message.contains("cut off"), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_reply_that_errs_twice_is_asked_for_three_times() -> Result<()> {
    for revision in Revision::BOTH {
        let answers = Answers::new()
            .raw("sample_schema", reply(json!({"type": "text", "text": "I take the centre."})))
            .data("sample_schema", json!({"cell": 9}))
            .data("sample_schema", json!({"cell": 4}));
        let talk = talk(revision, "surely", answers).await?;
        assert_eq!(talk.result["structuredContent"]["cell"], 4);
        assert_eq!(talk.asked.len(), 3);
        // The model is shown its own reply, and what is wrong with it.
        let second = &talk.asked[1].params["messages"];
        assert_eq!(second.as_array().map(Vec::len), Some(3));
        assert_eq!(
            second[1],
            json!({"role": "assistant", "content": {"type": "text", "text": "I take the centre."}})
        );
        let hint = talk.asked[1].message();
        assert!(hint.contains("- the reply is not JSON: expected value at line 1 column 1"), "{hint}");
        // Only the last failure is shown, and every open call is answered.
        let third = &talk.asked[2].params["messages"];
        assert_eq!(third.as_array().map(Vec::len), Some(3));
        assert_eq!(third[1]["content"][0]["input"], json!({"cell": 9}));
        let result = &third[2]["content"][0];
        assert_eq!((&result["toolUseId"], &result["isError"]), (&json!("call_1"), &json!(true)));
        let hint = result["content"][0]["text"].as_str().unwrap();
        assert!(hint.contains("\n- cell: value is greater than the maximum of 8 (got 9)\n"), "{hint}");
        // What failed is in no history.
        let history = talk.result["structuredContent"]["messages"].to_string();
        assert!(!history.contains("centre") && !history.contains("maximum"), "{history}");
        assert_eq!(talk.result["structuredContent"]["messages"][0]["content"]["text"], "Pick a cell");
    }
    Ok(())
}

#[tokio::test]
async fn a_model_that_never_learns_is_a_validation_error() -> Result<()> {
    async fn stubborn(ctx: &Ctx, retries: Option<u32>) -> Result<Json<Value>> {
        let ask = ctx.sample_schema::<Move>("Pick a cell");
        let ask = if let Some(retries) = retries { ask.retries(retries) } else { ask };
        let error = ask.await.expect_err("the model never learns");
        let ErrorKind::SampleValidation(failed) = error.kind() else { return Err(error) };
        let SampleValidationError { method, attempts, last_result, problems, .. } = &**failed;
        assert_eq!(*method, SampleMethod::SampleSchema);
        assert_eq!(json!(failed)["method"], "sampleSchema");
        Ok(Json(
            json!({"attempts": attempts, "last": last_result.text(), "problems": problems, "text": error.to_string()}),
        ))
    }
    #[derive(Deserialize, JsonSchema)]
    struct Retries {
        retries: Option<u32>,
    }
    async fn tool(ctx: &Ctx, Retries { retries }: Retries) -> Result<Json<Value>> {
        stubborn(ctx, retries).await
    }
    let server = Server::builder("m", "1").tool(Tool::new("stubborn", "Never", tool)).build()?;
    for revision in Revision::BOTH {
        for (retries, attempts) in [(json!({}), 3), (json!({"retries": 0}), 1), (json!({"retries": 3}), 4)] {
            let mut client =
                connect(&server, revision).await?.answering(Answers::new().sample("sample_schema", "No."));
            let talk = client.call("stubborn", retries).await?;
            let got = &talk.result["structuredContent"];
            assert_eq!((talk.asked.len(), &got["attempts"]), (attempts, &json!(attempts)));
            assert_eq!(got["last"], "No.");
            let plural = if attempts == 1 { "" } else { "s" };
            assert_eq!(
                got["text"],
                format!(
                    "sample_schema failed after {attempts} attempt{plural}: the reply is not JSON: expected value at line 1 column 1"
                )
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_correction_is_bounded_whatever_the_model_wrote() -> Result<()> {
    let flood = "x".repeat(1 << 20);
    let answers = Answers::new()
        .data("sample_schema", json!({"cell": flood}))
        .sample("sample_schema", &flood)
        .data("sample_schema", json!({"cell": 1}));
    let talk = talk(Revision::V2025_11_25, "surely", answers).await?;
    for question in &talk.asked {
        let size = question.params["messages"].to_string().len();
        assert!(size < 4096, "{size} bytes");
    }
    assert_eq!(talk.result["structuredContent"]["cell"], 1);
    Ok(())
}

#[tokio::test]
async fn several_calls_of_the_reserved_tool_are_one_answer_and_all_acknowledged() -> Result<()> {
    let answers = Answers::new()
        .calls("sample", &[("__schema__", json!({"cell": 9})), ("__schema__", json!({"cell": 3}))]);
    let talk = talk(Revision::V2025_11_25, "once", answers).await?;
    let got = &talk.result["structuredContent"];
    assert_eq!(got["parsed"], json!({"cell": 3}), "the first that fits");
    assert_eq!(got["messages"][2]["content"].as_array().map(Vec::len), Some(2));
    Ok(())
}

#[tokio::test]
async fn another_tool_than_the_one_offered_is_no_data() -> Result<()> {
    let answers = Answers::new().calls("sample", &[("guess", json!({"cell": 3}))]);
    let talk = talk(Revision::V2025_11_25, "once", answers).await?;
    let error = &talk.result["structuredContent"]["parseError"]["message"];
    assert_eq!(*error, "the tool `guess` was called, which does not exist");
    Ok(())
}

#[tokio::test]
async fn a_type_that_is_no_object_is_wrapped_and_unwrapped() -> Result<()> {
    async fn list(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        Ok(Json(json!({"list": ctx.sample_schema::<Vec<Move>>("Which?").await?.parsed})))
    }
    let server = Server::builder("m", "1").tool(Tool::new("list", "Lists", list)).build()?;
    for answer in [
        Answers::new().data("sample_schema", json!({"value": [{"cell": 1}, {"cell": 2}]})),
        Answers::new().sample("sample_schema", r#"[{"cell": 1}, {"cell": 2}]"#),
    ] {
        let mut client = connect(&server, Revision::V2026_07_28).await?.answering(answer);
        let talk = client.call("list", json!({})).await?;
        assert_eq!(talk.asked[0].params["tools"][0]["inputSchema"]["type"], "object");
        assert_eq!(talk.result["structuredContent"]["list"], json!([{"cell": 1}, {"cell": 2}]));
    }
    Ok(())
}

#[tokio::test]
async fn all_options_reach_the_wire() -> Result<()> {
    async fn all(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let preferences = ModelPreferences::new()
            .with_hint("sonnet")
            .with_cost_priority(0.25)
            .with_speed_priority(0.5)
            .with_intelligence_priority(1.0);
        let reply = ctx
            .sample_schema::<Move>([Message::user("a"), Message::assistant("b"), Message::user("c")])
            .key("move")
            .system("Be bold")
            .max_tokens(77)
            .temperature(0.25)
            .stop_sequences(["END"])
            .model_preferences(preferences)
            .retries(1)
            .await?;
        assert_eq!(reply.exchange.request, Message::user("c"), "the message that was replied to");
        Ok(Json(json!({"cell": reply.parsed.cell})))
    }
    let server = Server::builder("m", "1").tool(Tool::new("all", "All", all)).build()?;
    for revision in Revision::BOTH {
        let mut client =
            connect(&server, revision).await?.answering(Answers::new().data("move", json!({"cell": 1})));
        let talk = client.call("all", json!({})).await?;
        let params = &talk.asked[0].params;
        assert_eq!(params["systemPrompt"], "Be bold");
        assert_eq!(params["maxTokens"], 77);
        assert_eq!(params["temperature"], 0.25);
        assert_eq!(params["stopSequences"], json!(["END"]));
        assert_eq!(
            params["modelPreferences"],
            json!({"hints": [{"name": "sonnet"}], "costPriority": 0.25, "speedPriority": 0.5, "intelligencePriority": 1.0})
        );
        assert_eq!(params["messages"].as_array().map(Vec::len), Some(3));
    }
    Ok(())
}

#[tokio::test]
async fn a_client_without_tools_is_told_the_schema_in_words() -> Result<()> {
    for revision in Revision::BOTH {
        let answers = Answers::new()
            .sample("sample_schema", "Sure: {\"cell\": \"nine\"}")
            .sample("sample_schema", "{\"cell\": 4}");
        let mut client =
            connect_with(&server().build()?, revision, json!({"sampling": {}})).await?.answering(answers);
        let talk = client.call("surely", json!({})).await?;
        assert_eq!(talk.result["structuredContent"]["cell"], 4);
        assert_eq!(talk.result["structuredContent"]["messages"].as_array().map(Vec::len), Some(3));
        for question in &talk.asked {
            assert!(question.params.get("tools").is_none() && question.params.get("toolChoice").is_none());
            let said = question.params["messages"].to_string();
            assert!(!said.contains("tool_use") && !said.contains("tool_result"), "{said}");
            assert!(question.message().contains("matches this JSON Schema"), "{}", question.message());
        }
        // The second time it is shown what it said, as text.
        let second = &talk.asked[1].params["messages"];
        assert_eq!(second[1]["content"]["text"], json!({"cell": "nine"}).to_string());
        assert!(talk.asked[1].message().contains("cell: value is not of type \"integer\" (got \"nine\")"));
    }
    Ok(())
}

#[tokio::test]
async fn attempts_survive_replicas() -> Result<()> {
    let report = Replicas::new(server)
        .run("surely", json!({}), || {
            Answers::new()
                .sample("sample_schema", "No.")
                .data("sample_schema", json!({}))
                .data("sample_schema", json!({"cell": 7}))
        })
        .await?;
    assert_eq!(report.result["structuredContent"]["cell"], 7);
    assert_eq!(report.rounds, 3);
    Ok(())
}

async fn configured(ctx: &Ctx, config: SampleConfig) -> Result<Json<Value>> {
    let reply = ctx.sample_value(config).await?;
    Ok(Json(json!({
        "text": reply.text(), "parsed": reply.parsed, "parseError": reply.parse_error,
        "toolCalls": reply.tool_calls, "messages": reply.exchange.messages(),
    })))
}

/// Takes the configuration as it is: its schema is no part of what is tested here.
#[derive(Deserialize, JsonSchema)]
struct Configured {
    config: Value,
}

async fn configured_tool(ctx: &Ctx, Configured { config }: Configured) -> Result<Json<Value>> {
    configured(ctx, serde_json::from_value(config)?).await
}

#[tokio::test]
async fn a_configuration_says_what_is_asked_for() -> Result<()> {
    let server = Server::builder("m", "1").tool(Tool::new("ask", "Asks", configured_tool)).build()?;
    let tool = json!({"name": "go", "inputSchema": {"type": "object"}});
    for (config, answers, expected) in [
        (json!({"prompt": "?"}), Answers::new().sample("sample", "!"), json!({"text": "!"})),
        (
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
                   "schema": {"type": "object", "required": ["a"]}}),
            Answers::new().data("sample", json!({"a": 1})),
            json!({"parsed": {"a": 1}}),
        ),
        (
            json!({"prompt": "?", "schema": {"type": "object", "required": ["a"]}}),
            Answers::new().data("sample", json!({})),
            json!({"parseError": {"message": "(root): \"a\" is a required property (got {})", "rawText": "{}"}}),
        ),
        (
            json!({"prompt": "?", "tools": [tool], "toolChoice": "auto"}),
            Answers::new().calls("sample", &[("go", json!({}))]),
            json!({"toolCalls": [{"id": "call_1", "name": "go", "arguments": {}}]}),
        ),
    ] {
        let mut client = connect(&server, Revision::V2026_07_28).await?.answering(answers);
        let talk = client.call("ask", json!({"config": config})).await?;
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(talk.result["structuredContent"][key], *value, "{config}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_configuration_that_contradicts_itself_asks_nobody() -> Result<()> {
    let server = Server::builder("m", "1").tool(Tool::new("ask", "Asks", configured_tool)).build()?;
    let tools = json!([{"name": "go", "inputSchema": {"type": "object"}}]);
    for (config, problem) in [
        (
            json!({"prompt": "?", "schema": {"type": "object"}, "tools": tools}),
            "Cannot specify both schema and tools in sample config - they are mutually exclusive",
        ),
        (json!({}), "sample() requires either prompt or messages"),
        (json!({"prompt": "?", "messages": []}), "sample() requires either prompt or messages"),
        (
            json!({"prompt": "?", "tools": tools, "toolChoice": "maybe"}),
            "`\"maybe\"` is not a valid tool choice; use `auto`, `required` or `none`",
        ),
        (
            json!({"prompt": "?", "toolChoice": "auto"}),
            "`tool_choice` requires `tools`; set both, or neither",
        ),
        (json!({"prompt": "?", "schema": 7}), "the schema cannot be used: it must be a JSON object"),
    ] {
        let mut client = connect(&server, Revision::V2025_11_25).await?;
        let talk = client.call("ask", json!({"config": config})).await?;
        assert!(talk.is_error() && talk.asked.is_empty());
        assert_eq!(talk.text(), problem, "{config}");
    }
    Ok(())
}

async fn picky(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let taken = [4_u8, 0];
    let reply = ctx
        .sample_schema::<Move>("Pick a cell")
        .check(
            |Move { cell, .. }| {
                if taken.contains(cell) { Err(format!("cell {cell} is taken")) } else { Ok(()) }
            },
        )
        .retries(3)
        .await?;
    Ok(Json(json!({"cell": reply.parsed.cell, "messages": reply.exchange.messages})))
}

#[tokio::test]
async fn what_the_author_refuses_is_asked_for_again_with_the_reason() -> Result<()> {
    let server = Server::builder("models", "1.0.0").tool(Tool::new("picky", "Takes no taken cell", picky));
    let server = server.build()?;
    for revision in Revision::BOTH {
        let cells = |cells: &[u8]| {
            cells.iter().fold(Answers::new(), |all, cell| all.data("sample_schema", json!({"cell": cell})))
        };
        let mut client = connect(&server, revision).await?.answering(cells(&[4, 9, 0, 2]));
        let talk = client.call("picky", json!({})).await?;
        assert_eq!(talk.result["structuredContent"]["cell"], 2, "{}", talk.result);
        // What was refused is in no history.
        assert_eq!(talk.result["structuredContent"]["messages"].as_array().unwrap().len(), 3);
        assert_eq!(talk.asked.len(), 4);
        let last =
            |at: usize| talk.asked[at].params["messages"].as_array().unwrap().last().unwrap().to_string();
        assert!(last(1).contains("cell 4 is taken") && last(3).contains("cell 0 is taken"), "{}", last(1));
        assert!(
            last(2).contains("greater than the maximum of 8 (got 9)"),
            "the schema comes first: {}",
            last(2)
        );
        let shown = &talk.asked[1].params["messages"][1]["content"];
        assert!(shown.to_string().contains(r#"{"cell":4}"#), "the model sees what it said: {shown}");

        client.set_answers(cells(&[4]));
        let talk = client.call("picky", json!({})).await?;
        assert!(talk.is_error());
        assert_eq!(talk.text(), "sample_schema failed after 4 attempts: cell 4 is taken");
    }
    Ok(())
}

#[tokio::test]
async fn a_check_says_the_same_on_every_replica() -> Result<()> {
    let server = || Server::builder("models", "1.0.0").tool(Tool::new("picky", "Takes no taken cell", picky));
    let cells = || {
        [4, 0, 7]
            .into_iter()
            .fold(Answers::new(), |all, cell| all.data("sample_schema", json!({"cell": cell})))
    };
    let report = Replicas::new(server).run("picky", json!({}), cells).await?;
    assert_eq!(report.result["structuredContent"]["cell"], 7);
    assert_eq!(report.rounds, 3);
    Ok(())
}
