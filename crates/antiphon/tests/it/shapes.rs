//! Types whose JSON is a promise.

use antiphon::{
    ToolOutput, ToolResult,
    elicitation::{ElicitationComplete, UrlElicitation},
    model::{ContentBlock, ResourceLink, ToolDescription},
    prelude::*,
    sampling::{Block, Message, Reply, Request, ToolDefinition, ToolUseBlock},
    testing::{Answers, Revision},
    tool::ToolCall,
};
use serde_json::{Map, Value, json};

use crate::checked::connect_with;

fn round_trip<T: serde::Serialize + serde::de::DeserializeOwned>(value: Value) {
    let read: T = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), value);
}

#[test]
fn content_blocks_round_trip_with_meta() {
    round_trip::<ContentBlock>(json!({"type": "text", "text": "a", "_meta": {"x": 1}}));
    round_trip::<ContentBlock>(
        json!({"type": "image", "data": "YQ==", "mimeType": "image/png", "_meta": {"x": 1}}),
    );
    round_trip::<ContentBlock>(json!({"type": "audio", "data": "YQ==", "mimeType": "audio/wav"}));
    round_trip::<ContentBlock>(
        json!({"type": "resource", "resource": {"uri": "a://b", "text": "c", "mimeType": "text/plain"}}),
    );
    round_trip::<ContentBlock>(json!({"type": "resource", "resource": {"uri": "a://b", "blob": "YQ=="}}));
    round_trip::<ContentBlock>(json!({"type": "resource_link", "uri": "a://b", "name": "c"}));
    round_trip::<Block>(json!({"type": "tool_use", "id": "1", "name": "a", "input": {"b": 1}}));
    round_trip::<Block>(
        json!({"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "a"}]}),
    );
}

#[test]
fn a_resource_link_has_a_name_and_a_uri_and_no_content() {
    let link = ResourceLink::new("file:///a", "a")
        .with_title("A")
        .with_description("An a")
        .with_mime_type("text/plain");
    let block = serde_json::to_value(ContentBlock::resource_link(link)).unwrap();
    assert_eq!(
        block,
        json!({"type": "resource_link", "uri": "file:///a", "name": "a", "title": "A", "description": "An a", "mimeType": "text/plain"})
    );
    assert!(
        serde_json::from_value::<ContentBlock>(json!({"type": "resource_link", "uri": "file:///a"})).is_err()
    );
    assert!(serde_json::from_value::<ContentBlock>(json!({"type": "resource_link", "name": "a"})).is_err());
    let embedded = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "b"}});
    assert!(matches!(serde_json::from_value::<ContentBlock>(embedded), Ok(ContentBlock::Resource(_))));
    assert!(matches!(serde_json::from_value::<ContentBlock>(block), Ok(ContentBlock::ResourceLink(_))));
}

#[test]
fn a_tool_use_is_a_block_of_the_assistants_and_its_result_one_of_the_users() {
    let used: Message = serde_json::from_value(
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "a", "input": {}}]}),
    )
    .unwrap();
    assert_eq!(
        serde_json::to_value(&used).unwrap(),
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "a", "input": {}}]})
    );
    let call = ToolCall { id: "c1".into(), name: "a".into(), arguments: Map::new() };
    let block = ToolResult::new(&call, ToolOutput::text("b")).into_block();
    let block = serde_json::to_value(block).unwrap();
    assert_eq!(block["toolUseId"], "c1");
    assert_eq!(block["content"], json!([{"type": "text", "text": "b"}]));
}

#[test]
fn a_message_in_another_houses_style_is_rejected() {
    let foreign =
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "a"}}]});
    assert!(serde_json::from_value::<Message>(foreign).is_err());
    let foreign = json!({"role": "tool", "tool_call_id": "1", "content": {"type": "text", "text": "a"}});
    assert!(serde_json::from_value::<Message>(foreign).is_err());
}

#[test]
fn a_call_has_an_id_a_name_and_arguments() {
    let call = ToolCall::from_value(json!({"id": "1", "name": "a", "arguments": {"b": 1}})).unwrap();
    assert_eq!(serde_json::to_value(&call).unwrap(), json!({"id": "1", "name": "a", "arguments": {"b": 1}}));
    for missing in ["id", "name", "arguments"] {
        let mut call = json!({"id": "1", "name": "a", "arguments": {}});
        call.as_object_mut().unwrap().remove(missing);
        let problem = ToolCall::from_value(call).unwrap_err();
        assert!(problem.contains(missing), "{problem}");
    }
    let block = ToolUseBlock::from(call.clone());
    assert_eq!(serde_json::to_value(&block).unwrap()["input"], json!({"b": 1}));
    assert_eq!(ToolCall::from(block), call);
}

