//! What a tool can keep of a conversation, and show to a model.

use antiphon::{
    ToolOutput, ToolResult,
    exchange::{ElicitExchange, History, SampleExchange},
    prelude::*,
    sampling::{Block, Content, Conversation, Message, Role, ToolDefinition},
    testing::{Answers, Revision},
};
use serde_json::{Value, json};

use crate::{checked::connect, sample_schema::Move};

async fn run(tool: Tool, answers: Answers) -> Result<Value> {
    let server = Server::builder("exchanges", "1.0.0").tool(tool).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?.answering(answers);
    let talk = client.call("tool", json!({})).await?;
    assert!(!talk.is_error(), "{}", talk.text());
    Ok(talk.result["structuredContent"].clone())
}

#[tokio::test]
async fn text_is_an_exchange_of_two_messages() -> Result<()> {
    async fn plain(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let sampled = ctx.sample("How are you?").await?;
        let SampleExchange { request, response, messages, parsed, .. } = &sampled.exchange;
        assert_eq!((request.role, response.role), (Role::User, Role::Assistant));
        assert!(parsed.is_none(), "data only where data were asked for");
        assert_eq!(*messages, [request.clone(), response.clone()]);
        Ok(Json(json!({"messages": messages})))
    }
    let got = run(Tool::new("tool", "Tells", plain), Answers::new().sample("sample", "Well.")).await?;
    assert_eq!(
        got["messages"],
        json!([
            {"role": "user", "content": {"type": "text", "text": "How are you?"}},
            {"role": "assistant", "content": {"type": "text", "text": "Well."}},
        ])
    );
    Ok(())
}

#[tokio::test]
async fn both_kinds_of_exchange_make_one_history_and_go_out_with_the_next_question() -> Result<()> {
    async fn history(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let mut history = History::new();
        let picked = ctx.elicit::<Move>("Your move").await?.into_answer()?;
        let ElicitExchange { request, response, .. } = picked.exchange();
        // A question to a person is the assistant's, one to a model the user's.
        assert_eq!((request.role, response.role), (Role::Assistant, Role::User));
        history.push(picked.exchange())?;
        let sampled = ctx.sample_schema::<Move>("And now you").history(&history).await?;
        let parsed: Move = sampled.exchange.parsed.clone().expect("data were asked for");
        assert_eq!(parsed, sampled.parsed);
        history.push(sampled.exchange)?;
        let comment = ctx.sample("Who wins?").history(&history).await?;
        history.push(comment.exchange)?;
        Ok(Json(json!({"history": history})))
    }
    let answers = Answers::new()
        .accept("move", json!({"cell": 0}))
        .data("sample_schema", json!({"cell": 4}))
        .sample("sample", "Nobody.");
    let got = run(Tool::new("tool", "Tells", history), answers).await?;
    let history: Vec<Message> = serde_json::from_value(got["history"].clone())?;
    assert_eq!(history.len(), 7);
    assert!(History::from_messages(history).is_ok());
    let id = got["history"][0]["content"][0]["id"].as_str().unwrap();
    assert!(id.starts_with("elicit_move_"), "{id}");
    assert_eq!(got["history"][1]["content"][0]["toolUseId"], id);
    Ok(())
}

#[tokio::test]
async fn a_conversation_can_be_asked_about_as_it_is() -> Result<()> {
    async fn whole(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let mut history = History::from_messages([Message::user("Left or right?")])?;
        let sampled = ctx.sample(&history).await?;
        // The question is in the history already, and is not repeated.
        history.push(sampled.exchange)?;
        Ok(Json(json!({"history": history})))
    }
    let got = run(Tool::new("tool", "Tells", whole), Answers::new().sample("sample", "Left.")).await?;
    assert_eq!(got["history"].as_array().map(Vec::len), Some(2));
    Ok(())
}

#[tokio::test]
async fn an_exchange_can_echo_its_data() -> Result<()> {
    async fn echo(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        Ok(Json(json!({"messages": ctx.sample_schema::<Move>("?").await?.exchange.with_echo().messages})))
    }
    let got = run(Tool::new("tool", "Tells", echo), Answers::new().data("sample_schema", json!({"cell": 4})))
        .await?;
    assert_eq!(got["messages"][1]["content"][0]["input"], json!({}));
    assert_eq!(got["messages"][2]["content"][0]["content"][0]["text"], "{\"cell\":4}");
    Ok(())
}

#[tokio::test]
async fn calls_are_in_the_exchange_as_they_came() -> Result<()> {
    async fn calls(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let reply = ctx.sample("?").tools([ToolDefinition::new("go", json!({}))]).await?;
        let results: Vec<_> = reply
            .calls
            .iter()
            .map(|call| ToolResult::new(call, ToolOutput::error(format!("no way {}", call.id))))
            .collect();
        let exchange = reply.exchange.close(results)?;
        Ok(Json(json!({"messages": exchange.messages})))
    }
    let got = run(
        Tool::new("tool", "Tells", calls),
        Answers::new().calls("sample", &[("go", json!({"way": 1})), ("go", json!({"way": 2}))]),
    )
    .await?;
    assert_eq!(
        got["messages"].as_array().unwrap()[1..],
        [
            json!({"role": "assistant", "content": [
                {"type": "tool_use", "id": "call_1", "name": "go", "input": {"way": 1}},
                {"type": "tool_use", "id": "call_2", "name": "go", "input": {"way": 2}},
            ]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "toolUseId": "call_1", "isError": true, "content": [{"type": "text", "text": "no way call_1"}]},
                {"type": "tool_result", "toolUseId": "call_2", "isError": true, "content": [{"type": "text", "text": "no way call_2"}]},
            ]}),
        ]
    );
    Ok(())
}

