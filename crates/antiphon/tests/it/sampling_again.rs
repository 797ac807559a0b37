//! What once went wrong with models, and must not again.

use std::{future::Future, ops::ControlFlow, time::Duration};

use antiphon::{
    ToolOutput, ToolResult,
    exchange::{AnyExchange, History},
    prelude::*,
    sampling::{Message, Model, ModelError, Reply, Request, SamplingPolicy, ToolChoice, ToolDefinition},
    testing::{Answers, Replicas, Revision, Talk},
};
use antiphon_llm::{BoxFuture, Scripted};
use serde_json::{Value, json};

use crate::{
    checked::{connect, connect_with},
    sample_schema::Move,
    sampling_edges::Picky,
};

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(8), what).await.expect("it hangs")
}

async fn rest(millis: u64) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Ok(())
}

/// Says after `.0` ms what it was asked.
#[derive(Debug)]
struct Echo(u64);

impl Model for Echo {
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(self.0)).await;
            Ok(Reply::new("m", format!("re {}", request.messages.last().unwrap().text())))
        })
    }
    fn name(&self) -> &'static str {
        "echo"
    }
}

async fn plain(tool: Tool, answers: Answers) -> Result<Talk> {
    let server = Server::builder("s", "1").tool(tool).build()?;
    let capabilities = json!({"sampling": {}, "elicitation": {}});
    let mut client = connect_with(&server, Revision::V2025_11_25, capabilities).await?.answering(answers);
    within(client.call("t", json!({}))).await
}

#[tokio::test]
async fn in_a_loop_a_question_never_gets_the_answer_to_the_one_before() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.loop_with_state("loop", 1u32, async |ctx, turn: u32| {
            let question = format!("turn {turn}");
            if turn == 2 {
                return Ok(ControlFlow::Break(ctx.sample(question).await?.text()));
            }
            let pause = || async { rest(10).await };
            tokio::select! {
                reply = ctx.sample(question) => { reply?; }
                done = ctx.step("pause", pause) => done?,
            }
            Ok(ControlFlow::Continue(2))
        })
        .await
    }
    for revision in Revision::BOTH {
        let server =
            Server::builder("s", "1").tool(Tool::new("t", "T", tool)).with_model(Echo(50)).build()?;
        let mut client = connect_with(&server, revision, json!({})).await?;
        assert_eq!(within(client.call("t", json!({}))).await?.text(), "re turn 2", "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_part_of_broken_json_is_not_the_answer() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        Ok(ctx.sample_schema::<Move>("?").retries(0).await?.parsed.cell.to_string())
    }
    let text = r#"{"cell": 4, "reasoning": "best", "rejected": {"cell": 1, "reasoning": "weak"},}"#;
    let talk = plain(Tool::new("t", "T", tool), Answers::new().sample("sample_schema", text)).await?;
    assert!(talk.is_error(), "{}", talk.text());
    Ok(())
}

#[tokio::test]
async fn a_provider_that_panics_is_answered() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        Ok(ctx.sample("?").await?.text())
    }
    let model = Scripted::new().otherwise(|_| panic!("a defect in a model"));
    let server = Server::builder("s", "1").tool(Tool::new("t", "T", tool)).with_model(model).build()?;
    let mut client = connect_with(&server, Revision::V2025_11_25, json!({})).await?;
    assert!(within(client.call("t", json!({}))).await?.is_error());
    Ok(())
}