#[test]
fn a_call_with_its_old_names_is_read_where_that_is_asked_for() {
    let old = json!({"id": "1", "name": "a", "input": {"b": 1}});
    assert!(ToolCall::from_value(old.clone()).is_err());
    assert_eq!(ToolCall::from_value_lenient(old).unwrap().arguments["b"], 1);
}

#[test]
fn a_tool_of_somebody_elses_needs_no_description() {
    let tool: ToolDescription =
        serde_json::from_value(json!({"name": "a", "inputSchema": {"type": "object"}})).unwrap();
    assert_eq!((tool.name.as_ref(), tool.description), ("a", None));
}

#[test]
fn a_result_always_says_whether_it_is_an_error() {
    let call = ToolCall { id: "c1".into(), name: "a".into(), arguments: Map::new() };
    let result = ToolResult::new(&call, ToolOutput::text("b").with_meta("cost", 3));
    let value = serde_json::to_value(&result).unwrap();
    assert_eq!(
        value,
        json!({"id": "c1", "content": [{"type": "text", "text": "b"}], "isError": false, "metadata": {"cost": 3}})
    );
    let read: ToolResult = serde_json::from_value(json!({"content": []})).unwrap();
    assert!(!read.is_error && read.id.is_none() && read.metadata.is_empty());
    assert_eq!(serde_json::to_value(read).unwrap()["isError"], false);
}

#[test]
fn a_result_keeps_all_it_carries_as_a_block() {
    let call = ToolCall { id: "c1".into(), name: "a".into(), arguments: Map::new() };
    let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a", "size": 7,
        "annotations": {"audience": ["user"], "priority": 0.5}});
    let embedded =
        json!({"type": "resource", "resource": {"uri": "file:///b", "text": "b", "mimeType": "text/plain"}});
    let blocks = [
        json!({"type": "text", "text": "b", "annotations": {"priority": 1.0}}),
        json!({"type": "image", "data": "AA==", "mimeType": "image/png", "_meta": {"w": 1}}),
        json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
        link,
        embedded,
    ];
    let content = blocks.iter().map(|block| serde_json::from_value::<ContentBlock>(block.clone()).unwrap());
    let output = ToolOutput::new(content).with_structured(json!({"rows": 2})).with_meta("cost", 3);
    let result = ToolResult::new(&call, output);
    let value = serde_json::to_value(&result).unwrap();
    assert_eq!(value["structuredContent"], json!({"rows": 2}));
    assert_eq!(serde_json::from_value::<ToolResult>(value).unwrap(), result);
    let block = serde_json::to_value(result.into_block()).unwrap();
    assert_eq!(
        block,
        json!({"type": "tool_result", "toolUseId": "c1", "content": blocks, "structuredContent": {"rows": 2},
            "_meta": {"cost": 3}})
    );
}

#[test]
fn a_url_elicitation_and_its_end_have_an_id() {
    round_trip::<UrlElicitation>(
        json!({"mode": "url", "elicitationId": "1", "url": "https://a.example", "message": "b"}),
    );
    round_trip::<ElicitationComplete>(json!({"elicitationId": "1"}));
    assert!(serde_json::from_value::<ElicitationComplete>(json!({})).is_err());
}

#[test]
fn content_is_read_as_one_block_or_as_many_and_kept_as_many() {
    for (content, blocks) in [
        (json!({"type": "text", "text": "a"}), 1),
        (json!([{"type": "text", "text": "a"}]), 1),
        (json!({"type": "image", "data": "AA==", "mimeType": "image/png"}), 1),
        (json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}), 1),
        (json!({"type": "tool_use", "id": "1", "name": "a", "input": {}}), 1),
        (json!({"type": "tool_result", "toolUseId": "1", "content": []}), 1),
        (
            json!([
                {"type": "tool_use", "id": "1", "name": "a", "input": {}},
                {"type": "tool_use", "id": "2", "name": "b", "input": {}},
            ]),
            2,
        ),
        (json!([]), 0),
    ] {
        let reply: Reply =
            serde_json::from_value(json!({"role": "assistant", "model": "m", "content": content})).unwrap();
        let read: &Vec<Block> = &reply.content;
        assert_eq!(read.len(), blocks, "{content}");
    }
}

