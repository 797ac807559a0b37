//! What comes back from each provider, as a reply.

use std::collections::HashSet;

use antiphon_llm::{
    Block, Model as _, ModelPreferences, OutputSchema, Reply, Request, SCHEMA_TOOL, ToolChoice,
    ToolDefinition, Usage,
    providers::{ModelConfig, NOTES_META, ProviderConfig, Rig, StructuredOutput, rig_core},
    stop,
};
use serde_json::{Value, json};

use crate::support::{Answer, Kind, Server, answered, exchange};

fn for_data() -> Request {
    let mut request = Request::prompt("Your move.");
    let schema = json!({"type": "object", "properties": {"cell": {"type": "integer"}}, "required": ["cell"]});
    OutputSchema::new(schema.as_object().unwrap().clone()).ask(&mut request);
    request
}

fn with_tools() -> Request {
    let mut request = Request::prompt("Which way?");
    request.tools = vec![ToolDefinition::new("go", json!({"properties": {"way": {"type": "string"}}}))];
    request.tool_choice = Some(ToolChoice::Auto);
    request
}

async fn reply(kind: Kind, request: &Request, answer: Value) -> Reply {
    answered(kind, |config| config, request, answer).await.1.unwrap()
}

#[tokio::test]
async fn text_comes_with_the_model_the_reason_and_the_cost() {
    for kind in Kind::ALL {
        let reply = reply(kind, &Request::prompt("Hi"), kind.says("Hello.")).await;
        assert_eq!(reply.text(), "Hello.", "{kind:?}");
        assert_eq!(reply.stop_reason.as_deref(), Some(stop::END_TURN), "{kind:?}");
        assert_eq!(reply.usage(), Some(Usage { input_tokens: 11, output_tokens: 7 }), "{kind:?}");
        assert_eq!(reply.model, "the-model", "{kind:?}");
    }
}

#[tokio::test]
async fn data_come_back_as_a_call_whatever_the_way() {
    let ways = [None, Some(StructuredOutput::JsonMode), Some(StructuredOutput::Prompt)];
    for (kind, how) in Kind::ALL.into_iter().flat_map(|kind| ways.map(|how| (kind, how))) {
        if (kind, how) == (Kind::Anthropic, Some(StructuredOutput::JsonMode)) {
            continue;
        }
        let configure = |config: ProviderConfig| config.with_structured_output(how);
        let reply = exchange(kind, configure, &for_data(), r#"{"cell": 4}"#).await.1.unwrap();
        let calls = reply.tool_calls();
        assert_eq!(calls.len(), 1, "{kind:?}, {how:?}");
        assert_eq!((calls[0].name.as_str(), &calls[0].arguments["cell"]), (SCHEMA_TOOL, &json!(4)));
        assert_eq!(reply.stop_reason.as_deref(), Some(stop::TOOL_USE));
        assert!(!calls[0].id.is_empty());
    }
}

#[tokio::test]
async fn the_input_of_the_tool_anthropic_must_call_is_the_data() {
    let by_tool = |config: ProviderConfig| config.with_structured_output(StructuredOutput::ForcedTool);
    let answer = json!({
        "id": "a1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-0",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": SCHEMA_TOOL, "input": {"cell": 4}}],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 11, "output_tokens": 7},
    });
    let reply = answered(Kind::Anthropic, by_tool, &for_data(), answer).await.1.unwrap();
    assert_eq!(reply.content, [Block::tool_use("toolu_1", SCHEMA_TOOL, json!({"cell": 4}))]);
    assert_eq!(reply.stop_reason.as_deref(), Some(stop::TOOL_USE));
}

#[tokio::test]
async fn what_is_no_data_comes_back_as_it_is() {
    for kind in Kind::ALL {
        let reply = reply(kind, &for_data(), kind.says("I would rather not.")).await;
        assert_eq!(reply.content, [Block::text("I would rather not.")], "{kind:?}");
        assert_eq!(reply.stop_reason.as_deref(), Some(stop::END_TURN), "{kind:?}");
    }
}

#[tokio::test]
async fn data_that_were_cut_off_stay_text() {
    for (kind, place, reason) in [
        (Kind::Chat, "/choices/0/finish_reason", "length"),
        (Kind::Anthropic, "/stop_reason", "max_tokens"),
        (Kind::Gemini, "/candidates/0/finishReason", "MAX_TOKENS"),
        (Kind::Ollama, "/done_reason", "length"),
    ] {
        // Even where what there is of it could be read.
        for text in [r#"{"cell": 4"#, r#"{"cell": 4}"#] {
            let mut answer = kind.says(text);
            *answer.pointer_mut(place).unwrap() = reason.into();
            let reply = reply(kind, &for_data(), answer).await;
            assert_eq!(reply.content, [Block::text(text)], "{kind:?}");
            assert_eq!(reply.stop_reason.as_deref(), Some(stop::MAX_TOKENS), "{kind:?}");
        }
    }
    let mut answer = Kind::Responses.says(r#"{"cell": 4"#);
    answer["status"] = "incomplete".into();
    answer["incomplete_details"] = json!({"reason": "max_output_tokens"});
    let reply = reply(Kind::Responses, &for_data(), answer).await;
    assert_eq!(reply.stop_reason.as_deref(), Some(stop::MAX_TOKENS));
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_text_and_not_completed() {
    let mut answer = Kind::Chat.says("");
    answer["choices"][0]["finish_reason"] = "length".into();
    answer["choices"][0]["message"] = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "go", "arguments": "{\"way\": \"le"}},
    ]});
    let reply = reply(Kind::Chat, &with_tools(), answer).await;
    assert_eq!(reply.content, [Block::text("{\"way\": \"le")]);
    assert_eq!(reply.stop_reason.as_deref(), Some(stop::MAX_TOKENS));
}