#[tokio::test]
async fn a_loop_asks_anew_what_failed_the_time_before() -> Result<()> {
    async fn person(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.loop_with_state("loop", 1u32, async |ctx, turn: u32| match ctx.elicit::<Move>("?").await {
            Ok(answer) => Ok(ControlFlow::Break(format!("{} at {turn}", answer.accepted()?.cell))),
            Err(_) if turn < 3 => Ok(ControlFlow::Continue(turn + 1)),
            Err(error) => Err(error),
        })
        .await
    }
    async fn model(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.loop_with_state("loop", 1u32, async |ctx, turn: u32| match ctx.sample("?").await {
            Ok(reply) => Ok(ControlFlow::Break(format!("{} at {turn}", reply.text()))),
            Err(_) if turn < 3 => Ok(ControlFlow::Continue(turn + 1)),
            Err(error) => Err(error),
        })
        .await
    }
    let answers = Answers::new().error("move", -1, "not now").accept("move", json!({"cell": 4}));
    assert_eq!(plain(Tool::new("t", "T", person), answers).await?.text(), "4 at 2");
    let scripted = Scripted::new().then(Err(ModelError::Unavailable("busy".into()))).say("yes");
    let server = Server::builder("s", "1").tool(Tool::new("t", "T", model)).with_model(scripted).build()?;
    let mut client = connect_with(&server, Revision::V2026_07_28, json!({})).await?;
    assert_eq!(within(client.call("t", json!({}))).await?.text(), "yes at 2");
    Ok(())
}

#[tokio::test]
async fn a_request_nobody_waits_for_is_cancelled() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let pause = || async { rest(30).await };
        tokio::select! {
            reply = ctx.sample("slow") => { reply?; }
            done = ctx.step("pause", pause) => done?,
        }
        ctx.step("rest", || async { rest(100).await }).await?;
        Ok("done".into())
    }
    let server = Server::builder("s", "1").tool(Tool::new("t", "T", tool)).build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    client.start("tools/call", json!({"name": "t", "arguments": {}})).await?;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|method| method != "result") {
        let message = client.send_raw(r#"{"jsonrpc":"2.0","method":"notifications/nothing"}"#).await?;
        seen.push(message["method"].as_str().unwrap_or("result").to_owned());
    }
    assert!(seen.iter().any(|method| method == "notifications/cancelled"), "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn a_branch_in_a_loop_has_the_same_budget_on_replay() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let turns = ctx
            .branch("b", async |ctx| {
                ctx.loop_with_state("loop", 0u32, async |ctx, turn: u32| match ctx.sample("?").await {
                    Ok(_) if turn < 20 => Ok(ControlFlow::Continue(turn + 1)),
                    _ => Ok(ControlFlow::Break(turn)),
                })
                .await
            })
            .max_asks(2)
            .await?;
        Ok(format!("{turns} {}", ctx.elicit::<Move>(format!("{turns}")).await?.accepted()?.cell))
    }
    let server = || {
        Server::builder("s", "1")
            .tool(Tool::new("t", "T", tool))
            .with_model(Echo(0))
            .with_sampling(SamplingPolicy::ProviderOnly)
    };
    let answers = || Answers::new().accept("move", json!({"cell": 1}));
    let report = within(Replicas::new(server).schedules(4).run("t", json!({}), answers)).await?;
    assert_eq!(report.result["content"][0]["text"], "2 1");
    Ok(())
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Expr {
    Number(i64),
    Add(Box<Self>, Box<Self>),
}

#[tokio::test]
async fn a_recursive_type_that_is_wrapped_still_refers_to_itself() -> Result<()> {
    async fn typed(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        Ok(Json(json!({"x": ctx.sample_schema::<Expr>("?").retries(0).await?.parsed})))
    }
    async fn raw(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let items = json!({"$ref": "#/$defs/n"});
        let schema = json!({"$id": "https://example.com/x", "type": "array", "items": items, "$defs": {"n": {"type": "integer"}}});
        Ok(Json(json!({"x": ctx.sample_schema_value("?", schema).retries(0).await?.parsed})))
    }
    let text = r#"{"value": {"Add": [{"Number": 1}, {"Number": 2}]}}"#;
    let talk = plain(Tool::new("t", "T", typed), Answers::new().sample("sample_schema", text)).await?;
    assert!(!talk.is_error(), "{}", talk.text());
    let talk = plain(Tool::new("t", "T", raw), Answers::new().sample("sample_schema", "[4]")).await?;
    assert!(!talk.is_error(), "{}", talk.text());
    Ok(())
}

#[tokio::test]
async fn prose_before_the_answer_does_not_hide_it() -> Result<()> {
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(tag = "kind")]
    enum Act {
        Set { value: u8 },
    }
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let picked = ctx.sample_schema::<Move>("?").retries(0).await?;
        Ok(format!(
            "{} {}",
            picked.parsed.cell,
            json!(picked.exchange.response)["content"][0]["input"]["cell"]
        ))
    }
    async fn act(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        Ok(Json(json!({"x": ctx.sample_schema::<Act>("?").retries(0).await?.parsed})))
    }
    for text in [
        r#"As in [1], the centre is best: {"cell": 4, "reasoning": ""}"#,
        r#"Free: [2, 4]. My move: {"cell": 4, "reasoning": ""}"#,
        r#"The form is {"cell": "<number>"}, so: {"cell": 4, "reasoning": ""}"#,
    ] {
        let talk = plain(Tool::new("t", "T", tool), Answers::new().sample("sample_schema", text)).await?;
        assert_eq!(talk.text(), "4 4", "{text}");
    }
    let bare = Answers::new().sample("sample_schema", r#"{"kind": "Set", "value": 3}"#);
    assert!(!plain(Tool::new("t", "T", act), bare).await?.is_error());
    Ok(())
}