#[test]
fn a_lone_block_is_written_as_one_and_calls_as_a_list() {
    let text = json!({"type": "text", "text": "a"});
    assert_eq!(json!(Message::user("a"))["content"], text);
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    assert_eq!(json!(Message::user(Block::image("AA==", "image/png")))["content"], image);
    let two = Message::user([Block::text("a"), Block::text("a")]);
    assert_eq!(json!(two)["content"], json!([text, text]));
    let call = Message::assistant(Block::tool_use("1", "a", json!({})));
    assert!(json!(call)["content"].is_array());
    let result = Message::user(Block::tool_result("1", []));
    assert!(json!(result)["content"].is_array());
}

#[test]
fn a_reply_keeps_a_stop_reason_nobody_knows() {
    for reason in ["endTurn", "stopSequence", "maxTokens", "toolUse", "outOfPaper"] {
        round_trip::<Reply>(json!({
            "role": "assistant", "model": "m", "stopReason": reason, "content": {"type": "text", "text": "a"},
        }));
    }
}

#[test]
fn a_request_to_a_model_has_all_that_can_be_asked() {
    round_trip::<Request>(json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "a"}}],
        "maxTokens": 10, "systemPrompt": "b", "temperature": 0.5, "stopSequences": ["c"],
        "modelPreferences": {"hints": [{"name": "d"}], "costPriority": 0.5},
        "includeContext": "none", "metadata": {"e": 1}, "_meta": {"f": 2},
        "tools": [{"name": "g", "inputSchema": {"type": "object"}}], "toolChoice": {"mode": "none"},
    }));
}

#[test]
fn a_tool_for_a_model_is_typed_or_raw_and_the_same() {
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Go {
        way: String,
    }
    let typed = ToolDefinition::of::<Go>("go");
    let raw = ToolDefinition::new("go", Value::Object(typed.input_schema.clone()));
    assert_eq!(json!(typed), json!(raw));
    assert!(json!(typed).get("description").is_none());
    assert_eq!(json!(raw.with_description("Goes"))["description"], "Goes");
}

/// What was written before 2025-11-25 added a `resource_link`, sub-capabilities of sampling, modes of elicitation and
/// lists of content is read as before.
#[test]
fn shapes_of_before_2025_11_25_still_parse() {
    for block in [
        json!({"type": "text", "text": "a"}),
        json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
        json!({"type": "resource", "resource": {"uri": "file:///a", "text": "a"}}),
    ] {
        round_trip::<ContentBlock>(block);
    }
    round_trip::<Message>(json!({"role": "assistant", "content": {"type": "text", "text": "a"}}));
    let reply: Reply = serde_json::from_value(
        json!({"role": "assistant", "content": {"type": "text", "text": "a"}, "model": "m", "stopReason": "endTurn"}),
    )
    .unwrap();
    assert_eq!((reply.text().as_str(), reply.stop_reason.as_deref()), ("a", Some("endTurn")));
    let result: ToolResult =
        serde_json::from_value(json!({"content": [{"type": "text", "text": "a"}]})).unwrap();
    assert!(result.structured.is_none() && !result.is_error);
}

/// A client of before: plain `sampling`, plain `elicitation`, an answer without anything new in it.
#[tokio::test]
async fn clients_of_before_2025_11_25_are_asked_as_before() -> Result<()> {
    #[derive(Deserialize, JsonSchema)]
    struct Name {
        name: String,
    }
    async fn greet(ctx: &Ctx, _: ()) -> Result<String> {
        let Name { name } = ctx.elicit("Who?").await?.accepted()?;
        Ok(format!("{name}: {}", ctx.sample("Greet them").await?.text()))
    }
    let server = Server::builder("old", "1").tool(Tool::new("greet", "Greets", greet)).build()?;
    let answers = Answers::new().accept("name", json!({"name": "Ada"})).raw(
        "sample",
        json!({"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"}),
    );
    let mut client = connect_with(&server, Revision::V2025_11_25, json!({"sampling": {}, "elicitation": {}}))
        .await?
        .answering(answers);
    let talk = client.call("greet", json!({})).await?;
    assert_eq!(talk.text(), "Ada: Hello");
    let sampled = &talk.asked[1].params;
    assert!(sampled.get("tools").is_none() && sampled.get("toolChoice").is_none(), "{sampled}");
    Ok(())
}