#[tokio::test]
async fn calls_without_ids_get_some() {
    let mut answer = Kind::Ollama.says("");
    let call = json!({"function": {"name": "go", "arguments": {"way": "left"}}});
    answer["message"]["tool_calls"] = json!([call, call]);
    let ollama = reply(Kind::Ollama, &with_tools(), answer).await;
    let mut answer = Kind::Gemini.says("");
    let call = json!({"functionCall": {"name": "go", "args": {"way": "left"}}});
    answer["candidates"][0]["content"]["parts"] = json!([call, call]);
    let gemini = reply(Kind::Gemini, &with_tools(), answer).await;
    for reply in [ollama, gemini] {
        let ids: HashSet<String> = reply.tool_calls().into_iter().map(|call| call.id).collect();
        assert_eq!(ids.len(), 2, "{reply:?}");
        assert!(!ids.contains(""));
        assert_eq!(reply.stop_reason.as_deref(), Some(stop::TOOL_USE));
    }
}

#[tokio::test]
async fn calls_with_the_same_id_are_told_apart() {
    let mut answer = Kind::Compatible.says("");
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "go", "arguments": "{}"}});
    answer["choices"][0]["message"]["tool_calls"] = json!([call, call]);
    let calls = reply(Kind::Compatible, &with_tools(), answer).await.tool_calls();
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].id, calls[1].id);
}

#[tokio::test]
async fn a_stop_sequence_is_told_where_the_provider_tells() {
    let mut answer = Kind::Anthropic.says("Hello");
    answer["stop_reason"] = "stop_sequence".into();
    answer["stop_sequence"] = "END".into();
    let anthropic = reply(Kind::Anthropic, &Request::prompt("Hi"), answer).await;
    assert_eq!(anthropic.stop_reason.as_deref(), Some(stop::STOP_SEQUENCE));
    let mut answer = Kind::Compatible.says("Hello");
    answer["choices"][0]["stop_reason"] = "END".into();
    let vllm = reply(Kind::Compatible, &Request::prompt("Hi"), answer).await;
    assert_eq!(vllm.stop_reason.as_deref(), Some(stop::STOP_SEQUENCE));
}

