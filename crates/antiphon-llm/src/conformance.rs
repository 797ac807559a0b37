//! The contract tests of [`Model`]. A model must pass all contract tests.
//!
//! Each contract test is a function that panics if the model breaks the contract.
//! [`model_conformance!`](crate::model_conformance) creates a `#[tokio::test]` for each contract test. The tests send
//! prompts, so the tested model must be able to follow instructions.

use std::{collections::HashSet, pin::pin, task};

use serde_json::{Value, json};

use crate::{
    error::Error,
    message::{Block, Content, Message},
    model::Model,
    reply::{Reply, stop},
    request::{Request, ToolChoice, ToolDefinition},
    structured::{OutputSchema, SCHEMA_TOOL},
};

/// Creates a `#[tokio::test]` for every contract test.
///
/// The macro takes a function that opens a model. If no model is available, the function that opens the model can
/// print the reason and return `None`. If the function returns `None`, the macro skips the tests. To run only some of
/// the contract tests, list these tests after the function: `open => the_cost_is_told,`.
///
/// ```
/// # use std::sync::Arc;
/// # use antiphon_llm::Model;
/// async fn open() -> Option<Arc<dyn Model>> {
///     println!("skipped: no model here");
///     None
/// }
///
/// antiphon_llm::model_conformance!(open);
/// ```
#[macro_export]
macro_rules! model_conformance {
    ($open:expr) => {
        $crate::model_conformance! {
            $open =>
            a_reply_has_text_a_model_and_a_reason,
            a_request_for_data_is_answered_with_data,
            data_that_were_cut_off_are_not_repaired,
            no_tool_is_called_where_none_may_be,
            a_tool_is_called_where_one_must_be,
            a_tool_may_be_called_where_it_may_be,
            a_history_with_tools_is_read,
            a_failed_tool_is_read,
            calls_have_ids_of_their_own,
            a_reply_is_no_longer_than_it_may_be,
            a_stop_sequence_ends_the_reply,
            the_cost_is_told,
            a_request_that_makes_no_sense_is_an_error,
            a_call_can_be_dropped,
        }
    };
    ($open:expr => $($law:ident,)*) => {
        $(
            #[tokio::test]
            async fn $law() {
                if let Some(model) = ($open)().await {
                    $crate::conformance::$law(&model).await;
                }
            }
        )*
    };
}

async fn ask(model: &(impl Model + ?Sized), request: &Request) -> Reply {
    match model.reply(request).await {
        Ok(reply) => reply,
        Err(error) => panic!("`{}` did not reply: {error}\n{request:?}", model.name()),
    }
}

/// Checks that the model answers a text prompt with text, its name and a stop reason.
pub async fn a_reply_has_text_a_model_and_a_reason(model: &(impl Model + ?Sized)) {
    let reply = ask(model, &Request::prompt("Say hello.")).await;
    assert!(!reply.text().is_empty(), "{reply:?}");
    assert!(!reply.model.is_empty(), "{reply:?}");
    assert_eq!(reply.stop_reason.as_deref(), Some(stop::END_TURN), "{reply:?}");
}

/// Checks that the model answers a request for structured data with a call of [`SCHEMA_TOOL`].
pub async fn a_request_for_data_is_answered_with_data(model: &(impl Model + ?Sized)) {
    let schema = json!({
        "type": "object",
        "properties": {"way": {"type": "string", "enum": ["left", "right"]}},
        "required": ["way"],
    });
    let reply = ask(model, &for_data("Choose a way. If you have a tool for it, CALL it.", schema)).await;
    let calls = reply.tool_calls();
    assert_eq!(calls.len(), 1, "{reply:?}");
    assert_eq!(calls[0].name, SCHEMA_TOOL, "{reply:?}");
    assert!(["left", "right"].map(Value::from).contains(&calls[0].arguments["way"]), "{reply:?}");
    assert_eq!(reply.stop_reason.as_deref(), Some(stop::TOOL_USE), "{reply:?}");
}

/// Checks that the model does not return truncated data as if it were complete.
pub async fn data_that_were_cut_off_are_not_repaired(model: &(impl Model + ?Sized)) {
    let long = "abcdefghij".repeat(40);
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "enum": [long]}},
        "required": ["text"],
    });
    let mut request =
        for_data("Reply with the only text there is. If you have a tool for it, CALL it.", schema);
    request.max_tokens = 16;
    let reply = ask(model, &request).await;
    assert_eq!(reply.stop_reason.as_deref(), Some(stop::MAX_TOKENS), "{reply:?}");
    assert!(reply.tool_calls().is_empty(), "{reply:?}");
}

/// Checks that the model calls no tool if the request has `toolChoice: none`.
pub async fn no_tool_is_called_where_none_may_be(model: &(impl Model + ?Sized)) {
    let reply = ask(model, &with_tools(Some(ToolChoice::None))).await;
    assert!(reply.tool_calls().is_empty(), "{reply:?}");
    assert_ne!(reply.stop_reason.as_deref(), Some(stop::TOOL_USE), "{reply:?}");
}

/// Checks that the model calls one of the tools if the request has `toolChoice: required`.
pub async fn a_tool_is_called_where_one_must_be(model: &(impl Model + ?Sized)) {
    calls_a_tool(&ask(model, &with_tools(Some(ToolChoice::Required))).await);
}

/// Checks that the model calls a tool if the request has `toolChoice: auto` and the prompt asks for a call.
pub async fn a_tool_may_be_called_where_it_may_be(model: &(impl Model + ?Sized)) {
    calls_a_tool(&ask(model, &with_tools(Some(ToolChoice::Auto))).await);
}

