//! Calls from models.

use antiphon::{
    ErrorKind, ToolOutput, ToolResult,
    exchange::History,
    prelude::*,
    sampling::{Message, SampleMethod, ToolCalls, ToolChoice, ToolDefinition},
    testing::{Answers, Replicas, Revision},
};
use serde_json::{Value, json};

use crate::{
    checked::{connect, connect_with},
    sample_schema::Move,
};

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Offence {
    reasoning: String,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Defence {
    threat: String,
}

fn strategies() -> [ToolDefinition; 2] {
    [
        ToolDefinition::of::<Offence>("play_offensive").with_description("Attack"),
        ToolDefinition::of::<Defence>("play_defensive"),
    ]
}

async fn plan(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let plan = ctx.sample_tools("Choose your strategy.", strategies()).await?;
    assert_eq!(plan.calls[0], *plan.calls.first());
    Ok(Json(json!({"calls": plan.calls, "stop": plan.stop_reason, "messages": plan.exchange.messages})))
}

fn server() -> antiphon::ServerBuilder {
    Server::builder("models", "1.0.0").tool(Tool::new("plan", "Plans", plan))
}

#[tokio::test]
async fn text_twice_and_then_a_call_is_three_requests() -> Result<()> {
    for revision in Revision::BOTH {
        let answers = Answers::new()
            .sample("sample_tools", "I would attack.")
            .calls("sample_tools", &[("play_dead", json!({}))])
            .calls("sample_tools", &[("play_offensive", json!({"reasoning": "why not"}))]);
        let mut client = connect(&server().build()?, revision).await?.answering(answers);
        let talk = client.call("plan", json!({})).await?;
        assert_eq!(talk.asked.len(), 3);
        let got = &talk.result["structuredContent"];
        assert_eq!(got["calls"][0]["name"], "play_offensive");
        assert_eq!(got["stop"], "toolUse");
        for question in &talk.asked {
            assert_eq!(question.params["toolChoice"], json!({"mode": "required"}), "by default");
            assert_eq!(question.params["tools"][0]["description"], "Attack");
            assert!(question.params["tools"][1].get("description").is_none());
        }
        let hint = talk.asked[1].message();
        assert!(hint.contains("the model did not return tool calls"), "{hint}");
        assert!(hint.ends_with("one of the available tools: `play_offensive`, `play_defensive`"), "{hint}");
        let hint = talk.asked[2].params["messages"].to_string();
        assert!(hint.contains("there is no tool `play_dead`"), "{hint}");
        assert!(!got["messages"].to_string().contains("play_dead"), "what failed is in no history");
    }
    Ok(())
}

/// What a tool sees of calls, by every way that there is to see them.
async fn seen(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let conversation = vec![
        Message::user("You play X."),
        Message::assistant("I know the rules."),
        Message::user("Choose your strategy."),
    ];
    let plan = ctx.sample_tools(conversation.clone(), strategies()).await?;
    let once = ctx.sample(conversation).tools(strategies()).key("once").await?;
    let seen =
        |stop: &Option<String>, calls: &[antiphon::tool::ToolCall], reply: Vec<antiphon::tool::ToolCall>| {
            assert_eq!(calls, reply, "the reply has the calls too");
            json!({"stop": stop, "calls": calls.len()})
        };
    Ok(Json(json!({
        "plan": seen(&plan.stop_reason, &plan.calls, plan.tool_calls()),
        "once": seen(&once.stop_reason, &once.calls, once.tool_calls()),
    })))
}

#[tokio::test]
async fn calls_recovered_from_text_are_calls_in_the_reply_too() -> Result<()> {
    let call = json!({"tool_calls": [{"name": "play_offensive", "arguments": {"reasoning": "why not"}}]});
    let server = Server::builder("m", "1").tool(Tool::new("seen", "Sees", seen)).build()?;
    let expected = json!({"plan": {"stop": "toolUse", "calls": 1}, "once": {"stop": "toolUse", "calls": 1}});
    for revision in Revision::BOTH {
        // A client without `sampling.tools`: it is told of the tools in words, and answers in words.
        let answers =
            Answers::new().sample("sample_tools", &call.to_string()).sample("once", &call.to_string());
        let mut client = connect_with(&server, revision, json!({"sampling": {}})).await?.answering(answers);
        let talk = client.call("seen", json!({})).await?;
        assert_eq!(talk.result["structuredContent"], expected, "{revision:?}: {}", talk.text());
        for question in &talk.asked {
            assert!(question.params.get("tools").is_none());
            let messages = question.params["messages"].as_array().unwrap();
            assert_eq!(messages.len(), 3, "the messages are sent as they were given");
            assert!(question.message().starts_with("Choose your strategy.\n\nYou have these tools"));
        }
        // One with tools that does not give the reason.
        let lone = json!({"role": "assistant", "model": "m", "content": [
            {"type": "tool_use", "id": "c", "name": "play_offensive", "input": {"reasoning": "why not"}}]});
        let answers = Answers::new().raw("sample_tools", lone.clone()).raw("once", lone);
        let mut client = connect(&server, revision).await?.answering(answers);
        let talk = client.call("seen", json!({})).await?;
        assert_eq!(talk.result["structuredContent"], expected, "{revision:?}: {}", talk.text());
        for question in &talk.asked {
            assert_eq!(question.params["messages"].as_array().unwrap().len(), 3);
            assert_eq!(question.params["messages"][1]["content"]["text"], "I know the rules.");
            assert_eq!(question.params["tools"].as_array().unwrap().len(), 2);
        }
    }
    Ok(())
}

#[tokio::test]
async fn messages_are_kept_and_the_hint_comes_last() -> Result<()> {
    async fn plan(ctx: &Ctx, _: ()) -> Result<String> {
        let messages =
            vec![Message::user("You play X."), Message::assistant("Yes."), Message::user("Choose.")];
        Ok(ctx.sample_tools(messages, strategies()).await?.calls.first().name.clone())
    }
    let server = Server::builder("m", "1").tool(Tool::new("plan", "Plans", plan)).build()?;
    for revision in Revision::BOTH {
        let answers = Answers::new()
            .sample("sample_tools", "I would attack.")
            .calls("sample_tools", &[("play_offensive", json!({"reasoning": "why not"}))]);
        let mut client = connect(&server, revision).await?.answering(answers);
        let talk = client.call("plan", json!({})).await?;
        assert_eq!(talk.text(), "play_offensive");
        let [first, second] = &talk.asked[..] else { panic!("{:?}", talk.keys()) };
        let messages = |question: &antiphon::testing::Question| question.params["messages"].clone();
        let (first, second) = (messages(first), messages(second));
        assert_eq!(first.as_array().unwrap().len(), 3);
        assert_eq!(second.as_array().unwrap()[..3], first.as_array().unwrap()[..], "what was given stays");
        let last = second.as_array().unwrap().last().unwrap();
        assert!(last["role"] == "user" && last.to_string().contains("did not return tool calls"), "{last}");
    }
    Ok(())
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_asked_for_again() -> Result<()> {
    let answers = Answers::new()
        .calls("sample_tools", &[("play_offensive", json!({"reason": "typo"}))])
        .calls("sample_tools", &[("play_offensive", json!({"reasoning": "better"}))]);
    let mut client = connect(&server().build()?, Revision::V2025_11_25).await?.answering(answers);
    let talk = client.call("plan", json!({})).await?;
    assert_eq!(talk.result["structuredContent"]["calls"][0]["arguments"], json!({"reasoning": "better"}));
    let hint = talk.asked[1].params["messages"][2]["content"][0]["content"][0]["text"].as_str().unwrap();
    assert!(hint.contains("- play_offensive: (root): \"reasoning\" is a required property (got {"), "{hint}");
    Ok(())
}

#[tokio::test]
async fn a_model_that_never_calls_is_a_validation_error() -> Result<()> {
    async fn never(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let error = ctx.sample_tools("Choose.", strategies()).await.expect_err("the model only talks");
        let ErrorKind::SampleValidation(failed) = error.kind() else { return Err(error) };
        assert_eq!((failed.method, failed.attempts), (SampleMethod::SampleTools, 3));
        assert_eq!(failed.last_result.text(), "No.");
        Ok(Json(json!({"error": error.to_string()})))
    }
    let server = Server::builder("m", "1").tool(Tool::new("never", "Never", never)).build()?;
    for revision in Revision::BOTH {
        let mut client =
            connect(&server, revision).await?.answering(Answers::new().sample("sample_tools", "No."));
        let talk = client.call("never", json!({})).await?;
        assert_eq!(talk.asked.len(), 3);
        assert_eq!(
            talk.result["structuredContent"]["error"],
            "sample_tools failed after 3 attempts: the model did not return tool calls"
        );
    }
    Ok(())
}

#[tokio::test]
async fn several_calls_come_back_in_order_and_nothing_is_called() -> Result<()> {
    let calls = [("play_defensive", json!({"threat": "a"})), ("play_offensive", json!({"reasoning": "b"}))];
    for revision in Revision::BOTH {
        let answers = Answers::new().calls("sample_tools", &calls);
        let mut client = connect(&server().build()?, revision).await?.answering(answers);
        let talk = client.call("plan", json!({})).await?;
        assert_eq!(talk.asked.len(), 1, "what to do about the calls is the tool's affair");
        assert_eq!(
            talk.result["structuredContent"]["calls"],
            json!([
                {"id": "call_1", "name": "play_defensive", "arguments": {"threat": "a"}},
                {"id": "call_2", "name": "play_offensive", "arguments": {"reasoning": "b"}},
            ])
        );
    }
    Ok(())
}

#[tokio::test]
async fn every_choice_reaches_the_wire() -> Result<()> {
    async fn choose(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        for choice in [ToolChoice::Auto, ToolChoice::Required, ToolChoice::None] {
            ctx.sample("?").tools(strategies()).tool_choice(choice).await?;
        }
        ctx.sample("?").tools(strategies()).await?;
        let called = ctx.sample_tools("?", strategies()).tool_choice(ToolChoice::Auto).retries(0).await;
        Ok(Json(json!({"called": called.is_ok()})))
    }
    let server = Server::builder("m", "1").tool(Tool::new("choose", "Chooses", choose)).build()?;
    let mut client =
        connect(&server, Revision::V2025_11_25).await?.answering(Answers::new().sample("sample", "!"));
    let talk = client.call("choose", json!({})).await?;
    let choices: Vec<_> = talk.asked.iter().map(|question| question.params.get("toolChoice")).collect();
    let mode = |mode: &str| json!({"mode": mode});
    assert_eq!(
        choices,
        [Some(&mode("auto")), Some(&mode("required")), Some(&mode("none")), None, Some(&mode("auto"))]
    );
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_before_anybody_is_asked() -> Result<()> {
    async fn wrong(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let mut said = Vec::new();
        said.push(ctx.sample_tools("?", []).await.expect_err("no tools").to_string());
        let none = ctx.sample_tools("?", strategies()).tool_choice(ToolChoice::None);
        said.push(none.await.expect_err("none").to_string());
        let twice = strategies().into_iter().chain(strategies());
        said.push(ctx.sample_tools("?", twice).await.expect_err("two of each").to_string());
        let dangling = ctx.sample(vec![
            Message::user("?"),
            Message::assistant(antiphon::sampling::Block::tool_use("1", "go", json!({}))),
        ]);
        said.push(dangling.await.expect_err("a call without a result").to_string());
        Ok(Json(json!({"said": said})))
    }
    let server = Server::builder("m", "1").tool(Tool::new("wrong", "Errs", wrong)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let talk = client.call("wrong", json!({})).await?;
    assert!(talk.asked.is_empty());
    assert_eq!(
        talk.result["structuredContent"]["said"],
        json!([
            "the model must call a tool, but no tools were given; add at least one tool",
            "the model must call a tool, but the tool choice is `None`; use `Auto` or `Required`",
            "two tools have the name `play_offensive`: rename one of them",
            "the call `1` of `go` has no result; add it with `OpenExchange::close` before you add the exchange to a history",
        ])
    );
    Ok(())
}

#[test]
fn calls_are_at_least_one() {
    assert!(ToolCalls::new(Vec::new()).is_none());
    assert!(serde_json::from_value::<ToolCalls>(json!([])).is_err());
    let calls: ToolCalls =
        serde_json::from_value(json!([{"id": "1", "name": "a", "arguments": {}}])).unwrap();
    assert_eq!(calls.first().name, calls[0].name);
}

/// Three levels: a strategy, a flank, a cell. Each level has other tools, and each sees what was
/// decided before.
async fn tree(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let mut history = History::new();
    let strategy = ctx.sample_tools("Choose your strategy.", strategies()).key("strategy").await?;
    let name = strategy.calls[0].name.clone();
    history.push(strategy.exchange.close_with(|call| format!("Playing {}.", call.name)))?;

    let flanks = ["left", "right"].map(|side| ToolDefinition::new(format!("{name}_{side}"), json!({})));
    let flank = ctx.sample_tools("On which side?", flanks).key("flank").history(&history).await?;
    let results: Vec<_> =
        flank.calls.iter().map(|call| ToolResult::new(call, ToolOutput::text("As you say."))).collect();
    let side = flank.calls[0].name.clone();
    history.push(flank.exchange.close(results)?)?;

    let pick = ctx.sample_schema::<Move>("Now pick your cell.").key("cell").history(&history).await?;
    history.push(pick.exchange)?;
    Ok(Json(json!({"side": side, "cell": pick.parsed.cell, "history": history})))
}

fn tree_answers() -> Answers {
    Answers::new()
        .calls("strategy", &[("play_offensive", json!({"reasoning": "x"}))])
        .calls("flank", &[("play_offensive_left", json!({}))])
        .data("cell", json!({"cell": 6}))
}

#[tokio::test]
async fn a_decision_tree_is_walked_with_other_tools_on_every_level() -> Result<()> {
    let server = Server::builder("m", "1").tool(Tool::new("tree", "Decides", tree)).build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?.answering(tree_answers());
        let talk = client.call("tree", json!({})).await?;
        let got = &talk.result["structuredContent"];
        assert_eq!((&got["side"], &got["cell"]), (&json!("play_offensive_left"), &json!(6)));
        let offered: Vec<Vec<&str>> = talk
            .asked
            .iter()
            .map(|question| {
                let tools = question.params["tools"].as_array().unwrap();
                tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
            })
            .collect();
        assert_eq!(
            offered,
            [
                vec!["play_offensive", "play_defensive"],
                vec!["play_offensive_left", "play_offensive_right"],
                vec!["__schema__"]
            ]
        );
        // The last request shows what was decided, as calls with their results.
        let shown = &talk.asked[2].params["messages"];
        let roles: Vec<_> = shown.as_array().unwrap().iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, ["user", "assistant", "user", "user", "assistant", "user", "user"]);
        assert_eq!(shown[1]["content"][0]["name"], "play_offensive");
        assert_eq!(shown[2]["content"][0]["toolUseId"], shown[1]["content"][0]["id"]);
        assert_eq!(shown[2]["content"][0]["content"][0]["text"], "Playing play_offensive.");
        assert_eq!(got["history"].as_array().map(Vec::len), Some(9));
    }
    Ok(())
}

#[tokio::test]
async fn a_client_without_tools_walks_the_same_tree() -> Result<()> {
    let server = Server::builder("m", "1").tool(Tool::new("tree", "Decides", tree)).build()?;
    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let answers = Answers::new()
        .sample("strategy", &call("play_offensive", json!({"reasoning": "x"})).to_string())
        .sample("flank", &format!("Left! {}", call("play_offensive_left", json!({}))))
        .sample("cell", "```json\n{\"cell\": 6}\n```");
    let mut client =
        connect_with(&server, Revision::V2026_07_28, json!({"sampling": {}})).await?.answering(answers);
    let talk = client.call("tree", json!({})).await?;
    let got = &talk.result["structuredContent"];
    assert_eq!((&got["side"], &got["cell"]), (&json!("play_offensive_left"), &json!(6)));
    assert_eq!(
        got["history"].as_array().map(Vec::len),
        Some(9),
        "the history is one with tools all the same"
    );
    Ok(())
}

#[tokio::test]
async fn a_tree_survives_replicas() -> Result<()> {
    let report = Replicas::new(|| Server::builder("m", "1").tool(Tool::new("tree", "Decides", tree)))
        .run("tree", json!({}), tree_answers)
        .await?;
    assert_eq!(report.result["structuredContent"]["cell"], 6);
    Ok(())
}

#[tokio::test]
async fn an_exchange_with_calls_is_closed_with_all_their_results_and_no_other() -> Result<()> {
    async fn close(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let plan = ctx.sample_tools("?", strategies()).await?;
        let result = |id: &str| {
            let mut result = ToolResult::new(&plan.calls[0], ToolOutput::text("done"));
            result.id = Some(id.to_owned());
            result
        };
        let one = plan.exchange.clone().close([result("call_1")]).expect_err("one is missing").to_string();
        let all = [result("call_1"), result("call_2"), result("call_3")];
        let three = plan.exchange.clone().close(all).expect_err("one too many").to_string();
        let closed = plan.exchange.close([result("call_1"), result("call_2")])?;
        Ok(Json(json!({"one": one, "three": three, "messages": closed.messages})))
    }
    let server = Server::builder("m", "1").tool(Tool::new("close", "Closes", close)).build()?;
    let calls = [("play_defensive", json!({"threat": "a"})), ("play_defensive", json!({"threat": "b"}))];
    let mut client = connect(&server, Revision::V2025_11_25)
        .await?
        .answering(Answers::new().calls("sample_tools", &calls));
    let got = client.call("close", json!({})).await?.result["structuredContent"].clone();
    assert!(got["one"].as_str().unwrap().starts_with("the call `call_2` of `play_defensive` has no result"));
    assert_eq!(
        got["three"],
        "the tool result for the call `call_3` has no matching tool call in the message directly before it"
    );
    assert_eq!(got["messages"].as_array().map(Vec::len), Some(3), "one message with both results");
    assert_eq!(got["messages"][2]["content"].as_array().map(Vec::len), Some(2));
    Ok(())
}