/// The history of the seed's own example, in another house's style, and the same in ours.
#[test]
fn a_history_in_another_houses_style_is_taken_in_at_the_edge() {
    let foreign = [
        json!({"role": "system", "content": "You play X."}),
        json!({"role": "user", "content": "Board: ..."}),
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "play_offensive", "arguments": {"reasoning": "r"}}},
            {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ]}),
        json!({"role": "tool", "tool_call_id": "c1", "content": "Playing. Now pick your cell."}),
        json!({"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "Seen."}]}),
        json!({"role": "user", "content": [{"type": "text", "text": "And?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}),
    ];
    let taken = Conversation::from_openai(&foreign).unwrap();
    assert_eq!(taken.system_prompt.as_deref(), Some("You play X."));
    let ours = vec![
        Message::user("Board: ..."),
        Message::assistant([
            Block::tool_use("c1", "play_offensive", json!({"reasoning": "r"})),
            Block::tool_use("c2", "look", json!({})),
        ]),
        Message::user([
            Block::tool_result("c1", [Content::text("Playing. Now pick your cell.")]),
            Block::tool_result("c2", [Content::text("Seen.")]),
        ]),
        Message::user([Block::text("And?"), Block::image("AA==", "image/png")]),
    ];
    assert_eq!(taken.messages, ours);
    // What is written is read again, is a history, and has nothing of the other house in it.
    let written = json!(ours);
    assert_eq!(serde_json::from_value::<Vec<Message>>(written.clone()).unwrap(), ours);
    assert!(History::from_messages(ours).is_ok());
    let text = written.to_string();
    assert!(!text.contains("tool_calls") && !text.contains("tool_call_id") && !text.contains("\"tool\""));
}

#[test]
fn what_is_no_such_history_is_refused_with_its_place() {
    for (message, problem) in [
        (json!({"role": "tool", "content": "x"}), "message 0: the `tool` message has no `tool_call_id`"),
        (json!({"role": "robot"}), "message 0: the role `robot` is not supported"),
        (
            json!({"role": "assistant", "content": null}),
            "message 0: the assistant message has neither `content` nor `tool_calls`",
        ),
    ] {
        assert_eq!(Conversation::from_openai(&[message]).unwrap_err().to_string(), problem);
    }
}

/// Whether a message is MCP's, all through: a role, blocks of MCP's five types, and nothing of another house.
fn is_mcp(message: &Value) -> bool {
    let blocks = match &message["content"] {
        Value::Array(blocks) => blocks.clone(),
        block => vec![block.clone()],
    };
    let known = ["text", "image", "audio", "tool_use", "tool_result"];
    let foreign = ["tool_calls", "tool_call_id", "function", "name"];
    (message["role"] == "user" || message["role"] == "assistant")
        && foreign.iter().all(|field| message.get(field).is_none())
        && !blocks.is_empty()
        && blocks.iter().all(|block| known.iter().any(|kind| block["type"] == *kind))
}

/// All exchanges there are, with replies of every shape.
#[tokio::test]
async fn every_exchange_is_made_of_mcp_blocks() -> Result<()> {
    async fn all(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let tools = || [ToolDefinition::of::<Move>("play")];
        let mut messages: Vec<Message> = Vec::new();
        let picked = ctx.elicit::<Move>("Your move").await?.into_answer()?;
        let ElicitExchange { request, response, .. } = picked.exchange();
        messages.extend([request, response]);
        messages.extend(ctx.sample("Text?").key("text").await?.exchange.messages);
        messages.extend(ctx.sample("Data?").schema::<Move>().key("data").await?.exchange.messages);
        messages.extend(ctx.sample("Data?").schema::<Move>().key("wrong").await?.exchange.messages);
        messages.extend(ctx.sample_schema::<Move>("Data!").key("sure").await?.exchange.messages);
        messages.extend(ctx.sample_schema::<Move>("Data!").key("echo").await?.exchange.with_echo().messages);
        messages.extend(ctx.sample("Calls?").tools(tools()).key("none").await?.exchange.messages);
        let calls = ctx.sample("Calls?").tools(tools()).key("calls").await?;
        messages.extend(calls.exchange.close_with(|_| "done").messages);
        let calls = ctx.sample_tools("Calls!", tools()).key("called").await?;
        let results =
            calls.calls.iter().map(|call| ToolResult::new(call, ToolOutput::error("no"))).collect::<Vec<_>>();
        messages.extend(calls.exchange.close(results)?.messages);
        Ok(Json(json!({"messages": messages})))
    }
    let cell = json!({"cell": 1});
    for text in
        ["", "plain", r#"{"cell": 4}"#, "```json\n{\"cell\": 4}\n```", r#"{"tool_calls": []}"#, "<tool>"]
    {
        let answers = Answers::new()
            .accept("move", cell.clone())
            .sample("text", text)
            .data("data", cell.clone())
            .sample("wrong", text)
            .data("sure", cell.clone())
            .data("echo", cell.clone())
            .sample("none", text)
            .calls("calls", &[("play", cell.clone()), ("play", cell.clone())])
            .calls("called", &[("play", cell.clone())]);
        let got = run(Tool::new("tool", "Tells", all), answers).await?;
        let messages = got["messages"].as_array().unwrap();
        assert!(messages.len() > 20, "{messages:?}");
        for message in messages {
            assert!(is_mcp(message), "{message}");
        }
    }
    Ok(())
}