/// Checks that the model replies to a history that contains tool calls and their results.
pub async fn a_history_with_tools_is_read(model: &(impl Model + ?Sized)) {
    let result = Block::tool_result("call_1", ["You went left. There is a door.".into()]);
    let reply = ask(model, &after(result)).await;
    assert!(!reply.text().is_empty() || !reply.tool_calls().is_empty(), "{reply:?}");
}

/// Checks that the model replies to a history in which a tool failed, and in which the result of the tool contains
/// audio.
pub async fn a_failed_tool_is_read(model: &(impl Model + ?Sized)) {
    let Block::ToolResult(mut result) = Block::tool_error("call_1", "There is a wall.") else { return };
    let sound = json!({"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"});
    result.content.extend(serde_json::from_value::<Content>(sound));
    let reply = ask(model, &after(Block::ToolResult(result))).await;
    assert!(!reply.text().is_empty() || !reply.tool_calls().is_empty(), "{reply:?}");
}

/// Checks that every call in a reply has a unique ID that is not empty.
pub async fn calls_have_ids_of_their_own(model: &(impl Model + ?Sized)) {
    let reply = ask(model, &with_tools(Some(ToolChoice::Required))).await;
    let calls = reply.tool_calls();
    let ids: HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), calls.len(), "{reply:?}");
    assert!(!ids.contains(""), "{reply:?}");
}

/// Checks that a reply which reaches the maximum number of tokens has the stop reason `maxTokens`.
pub async fn a_reply_is_no_longer_than_it_may_be(model: &(impl Model + ?Sized)) {
    let mut request = Request::prompt("Tell a long story about the sea.");
    request.max_tokens = 16;
    let mut reply = ask(model, &request).await;
    if !reply.is_cut_off() {
        // Some models reply so briefly that the reply would not reach a larger limit.
        request.max_tokens = 3;
        reply = ask(model, &request).await;
    }
    assert_eq!(reply.stop_reason.as_deref(), Some(stop::MAX_TOKENS), "{reply:?}");
}

/// Checks that a reply ends before a stop sequence, or that the model returns [`Error::Unsupported`].
pub async fn a_stop_sequence_ends_the_reply(model: &(impl Model + ?Sized)) {
    let mut request = Request::prompt("Count from one to five, in words.");
    let text = ask(model, &request).await.text();
    let word =
        text.split_whitespace().next_back().unwrap_or_else(|| panic!("there are no words in `{text}`"));
    request.stop_sequences = vec![word.to_owned()];
    match model.reply(&request).await {
        Ok(reply) => {
            assert!(!reply.text().contains(word), "`{word}` is in {reply:?}");
            let reason = reply.stop_reason.as_deref();
            assert!(matches!(reason, Some(stop::END_TURN | stop::STOP_SEQUENCE)), "{reply:?}");
        }
        Err(Error::Unsupported { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Checks that a reply contains its token usage.
pub async fn the_cost_is_told(model: &(impl Model + ?Sized)) {
    let reply = ask(model, &Request::prompt("Say hello.")).await;
    assert!(reply.usage().is_some_and(|usage| usage.output_tokens > 0), "{reply:?}");
}

/// Checks that the model returns an error for an invalid request, and that this error is not retryable.
pub async fn a_request_that_makes_no_sense_is_an_error(model: &(impl Model + ?Sized)) {
    let empty = model.reply(&Request::new([])).await;
    assert!(empty.is_err_and(|error| !error.is_retryable()), "no messages, and yet a reply");
    let stray = Message::user(Block::tool_result("nobody", ["asked".into()]));
    let stray = model.reply(&Request::new([Message::user("Hello."), stray])).await;
    assert!(stray.is_err_and(|error| !error.is_retryable()), "a result without a call, and yet a reply");
}

/// Checks that a program can drop the future of a request without an effect on other requests to the model.
pub async fn a_call_can_be_dropped(model: &(impl Model + ?Sized)) {
    let request = Request::prompt("Say hello.");
    {
        let mut call = pin!(model.reply(&request));
        let _ = call.as_mut().poll(&mut task::Context::from_waker(task::Waker::noop()));
    }
    assert!(!ask(model, &request).await.text().is_empty());
}

fn for_data(prompt: &str, schema: Value) -> Request {
    let mut request = Request::prompt(prompt);
    let Value::Object(schema) = schema else { return request };
    OutputSchema::new(schema).ask(&mut request);
    request
}

fn with_tools(choice: Option<ToolChoice>) -> Request {
    let mut request = Request::prompt("CALL the tool `go`, with the way `left`.");
    let way =
        json!({"properties": {"way": {"type": "string", "enum": ["left", "right"]}}, "required": ["way"]});
    request.tools = vec![
        ToolDefinition::new("go", way).with_description("Goes a way."),
        ToolDefinition::new("stay", json!({"properties": {}})).with_description("Stays."),
    ];
    request.tool_choice = choice;
    request
}

fn after(result: Block) -> Request {
    let mut request = with_tools(Some(ToolChoice::Auto));
    request.messages.push(Message::assistant(Block::tool_use("call_1", "go", json!({"way": "left"}))));
    request.messages.push(Message::user(result));
    request
}

fn calls_a_tool(reply: &Reply) {
    let calls = reply.tool_calls();
    assert!(!calls.is_empty(), "{reply:?}");
    assert!(calls.iter().all(|call| ["go", "stay"].contains(&call.name.as_str())), "{reply:?}");
    assert_eq!(reply.stop_reason.as_deref(), Some(stop::TOOL_USE), "{reply:?}");
}