#[test]
fn brackets_cost_no_more_than_other_text() {
    let began = std::time::Instant::now();
    assert!(antiphon_llm::json_in(&"[".repeat(100_000)).is_err());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn text_is_no_call_where_none_was_meant() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let tools = || [ToolDefinition::new("go", json!({}))];
        let none = ctx.sample("?").tools(tools()).tool_choice(ToolChoice::None).await?;
        let auto = ctx.sample("?").tools(tools()).await?;
        Ok(format!("{} {}", none.calls.len(), auto.calls.len()))
    }
    let text = r#"There is {"name": "go", "description": "goes"}. Shall I?"#;
    let talk = plain(Tool::new("t", "T", tool), Answers::new().sample("sample", text)).await?;
    assert_eq!(talk.text(), "0 0");
    Ok(())
}

#[tokio::test]
async fn ids_of_calls_are_letters_digits_and_dashes() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let calls = ctx.sample_tools("?", [ToolDefinition::new("go", json!({}))]).await?.calls;
        Ok(calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>().join(" "))
    }
    let text = r#"{"tool_calls": [{"name": "go"}, {"name": "go"}]}"#;
    let talk = plain(Tool::new("t", "T", tool), Answers::new().sample("sample_tools", text)).await?;
    assert!(talk.text().chars().all(|c| c.is_ascii_alphanumeric() || " _-".contains(c)), "{}", talk.text());
    Ok(())
}

#[tokio::test]
async fn a_deadline_reaches_a_branch_in_a_combinator() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let branch = ctx.branch("b", async |ctx| Ok(ctx.sample("?").await?.text()));
        Picky::new(branch.timeout(Duration::from_millis(60))).await
    }
    for revision in Revision::BOTH {
        let server =
            Server::builder("s", "1").tool(Tool::new("t", "T", tool)).with_model(Echo(2000)).build()?;
        let mut client = connect_with(&server, revision, json!({})).await?;
        assert_eq!(within(client.call("t", json!({}))).await?.text(), "the time limit of 60ms was exceeded");
    }
    Ok(())
}

#[test]
fn an_exchange_of_either_kind_is_read_as_what_it_was() {
    let (request, response) = (Message::user("?"), Message::assistant("!"));
    let messages = [request.clone(), response.clone()];
    let closed =
        json!({"request": request, "response": response, "messages": messages, "parsed": {"cell": 4}});
    let read: AnyExchange = serde_json::from_value(closed.clone()).unwrap();
    assert_eq!(json!(read), closed);
}

