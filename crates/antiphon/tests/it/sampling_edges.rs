//! Models asked from odd places: loops, races, branches with limits, combinators of others, types of
//! every shape.

use std::{
    collections::HashMap,
    future::Future,
    ops::ControlFlow,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use antiphon::{
    exchange::History,
    prelude::*,
    sampling::{Block, Message, Model, ModelError, Reply, Request, SamplingPolicy, ToolDefinition},
    testing::{Answers, Question, Replicas, Revision, Talk},
};
use antiphon_llm::{BoxFuture, OutputSchema, SCHEMA_TOOL, Scripted};
use serde_json::{Value, json};

use crate::{
    checked::{connect, connect_with},
    sample_schema::Move,
};

/// Fails a test that would otherwise hang.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it ends")
}

/// A model that needs a moment; some questions it never answers.
#[derive(Debug)]
struct Slow {
    moment: Duration,
    think: fn(&Request) -> Option<Result<Reply, ModelError>>,
}

impl Model for Slow {
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            tokio::time::sleep(self.moment).await;
            match (self.think)(request) {
                Some(reply) => reply,
                None => std::future::pending().await,
            }
        })
    }

    fn name(&self) -> &'static str {
        "slow"
    }
}

fn said(request: &Request) -> String {
    request.messages.iter().map(Message::text).collect()
}

fn picks(cell: u8) -> Reply {
    Reply::new("slow", Block::tool_use("p", SCHEMA_TOOL, json!({"cell": cell, "reasoning": "p"})))
}

fn accepting() -> Answers {
    Answers::new().accept("move", json!({"cell": 1, "reasoning": "mine"}))
}

/// Two samples, a race, a form, steps and limits in a loop, some answered by the client and some by the
/// provider, both wrong at first.
async fn mixture(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.loop_with_state("loop", (0u32, History::new()), async |ctx, (turn, mut history): (u32, History)| {
        if turn == 2 {
            return Ok(ControlFlow::Break(json!(history).to_string()));
        }
        let (a, b, c) = tokio::join!(
            ctx.branch("a", async |ctx| {
                let data = ctx.sample_schema::<Move>(format!("client {turn}")).await?;
                Ok((data, ctx.sample(format!("provider {turn}")).await?))
            })
            .max_asks(6),
            async {
                tokio::select! {
                    reply = ctx.sample(format!("provider {turn}")) => reply,
                    reply = ctx.sample(format!("client {turn}")) => reply,
                }
            },
            ctx.branch("c", async |ctx| {
                let picked = ctx.elicit::<Move>(format!("form {turn}")).await?.into_answer()?;
                ctx.step("note", || async { Ok(()) }).await?;
                Ok((picked, ctx.sample_schema::<Move>(format!("provider {turn}")).await?))
            })
            .timeout(Duration::from_secs(600)),
        );
        let ((data, text), (picked, last)) = (a?, c?);
        history.push(data.exchange)?;
        history.push(text.exchange)?;
        history.push(b?.exchange)?;
        history.push(picked.exchange())?;
        history.push(last.exchange)?;
        Ok(ControlFlow::Continue((turn + 1, history)))
    })
    .await
}

#[expect(clippy::unnecessary_wraps, reason = "it is one of several thoughts")]
fn mixed_model(request: &Request) -> Option<Result<Reply, ModelError>> {
    Some(match said(request) {
        said if said.contains("client") => Err(ModelError::Unavailable("not mine".into())),
        _ if request.schema().is_some() => Ok(picks(if request.messages.len() == 1 { 42 } else { 7 })),
        said => Ok(Reply::new("slow", format!("re {said}"))),
    })
}

fn mixed_client(question: &Question) -> Option<Value> {
    if question.method == "elicitation/create" {
        return Some(json!({"action": "accept", "content": {"cell": 2, "reasoning": "e"}}));
    }
    let request: Request = serde_json::from_value(question.params.clone()).ok()?;
    let mut reply = picks(if request.messages.len() == 1 { 77 } else { 5 });
    if request.schema().is_none() {
        reply = Reply::new("client", "client text");
    }
    Some(json!(reply))
}

