//! Asking models.

use antiphon::{
    prelude::*,
    sampling::{IncludeContext, Message, ToolChoice, ToolDefinition},
    testing::{Answers, Revision},
};
use serde_json::{Value, json};

use crate::checked::{connect, connect_with};

async fn summarize(ctx: &Ctx, _: ()) -> Result<String> {
    let reply = ctx.sample("Summarize this").system("Be brief").max_tokens(100).temperature(0.5).await?;
    Ok(format!("{}: {}", reply.model, reply.text()))
}

fn serve(tool: Tool) -> Result<Server> {
    Ok(Server::builder("models", "1.0.0").tool(tool).build()?)
}

#[tokio::test]
async fn one_sample_is_one_request() -> Result<()> {
    for revision in Revision::BOTH {
        let server = serve(Tool::new("summarize", "Summarizes", summarize))?;
        let mut client =
            connect(&server, revision).await?.answering(Answers::new().sample("sample", "Short."));
        let talk = client.call("summarize", json!({})).await?;
        assert_eq!(talk.text(), "test: Short.");
        assert_eq!(talk.asked.len(), 1);
        let question = &talk.asked[0];
        assert_eq!(question.method, "sampling/createMessage");
        assert_eq!(
            question.params["messages"],
            json!([{"role": "user", "content": {"type": "text", "text": "Summarize this"}}])
        );
        assert_eq!(question.params["maxTokens"], 100);
        assert_eq!(question.params["systemPrompt"], "Be brief");
        assert_eq!(question.params.get("tools"), None);
    }
    Ok(())
}

fn look_up() -> ToolDefinition {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    ToolDefinition::new("look_up", schema).with_description("Looks it up")
}

async fn with_tools(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let reply = ctx.sample("Weather?").tools([look_up()]).tool_choice(ToolChoice::Required).await?;
    Ok(Json(json!({"calls": reply.calls, "why": reply.stop_reason, "blocks": reply.content.len()})))
}

#[tokio::test]
async fn a_sample_with_tools_brings_back_calls_in_order() -> Result<()> {
    let reply = json!({"role": "assistant", "model": "m", "stopReason": "toolUse", "content": [
        {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"city": "Lisbon"}},
        {"type": "tool_use", "id": "c2", "name": "look_up", "input": {"city": "Porto"}},
    ]});
    for revision in Revision::BOTH {
        let server = serve(Tool::new("weather", "Asks", with_tools))?;
        let mut client =
            connect(&server, revision).await?.answering(Answers::new().raw("sample", reply.clone()));
        let talk = client.call("weather", json!({})).await?;
        assert_eq!(talk.asked[0].params["tools"][0]["name"], "look_up");
        assert_eq!(talk.asked[0].params["toolChoice"], json!({"mode": "required"}));
        assert_eq!(
            talk.result["structuredContent"],
            json!({"why": "toolUse", "blocks": 2, "calls": [
                {"id": "c1", "name": "look_up", "arguments": {"city": "Lisbon"}},
                {"id": "c2", "name": "look_up", "arguments": {"city": "Porto"}},
            ]})
        );
    }
    Ok(())
}

#[tokio::test]
async fn tools_are_never_sent_to_a_client_that_has_not_declared_them() -> Result<()> {
    for revision in Revision::BOTH {
        let server = serve(Tool::new("weather", "Asks", with_tools))?;
        let said = r#"I'll look: {"tool_calls": [{"name": "look_up", "arguments": {"city": "Lisbon"}}]}"#;
        let mut client = connect_with(&server, revision, json!({"sampling": {}}))
            .await?
            .answering(Answers::new().sample("sample", said));
        let talk = client.call("weather", json!({})).await?;
        let params = &talk.asked[0].params;
        assert!(params.get("tools").is_none() && params.get("toolChoice").is_none(), "{params}");
        assert!(talk.asked[0].message().contains("`look_up`"), "the tools are told in words");
        let call = &talk.result["structuredContent"]["calls"][0];
        assert_eq!((&call["name"], &call["arguments"]), (&json!("look_up"), &json!({"city": "Lisbon"})));
    }
    Ok(())
}

#[tokio::test]
async fn context_is_asked_for_only_where_it_is_declared() -> Result<()> {
    async fn with_context(ctx: &Ctx, _: ()) -> Result<String> {
        Ok(ctx.sample("What now?").include_context(IncludeContext::ThisServer).await?.text())
    }
    let server = serve(Tool::new("now", "Asks", with_context))?;
    let mut client = connect_with(&server, Revision::V2025_11_25, json!({"sampling": {}})).await?;
    let talk = client.call("now", json!({})).await?;
    assert!(talk.is_error() && talk.asked.is_empty());
    let mut client =
        connect_with(&server, Revision::V2025_11_25, json!({"sampling": {"context": {}}})).await?;
    let talk = client.call("now", json!({})).await?;
    assert_eq!(talk.asked[0].params["includeContext"], "thisServer");
    Ok(())
}

#[tokio::test]
async fn the_reserved_tool_cannot_be_given_to_a_model() -> Result<()> {
    async fn reserved(ctx: &Ctx, _: ()) -> Result<String> {
        let tool = ToolDefinition::new("__schema__", json!({}));
        Ok(ctx.sample("?").tools([tool]).await?.text())
    }
    let mut client = connect(&serve(Tool::new("reserved", "Errs", reserved))?, Revision::V2025_11_25).await?;
    let talk = client.call("reserved", json!({})).await?;
    assert!(talk.is_error());
    assert_eq!(talk.text(), "`__schema__` is a reserved tool name; rename the tool");
    Ok(())
}

#[tokio::test]
async fn a_reply_may_be_one_block_or_many() -> Result<()> {
    async fn history(ctx: &Ctx, _: ()) -> Result<String> {
        let messages = vec![Message::user("a"), Message::assistant("b"), Message::user("c")];
        Ok(ctx.sample(messages).await?.text())
    }
    let one = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}});
    let many = json!({"role": "assistant", "model": "m", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]});
    for (reply, text) in [(one, "x"), (many, "x\ny")] {
        for revision in Revision::BOTH {
            let server = serve(Tool::new("history", "Asks", history))?;
            let mut client =
                connect(&server, revision).await?.answering(Answers::new().raw("sample", reply.clone()));
            let talk = client.call("history", json!({})).await?;
            assert_eq!(talk.text(), text);
            assert_eq!(talk.asked[0].params["messages"].as_array().map(Vec::len), Some(3));
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_client_that_refuses_is_told_apart() -> Result<()> {
    async fn refused(ctx: &Ctx, _: ()) -> Result<String> {
        let error = ctx.sample("?").await.expect_err("the client refuses");
        Ok(format!("{:?}", error.kind()))
    }
    let server = serve(Tool::new("refused", "Asks", refused))?;
    let mut client = connect_with(&server, Revision::V2025_11_25, json!({})).await?;
    assert_eq!(client.call("refused", json!({})).await?.text(), "Unsupported(Sampling)");
    Ok(())
}