#[tokio::test]
async fn exchanges_make_histories_whatever_the_model_did() -> Result<()> {
    async fn uncalled(ctx: &Ctx, _: ()) -> Result<String> {
        History::new().push(ctx.sample("?").await?.exchange)?;
        Ok("taken".into())
    }
    async fn result(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.sample_schema::<Move>("?").retries(1).await.map(|_| String::new())
    }
    async fn twice(ctx: &Ctx, _: ()) -> Result<String> {
        let plan = ctx.sample_tools("?", [ToolDefinition::new("go", json!({}))]).await?;
        let done = ToolResult::new(&plan.calls[0], ToolOutput::text("done"));
        Ok(plan.exchange.close([done.clone(), done]).is_err().to_string())
    }
    let talk =
        plain(Tool::new("t", "T", uncalled), Answers::new().calls("sample", &[("x", json!({}))])).await?;
    assert_eq!(talk.text(), "taken");
    let go = Answers::new().calls("sample_tools", &[("go", json!({}))]);
    assert_eq!(plain(Tool::new("t", "T", twice), go).await?.text(), "true");
    let content =
        json!([{"type": "text", "text": "hm"}, {"type": "tool_result", "toolUseId": "x", "content": []}]);
    let reply = json!({"role": "assistant", "model": "m", "content": content});
    let server = Server::builder("s", "1").tool(Tool::new("t", "T", result)).build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    client.set_answers(Answers::new().raw("sample_schema", reply));
    let talk = client.call("t", json!({})).await?;
    let messages: Vec<Message> = serde_json::from_value(talk.asked[1].params["messages"].clone())?;
    History::from_messages(messages)?;
    Ok(())
}

#[tokio::test]
async fn what_a_client_of_rounds_leaves_unanswered_goes_down_the_ladder() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        Ok(ctx.sample("?").await?.text())
    }
    let server = Server::builder("s", "1").tool(Tool::new("t", "T", tool)).with_model(Echo(0)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    client.set_answers(Answers::new().error("sample", -1, "no"));
    let talk = within(client.call("t", json!({}))).await?;
    assert!(talk.rounds <= 2, "{} rounds", talk.rounds);
    Ok(())
}

#[tokio::test]
async fn in_a_loop_it_is_said_once_that_a_provider_is_asked() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.loop_with_state("loop", 0u32, async |ctx, turn: u32| {
            ctx.sample("?").await?;
            ctx.elicit::<Move>("?").await?.accepted()?;
            Ok(if turn == 2 {
                ControlFlow::Break("done".to_owned())
            } else {
                ControlFlow::Continue(turn + 1)
            })
        })
        .await
    }
    let server = Server::builder("s", "1").tool(Tool::new("t", "T", tool)).with_model(Echo(0)).build()?;
    let mut client = connect_with(&server, Revision::V2026_07_28, json!({"elicitation": {}})).await?;
    client.set_meta(json!({"io.modelcontextprotocol/logLevel": "info"}));
    client.set_answers(Answers::new().accept("move", json!({"cell": 1})));
    assert_eq!(client.call("t", json!({})).await?.notifications.len(), 1);
    Ok(())
}

#[tokio::test]
async fn two_calls_in_a_history_have_two_ids() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.loop_with_state("loop", History::new(), async |ctx, mut history: History| {
            let ids: Vec<_> =
                history.messages().iter().flat_map(Message::tool_calls).map(|call| call.id).collect();
            if let [first, second] = ids.as_slice() {
                return Ok(ControlFlow::Break((first == second).to_string()));
            }
            history.push(ctx.elicit::<Move>("?").await?.into_answer()?.exchange())?;
            Ok(ControlFlow::Continue(history))
        })
        .await
    }
    let talk = plain(Tool::new("t", "T", tool), Answers::new().accept("move", json!({"cell": 1}))).await?;
    assert_eq!(talk.text(), "false");
    Ok(())
}