#[tokio::test]
async fn a_mixture_of_everything_replays_to_the_same() -> Result<()> {
    let server = || {
        Server::builder("s", "1")
            .tool(Tool::new("mixture", "Mixes", mixture))
            .with_model(Slow { moment: Duration::from_millis(2), think: mixed_model })
            .with_sampling(SamplingPolicy::ProviderFirst)
    };
    let answers = || Answers::new().otherwise(mixed_client);
    let report = within(Replicas::new(server).schedules(12).run("mixture", json!({}), answers)).await?;
    assert_eq!(report.result["isError"], false);
    assert!(report.duplicates > 0 && report.stale > 0);
    Ok(())
}

#[tokio::test]
async fn a_provider_that_is_too_slow_is_too_slow_on_replay() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let slow = ctx
            .branch("slow", async |ctx| Ok(ctx.sample("never").await?.text()))
            .timeout(Duration::from_millis(30))
            .await;
        let cell = ctx.elicit::<Move>(format!("{}", slow.is_err())).await?.accepted()?.cell;
        Ok(format!("{} {cell} {}", slow.is_err(), ctx.sample("soon").await?.text()))
    }
    fn think(request: &Request) -> Option<Result<Reply, ModelError>> {
        (said(request) == "soon").then(|| Ok(Reply::new("slow", "reply")))
    }
    let server = || {
        Server::builder("s", "1")
            .tool(Tool::new("tool", "Waits", tool))
            .with_model(Slow { moment: Duration::ZERO, think })
            .with_sampling(SamplingPolicy::ProviderOnly)
    };
    let report = within(Replicas::new(server).run("tool", json!({}), accepting)).await?;
    assert_eq!(report.result["content"][0]["text"], "true 1 reply");
    Ok(())
}

#[tokio::test]
async fn numbers_that_are_hard_to_write_replay_to_the_same_correction() -> Result<()> {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Share {
        #[schemars(range(min = 0, max = 1))]
        share: f64,
    }
    async fn tool(ctx: &Ctx, _: ()) -> Result<Json<Share>> {
        Ok(Json(ctx.sample_schema::<Share>("?").retries(4).await?.parsed))
    }
    let server = || Server::builder("s", "1").tool(Tool::new("tool", "Shares", tool));
    let answers = || {
        let hard = [1.797_693_134_862_315_7e308, 5e-324 - 2.0, 9_007_199_254_740_993.0, 1.0e23];
        let answers = hard
            .into_iter()
            .fold(Answers::new(), |answers, share| answers.data("sample_schema", json!({"share": share})));
        answers.data("sample_schema", json!({"share": 0.1 + 0.2}))
    };
    let report = within(Replicas::new(server).schedules(4).run("tool", json!({}), answers)).await?;
    assert_eq!(report.result["structuredContent"], json!({"share": 0.1 + 0.2}));
    Ok(())
}

/// Polls its child when the child was woken and not before, as the collections of `futures` do.
pub(crate) struct Picky<F> {
    child: Pin<Box<F>>,
    woken: Arc<Woken>,
}

struct Woken {
    flag: AtomicBool,
    outer: Mutex<Option<Waker>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.flag.store(true, Ordering::SeqCst);
        if let Some(waker) = self.outer.lock().unwrap().take() {
            waker.wake();
        }
    }
}

impl<F> Picky<F> {
    pub(crate) fn new(child: F) -> Self {
        let woken = Woken { flag: AtomicBool::new(true), outer: Mutex::default() };
        Self { child: Box::pin(child), woken: Arc::new(woken) }
    }
}

impl<F: Future> Future for Picky<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        *self.woken.outer.lock().unwrap() = Some(cx.waker().clone());
        if !self.woken.flag.swap(false, Ordering::SeqCst) {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(&self.woken));
        self.child.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