#[tokio::test]
async fn a_refusal_is_one_and_says_why() {
    let mut chat = Kind::Chat.says("");
    chat["choices"][0]["message"] = json!({"role": "assistant", "content": null, "refusal": "No."});
    let mut responses = Kind::Responses.says("");
    responses["output"][0]["content"] = json!([{"type": "refusal", "refusal": "No."}]);
    let mut anthropic = Kind::Anthropic.says("");
    anthropic["content"] = json!([]);
    anthropic["stop_reason"] = "refusal".into();
    anthropic["stop_details"] = json!({"type": "refusal", "explanation": "No."});
    for (kind, answer) in [(Kind::Chat, chat), (Kind::Responses, responses), (Kind::Anthropic, anthropic)] {
        let reply = reply(kind, &for_data(), answer).await;
        assert_eq!(reply.stop_reason.as_deref(), Some(stop::REFUSAL), "{kind:?}");
        assert_eq!(reply.text(), "No.", "{kind:?}");
    }
}

#[tokio::test]
async fn what_was_left_out_of_a_request_is_told() {
    let mut request = Request::prompt("Hi");
    request.temperature = Some(0.2);
    request.metadata.insert("user".into(), "me".into());
    request.metadata.insert("model".into(), "another".into());
    let configure =
        |config: ProviderConfig| config.with_models(["claude-sonnet-5-5"]).with_metadata_key("user");
    let (body, reply) = exchange(Kind::Anthropic, configure, &request, "Hello").await;
    let body = body.unwrap();
    assert_eq!((&body["user"], &body["model"]), (&json!("me"), &json!("claude-sonnet-5-5")));
    assert!(body.get("temperature").is_none());
    let reply = reply.unwrap();
    let notes = reply.meta[NOTES_META].as_array().unwrap();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].as_str().unwrap().starts_with("`metadata.model` was not sent"));
    assert!(notes[1].as_str().unwrap().starts_with("`temperature` was not sent"));
}

#[tokio::test]
async fn preferences_choose_among_the_models() {
    let fast = ModelConfig::new("gpt-4o").with_speed(0.9);
    let configure =
        |config: ProviderConfig| config.with_models(["gpt-4.1", "gpt-4.1-nano"]).with_model(fast.clone());
    for (preferences, chosen) in [
        (ModelPreferences::new(), "gpt-4.1"),
        (ModelPreferences::new().with_hint("claude").with_hint("4o"), "gpt-4o"),
        // The catalog knows what they cost.
        (ModelPreferences::new().with_cost_priority(1.0), "gpt-4.1-nano"),
        (ModelPreferences::new().with_speed_priority(1.0), "gpt-4o"),
    ] {
        let mut request = Request::prompt("Hi");
        request.model_preferences = Some(preferences);
        let (body, _) = exchange(Kind::Chat, configure, &request, "Hello").await;
        assert_eq!(body.unwrap()["model"], chosen);
    }
}

#[tokio::test]
async fn a_request_gets_no_more_tokens_than_the_operator_allows() {
    let mut request = Request::prompt("Hi");
    request.max_tokens = 100_000;
    let (body, _) = exchange(Kind::Chat, |config| config.with_max_tokens(50), &request, "Hello").await;
    assert_eq!(body.unwrap()["max_tokens"], 50);
    // And no more than the model has.
    let (body, _) = exchange(Kind::Chat, |config| config, &request, "Hello").await;
    assert_eq!(body.unwrap()["max_tokens"], 32_768);
}

#[tokio::test]
async fn any_model_of_rig_s_is_a_model() {
    let server = Server::start(|_, _| Answer::ok(Kind::Chat.says(r#"{"cell": 4}"#))).await;
    let rig = rig_core::providers::openai::OpenAIConfig::new("key").with_base_url(&server.url);
    let model =
        Rig::new(rig.client().chat("gpt-4.1")).with_config(ProviderConfig::local().with_max_tokens(9));
    assert_eq!(model.name(), "gpt-4.1");
    let reply = model.reply(&for_data()).await.unwrap();
    assert_eq!(reply.tool_calls()[0].name, SCHEMA_TOOL);
    let body = &server.seen()[0].body;
    assert_eq!((&body["response_format"]["type"], &body["max_tokens"]), (&json!("json_schema"), &json!(9)));
}