#[tokio::test]
async fn every_attempt_reaches_a_combinator_that_polls_only_who_is_woken() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let (a, b) = tokio::join!(
            Picky::new(ctx.sample_schema::<Move>("provider")),
            Picky::new(ctx.elicit::<Move>("form")),
        );
        Ok(format!("{} {}", a?.parsed.cell, b?.accepted()?.cell))
    }
    for revision in Revision::BOTH {
        let model = Slow { moment: Duration::from_millis(5), think: mixed_model };
        let server = Server::builder("s", "1").tool(Tool::new("tool", "Joins", tool)).with_model(model);
        let mut client = connect_with(&server.build()?, revision, json!({"elicitation": {}})).await?;
        client.set_answers(accepting());
        assert_eq!(within(client.call("tool", json!({}))).await?.text(), "7 1", "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_call_of_a_provider_ends_when_nobody_waits_for_it() -> Result<()> {
    static ENDED: AtomicU32 = AtomicU32::new(0);
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            ENDED.fetch_add(1, Ordering::SeqCst);
        }
    }
    #[derive(Debug)]
    struct Hangs;
    impl Model for Hangs {
        fn reply<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply, ModelError>> {
            Box::pin(async {
                let _guard = Guard;
                std::future::pending().await
            })
        }
        fn name(&self) -> &'static str {
            "hangs"
        }
    }
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        tokio::select! {
            reply = ctx.sample("?") => return Ok(reply?.text()),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        // Only while the tool waits for something else can what it left be dropped.
        ctx.step("rest", || async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(())
        })
        .await?;
        Ok(ENDED.load(Ordering::SeqCst).to_string())
    }
    for (revision, ended) in Revision::BOTH.into_iter().zip(1..) {
        let server = Server::builder("s", "1").tool(Tool::new("tool", "Leaves", tool)).with_model(Hangs);
        let mut client = connect_with(&server.build()?, revision, json!({})).await?;
        let talk = within(client.call("tool", json!({}))).await?;
        assert_eq!(talk.text(), ended.to_string(), "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_tool_that_only_yields_still_gets_its_reply() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let busy = async {
            loop {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            reply = ctx.sample("?") => Ok(reply?.text()),
            () = busy => Ok("never".into()),
        }
    }
    let model = Scripted::new().say("at last");
    let server = Server::builder("s", "1").tool(Tool::new("tool", "Yields", tool)).with_model(model);
    let mut client = connect_with(&server.build()?, Revision::V2025_11_25, json!({})).await?;
    assert_eq!(within(client.call("tool", json!({}))).await?.text(), "at last");
    Ok(())
}

#[tokio::test]
async fn every_request_can_be_sent_to_another_thread() -> Result<()> {
    fn sent<F: Future + Send>(future: F) -> F {
        future
    }
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let tools = || [ToolDefinition::new("go", json!({}))];
        sent(ctx.sample("?")).await?;
        sent(ctx.sample("?").schema::<Move>()).await?;
        sent(ctx.sample("?").tools(tools())).await?;
        let data = sent(ctx.sample_schema::<Move>("?")).await?;
        let calls = sent(ctx.sample_tools("?", tools())).await?;
        Ok(format!("{} {}", data.parsed.cell, calls.calls[0].name))
    }
    let model = Scripted::new().otherwise(|request| {
        Ok(match request.tools.first() {
            Some(tool) if tool.name == SCHEMA_TOOL => picks(3),
            Some(tool) => Reply::new("m", Block::tool_use("c", &tool.name, json!({}))),
            None => Reply::new("m", "text"),
        })
    });
    let server = Server::builder("s", "1").tool(Tool::new("tool", "Asks", tool)).with_model(model).build()?;
    let talk = tokio::spawn(async move {
        let mut client = connect_with(&server, Revision::V2026_07_28, json!({})).await?;
        client.call("tool", json!({})).await
    });
    assert_eq!(within(talk).await??.text(), "3 go");
    Ok(())
}

#[tokio::test]
async fn every_correction_is_a_conversation_a_model_accepts() -> Result<()> {
    async fn data(ctx: &Ctx, _: ()) -> Result<String> {
        Ok(ctx.sample_schema::<Move>("?").await?.parsed.cell.to_string())
    }
    async fn calls(ctx: &Ctx, _: ()) -> Result<String> {
        Ok(ctx.sample_tools("?", [ToolDefinition::of::<Move>("go")]).await?.calls[0].name.clone())
    }
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let wrong = json!({"cell": 99});
    let replies = [
        json!({"type": "text", "text": "no"}),
        json!({"type": "text", "text": " \n"}),
        json!([]),
        json!({"type": "text", "text": wrong.to_string()}),
        json!({"type": "text", "text": "long ".repeat(5000)}),
        json!([{"type": "text", "text": "so"}, call("a", "go", wrong.clone()), call("b", SCHEMA_TOOL, wrong.clone())]),
        json!([call("a", "no_such_tool", json!({}))]),
        json!([call("a", "go", json!({"cell": "x".repeat(20_000)}))]),
        json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}),
    ];
    let server =
        Server::builder("s", "1").tool(Tool::new("data", "D", data)).tool(Tool::new("calls", "C", calls));
    let server = server.build()?;
    for capabilities in [json!({"sampling": {"tools": {}}}), json!({"sampling": {}})] {
        for (content, tool) in replies.iter().flat_map(|content| [(content, "data"), (content, "calls")]) {
            let reply = json!({"role": "assistant", "model": "m", "content": content});
            let answers = Answers::new().otherwise(move |_| Some(reply.clone()));
            let mut client = connect_with(&server, Revision::V2025_11_25, capabilities.clone()).await?;
            client.set_answers(answers);
            let talk = within(client.call(tool, json!({}))).await?;
            assert_eq!((talk.asked.len(), talk.is_error()), (3, true), "{content}");
            for question in &talk.asked {
                let request: Request = serde_json::from_value(question.params.clone())?;
                assert!(said(&request).len() < 20_000, "{content}");
                History::from_messages(request.messages)?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_reply_that_says_little_is_still_a_reply() -> Result<()> {
    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        let reply = ctx.sample("?").await?;
        Ok(format!("{:?} {:?} {:?}", reply.text(), reply.model, reply.stop_reason))
    }
    let server = Server::builder("s", "1").tool(Tool::new("tool", "Asks", tool)).build()?;
    for revision in Revision::BOTH {
        for (reply, expected) in [
            (json!({"role": "assistant", "model": "m", "content": []}), r#""" "m" None"#),
            (
                json!({"role": "user", "model": "m", "content": {"type": "text", "text": "a"}}),
                r#""a" "m" None"#,
            ),
            (json!({"role": "assistant", "content": [{"type": "text", "text": "a"}]}), r#""a" "" None"#),
        ] {
            let mut client = connect(&server, revision).await?.answering(Answers::new().raw("sample", reply));
            assert_eq!(client.call("tool", json!({})).await?.text(), expected, "{revision:?}");
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Tagged {
    Go { way: String },
    Stay { turns: u8 },
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Untagged {
    Unit,
    New(u8),
    Named { x: i32 },
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Tree {
    label: String,
    children: Vec<Self>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Newtype(Vec<Tree>);

/// A client's model gives `value` in every form it may come in, and the tool gets it.
async fn comes_through<T>(value: T) -> Result<()>
where
    T: Serialize + serde::de::DeserializeOwned + JsonSchema + Send + Sync + 'static,
{
    async fn tool<T>(ctx: &Ctx, _: ()) -> Result<Json<Value>>
    where
        T: Serialize + serde::de::DeserializeOwned + JsonSchema + Send + Sync + 'static,
    {
        let reply = ctx.sample_schema::<T>("?").retries(0).await?;
        History::new().push(reply.exchange)?;
        Ok(Json(json!({"parsed": reply.parsed})))
    }
    let data = serde_json::to_value(&value)?;
    let schema = OutputSchema::of::<T>();
    // An object with one field is what everything else is wrapped into.
    let wrapped = schema.unwrap(json!({"value": 0})) == 0;
    let input = if wrapped { json!({"value": data}) } else { data.clone() };
    let text = |text: String| Reply::new("m", text);
    let ways = [
        (json!({"tools": {}}), Reply::new("m", Block::tool_use("c", SCHEMA_TOOL, input.clone()))),
        (json!({}), text(input.to_string())),
        (json!({}), text(data.to_string())),
        (json!({}), text(format!("Sure:\n```json\n{input:#}\n```\nAnything else?"))),
    ];
    let server = Server::builder("s", "1").tool(Tool::new("tool", "Asks", tool::<T>)).build()?;
    for revision in Revision::BOTH {
        for (sampling, reply) in &ways {
            let capabilities = json!({"sampling": sampling});
            let answers = Answers::new().raw("sample_schema", json!(reply));
            let mut client = connect_with(&server, revision, capabilities).await?.answering(answers);
            let talk: Talk = client.call("tool", json!({})).await?;
            assert_eq!(talk.result["structuredContent"]["parsed"], data, "{reply:?}: {}", talk.text());
        }
    }
    Ok(())
}

#[tokio::test]
async fn data_of_every_shape_come_through() -> Result<()> {
    let leaf = || Tree { label: "b".into(), children: Vec::new() };
    let tree = || Tree { label: "a".into(), children: vec![leaf(), leaf()] };
    comes_through(Tagged::Go { way: "left".into() }).await?;
    comes_through(Tagged::Stay { turns: 2 }).await?;
    comes_through(Untagged::Unit).await?;
    comes_through(Untagged::New(2)).await?;
    comes_through(Untagged::Named { x: -1 }).await?;
    comes_through(tree()).await?;
    comes_through(Some(tree())).await?;
    comes_through(None::<Tree>).await?;
    comes_through(Newtype(vec![tree()])).await?;
    comes_through(vec![1u8, 2]).await?;
    comes_through("text with a { in it".to_owned()).await?;
    comes_through(7u8).await?;
    comes_through(true).await?;
    comes_through(1.5f64).await?;
    comes_through(HashMap::from([("a".to_owned(), 1u8)])).await?;
    comes_through(HashMap::from([("value".to_owned(), 1u8)])).await?;
    comes_through((1u8, "x".to_owned())).await?;
    comes_through(()).await?;
    comes_through(json!({"any": ["thing"]})).await
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_asks_nobody() -> Result<()> {
    #[derive(Deserialize, JsonSchema)]
    struct Given {
        schema: Value,
    }
    async fn tool(ctx: &Ctx, Given { schema }: Given) -> Result<Json<Value>> {
        Ok(Json(json!({"parsed": ctx.sample_schema_value("?", schema).await?.parsed})))
    }
    let server = Server::builder("s", "1").tool(Tool::new("tool", "Asks", tool)).build()?;
    for schema in [
        json!(true),
        json!({"type": "integr"}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}),
        json!({"$ref": "https://example.invalid/schema.json"}),
    ] {
        let mut client = connect(&server, Revision::V2025_11_25).await?;
        let talk = client.call("tool", json!({"schema": schema})).await?;
        assert!(talk.is_error() && talk.asked.is_empty(), "{schema}");
        assert!(talk.text().starts_with("the schema cannot be used: "), "{}", talk.text());
    }
    Ok(())
}

#[cfg(feature = "http")]
#[tokio::test]
async fn a_client_without_a_session_gets_the_reply_of_the_servers_model() -> Result<()> {
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    async fn tool(ctx: &Ctx, _: ()) -> Result<String> {
        Ok(ctx.sample_schema::<Move>("?").await?.parsed.cell.to_string())
    }
    let model = Scripted::new().otherwise(|_| Ok(picks(4)));
    let server = Server::builder("s", "1").tool(Tool::new("tool", "Asks", tool)).with_model(model).build()?;
    let call = json!({"name": "tool", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let request = http::Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .body(axum::body::Body::from(call.to_string()))?;
    let router = server.router(antiphon::http::HttpConfig::default().with_sessions(false));
    let body = within(router.oneshot(request)).await?.into_body().collect().await?.to_bytes();
    let answer = String::from_utf8_lossy(&body);
    let last = answer.lines().rev().find(|line| line.contains("result")).unwrap_or_default();
    let answer: Value = serde_json::from_str(last.trim_start_matches("data:"))?;
    assert_eq!(answer["result"]["content"][0]["text"], "4");
    Ok(())
}
