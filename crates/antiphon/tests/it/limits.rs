//! What a caller, a tool and a question may take, and what whoever takes more is told.

use std::time::Duration;

use antiphon::{
    ErrorKind, Limits, ServerBuilder,
    limits::{Quota, Rate},
    prelude::*,
    sampling::{Budget, Reply, SamplingPolicy, Usage},
    task::TaskPolicy,
    testing::{Answers, Failed, Revision},
};
use antiphon_llm::Scripted;
use antiphon_store::{Backend, QueueConfig};
use serde_json::{Value, json};

use crate::{
    checked::{connect, connect_with},
    tasks,
};

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
    match ctx.elicit::<Word>("Word?").await {
        Ok(word) => Ok(word.accepted()?.word),
        Err(error) if *error.kind() == ErrorKind::Unanswered => Ok("nobody is there".into()),
        Err(error) => Err(error),
    }
}

async fn echo(_: &Ctx, Word { word }: Word) -> Result<String> {
    Ok(word)
}

async fn large(_: &Ctx, _: ()) -> Result<String> {
    Ok("x".repeat(3000))
}

async fn sample(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.sample("Well?").await?.text())
}

fn builder(limits: Limits) -> ServerBuilder {
    Server::builder("bounded", "1.0.0")
        .with_limits(limits)
        .tool(Tool::new("ask", "Asks", ask))
        .tool(Tool::new("echo", "Echoes", echo))
        .tool(Tool::new("large", "Says much", large))
        .tool(Tool::new("sample", "Asks a model", sample))
}

fn call(name: &str) -> Value {
    let arguments = if name == "echo" { json!({"word": "a"}) } else { json!({}) };
    json!({"name": name, "arguments": arguments})
}

fn failed(error: &Error) -> Failed {
    error.source().and_then(|source| source.downcast_ref::<Failed>()).cloned().expect("a JSON-RPC error")
}

#[tokio::test]
async fn unanswered_question_keeps_nobody_from_being_served() -> Result<()> {
    let server = builder(Limits::default().with_in_flight(1)).build()?;
    let mut waits = connect(&server, Revision::V2025_11_25).await?;
    waits.start("tools/call", call("ask")).await?;
    let mut other = connect(&server, Revision::V2025_11_25).await?;
    // It may take a moment until the question is out.
    for _ in 0..1000 {
        match other.request("tools/call", call("echo")).await {
            Ok(result) => {
                assert_eq!(result["content"][0]["text"], "a");
                return Ok(());
            }
            Err(error) => assert_eq!(failed(&error).code, -32000),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("a question that nobody answers keeps its place");
}

#[tokio::test]
async fn question_that_nobody_answers_comes_to_an_end() -> Result<()> {
    let limits = Limits::default().with_answer_timeout(Duration::from_millis(50));
    let server = builder(limits).build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    let id = client.start("tools/call", call("ask")).await?;
    let mut seen = Vec::new();
    let answer = loop {
        // Neither the question nor its withdrawal is answered.
        let message = client.send_raw("").await?;
        if message["id"] == id && message.get("method").is_none() {
            break message;
        }
        seen.push(message["method"].as_str().unwrap_or_default().to_owned());
    };
    assert_eq!(answer["result"]["content"][0]["text"], "nobody is there");
    assert!(seen.contains(&"elicitation/create".to_owned()), "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn caller_that_comes_too_often_is_told_when_to_come_again() -> Result<()> {
    let quota = Quota::default().with_rate(Rate::per_minute(2));
    let server = builder(Limits::default().with_principal(quota)).build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        if revision == Revision::V2025_11_25 {
            client.request("tools/call", call("echo")).await?;
            client.request("tools/list", json!({})).await?;
        }
        // Both are nobody in particular, so they share one quota.
        for (method, params) in [("tools/call", call("echo")), ("tools/list", json!({}))] {
            let refused = failed(&client.request(method, params).await.unwrap_err());
            assert_eq!((refused.code, &refused.data["limit"]), (-32000, &json!("rate")), "{method}");
            let after = refused.data["retryAfter"].as_u64().unwrap();
            assert!((1..=30).contains(&after), "{refused}");
            let expected = format!("you exceeded your rate limit; try again in {after} s");
            assert_eq!(refused.message, expected);
        }
    }
    Ok(())
}

#[tokio::test]
async fn calls_of_one_caller_at_once_are_bounded_with_those_that_wait() -> Result<()> {
    let quota = Quota::default().with_concurrent(1);
    let server = builder(Limits::default().with_principal(quota)).build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    client.start("tools/call", call("ask")).await?;
    let mut other = connect(&server, Revision::V2025_11_25).await?;
    let refused = loop {
        match other.request("tools/call", call("echo")).await {
            Err(error) => break failed(&error),
            Ok(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(refused.message, "you reached your limit of 1 concurrent calls; try again in 1 s");
    Ok(())
}

#[tokio::test]
async fn tool_has_a_quota_of_its_own() -> Result<()> {
    let once = Quota::default().with_rate(Rate::per_minute(1));
    let server = Server::builder("bounded", "1.0.0")
        .tool(Tool::new("echo", "Echoes", echo).with_quota(once))
        .tool(Tool::new("free", "Echoes", echo))
        .build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    client.call("echo", json!({"word": "a"})).await?;
    let refused = failed(&client.call("echo", json!({"word": "a"})).await.unwrap_err());
    assert!(refused.message.starts_with("the tool `echo` exceeded its rate limit"), "{refused}");
    for _ in 0..5 {
        client.call("free", json!({"word": "a"})).await?;
    }
    Ok(())
}

#[tokio::test]
async fn bytes_of_answers_count_for_the_next_request() -> Result<()> {
    let quota = Quota::default().with_bytes(Rate::per_minute(2000));
    let server = builder(Limits::default().with_principal(quota)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    // The one that crosses the bound is answered.
    assert_eq!(client.call("large", json!({})).await?.text().len(), 3000);
    let refused = failed(&client.call("echo", json!({"word": "a"})).await.unwrap_err());
    assert_eq!(refused.data["limit"], "bytes");
    assert!(refused.data["retryAfter"].as_u64().unwrap() > 20, "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn answer_that_nobody_could_read_is_an_error_that_says_so() -> Result<()> {
    let server = builder(Limits::default().with_output_bytes(2000)).build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        let talk = client.call("large", json!({})).await?;
        assert!(
            talk.is_error()
                && talk.text().starts_with("the answer has 3000 bytes, more than the limit of 2000")
        );
    }
    Ok(())
}

/// The result of a task is held to the same limit as the answer to a call.
#[tokio::test]
async fn task_result_that_nobody_could_read_is_an_error_that_says_so() -> Result<()> {
    let large = Tool::new("large_task", "Says much", large).with_tasks(TaskPolicy::Always);
    let server =
        builder(Limits::default().with_output_bytes(2000)).with_tasks(tasks::quick()).tool(large).build()?;
    let mut client = tasks::client(&server).await;
    let id = tasks::begin(&mut client, "large_task", json!({})).await;
    let task = tasks::until(&mut client, &id, "completed").await;
    let text = task["result"]["content"][0]["text"].as_str().unwrap();
    assert!(task["result"]["isError"] == true && text.starts_with("the answer has 3000 bytes"), "{task}");
    Ok(())
}

/// Otherwise a caller could have arguments checked as often as it likes.
#[tokio::test]
async fn invalid_arguments_count_for_the_quota_also_when_the_client_knows_tasks() -> Result<()> {
    for policy in [TaskPolicy::Never, TaskPolicy::WhenLong, TaskPolicy::Always] {
        let once = Quota::default().with_rate(Rate::per_minute(1));
        let tool = Tool::new("counted", "Echoes", echo).with_quota(once).with_tasks(policy);
        let server = builder(Limits::default()).with_tasks(tasks::quick()).tool(tool).build()?;
        let mut client = tasks::client(&server).await;
        let invalid = json!({"name": "counted", "arguments": {"word": 1}});
        let answer = client.request("tools/call", invalid.clone()).await?;
        assert_eq!(answer["isError"], true, "{policy:?}: {answer}");
        let refused = tasks::refused(&mut client, "tools/call", invalid).await;
        assert_eq!((refused.code, &refused.data["limit"]), (-32000, &json!("rate")), "{policy:?}");
    }
    Ok(())
}

#[tokio::test]
async fn invalid_arguments_count_for_the_quota_also_in_tasks_of_2025_11_25() -> Result<()> {
    let once = Quota::default().with_rate(Rate::per_minute(1));
    let tool = Tool::new("counted", "Echoes", echo).with_quota(once).with_tasks(TaskPolicy::Always);
    let server = builder(Limits::default()).with_tasks(tasks::quick()).tool(tool).build()?;
    let mut client = tasks::checked(&server, Revision::V2025_11_25).await;
    let invalid = json!({"name": "counted", "arguments": {"word": 1}, "task": {}});
    let codes = [-32602, -32000];
    for code in codes {
        let refused = failed(&client.request("tools/call", invalid.clone()).await.unwrap_err());
        assert_eq!(refused.code, code, "{refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn session_subscribes_to_so_many_resources_and_no_more() -> Result<()> {
    async fn note(_: &Ctx, _: ()) -> Result<String> {
        Ok("a".into())
    }
    let note = antiphon::Resource::new("note:a", "a", note);
    let server = builder(Limits::default().with_subscriptions(2)).resource(note).build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    for uri in ["note:a", "note:b"] {
        client.request("resources/subscribe", json!({"uri": uri})).await?;
    }
    let refused = failed(&client.request("resources/subscribe", json!({"uri": "note:c"})).await.unwrap_err());
    assert_eq!(refused.code, -32602);
    client.request("resources/unsubscribe", json!({"uri": "note:a"})).await?;
    client.request("resources/subscribe", json!({"uri": "note:c"})).await?;
    Ok(())
}

/// A model whose every reply costs 60 tokens.
fn model() -> Scripted {
    let usage = Usage { input_tokens: 40, output_tokens: 20 };
    Scripted::new().otherwise(move |_| Ok(Reply::new("m", "Well.").with_usage(usage)))
}

fn hourly() -> Limits {
    Limits::default().with_model(Budget::per(Duration::from_secs(3600)).with_max_tokens(100))
}

async fn sampled(server: &Server) -> Result<(bool, String)> {
    let mut client = connect_with(server, Revision::V2026_07_28, json!({})).await?;
    let talk = client.call("sample", json!({})).await?;
    Ok((talk.is_error(), talk.text()))
}

#[tokio::test]
async fn caller_spends_so_many_tokens_of_our_model_and_no_more() -> Result<()> {
    let server = builder(hourly()).with_model(model()).with_sampling(SamplingPolicy::ProviderOnly).build()?;
    for _ in 0..2 {
        assert_eq!(sampled(&server).await?, (false, "Well.".into()));
    }
    let (is_error, text) = sampled(&server).await?;
    assert!(
        is_error && text.contains("the caller's limit of 100 tokens is reached; try again in 3"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn replicas_that_share_a_store_count_tokens_together() -> Result<()> {
    let backend = Backend::connect("memory:", "spend", QueueConfig::default()).await?;
    let replica = || {
        builder(hourly())
            .with_backend(backend.clone())
            .with_model(model())
            .with_sampling(SamplingPolicy::ProviderOnly)
            .build()
    };
    let (one, two) = (replica()?, replica()?);
    assert!(!sampled(&one).await?.0 && !sampled(&two).await?.0);
    assert!(sampled(&one).await?.0 && sampled(&two).await?.0, "120 tokens were spent, of 100");
    Ok(())
}

#[tokio::test]
async fn client_of_its_own_model_spends_nothing_of_ours() -> Result<()> {
    let server = builder(hourly()).with_model(model()).build()?;
    for _ in 0..4 {
        let mut client = connect(&server, Revision::V2026_07_28)
            .await?
            .answering(Answers::new().sample("sample", "Mine."));
        assert_eq!(client.call("sample", json!({})).await?.text(), "Mine.");
    }
    Ok(())
}

#[cfg(feature = "http")]
mod http {
    use std::sync::Arc;

    use antiphon::http::HttpConfig;
    use tower::ServiceExt as _;

    use super::*;
    use crate::http::post;

    #[tokio::test]
    async fn over_http_the_refusal_is_429_with_a_retry_after() -> Result<()> {
        let quota = Quota::default().with_rate(Rate::per_minute(1));
        let server = builder(Limits::default().with_principal(quota))
            .with_principal(|parts| parts.headers.get("x-caller")?.to_str().ok().map(ToOwned::to_owned))
            .build()?;
        let app = server.router(HttpConfig::default());
        let send = async |caller: &'static str| -> Result<_> {
            let mut request = post(Revision::V2026_07_28, "tools/call", call("echo"));
            request.headers_mut().insert("x-caller", caller.parse()?);
            Ok(app.clone().oneshot(request).await?)
        };
        assert_eq!(send("ada").await?.status(), 200);
        let refused = send("ada").await?;
        assert_eq!(refused.status(), 429);
        let after: u64 = refused.headers()["retry-after"].to_str()?.parse()?;
        assert!((1..=60).contains(&after), "{after}");
        assert_eq!(send("grace").await?.status(), 200, "nobody pays for another");
        Ok(())
    }

    #[tokio::test]
    async fn over_http_a_full_server_is_503_with_a_retry_after() -> Result<()> {
        async fn hold(ctx: &Ctx, _: ()) -> Result<()> {
            let held: &Arc<tokio::sync::Notify> = ctx.state()?;
            held.notified().await;
            Ok(())
        }
        let held = Arc::new(tokio::sync::Notify::new());
        let server = builder(Limits::default().with_in_flight(1))
            .with_state(Arc::clone(&held))
            .tool(Tool::new("hold", "Works until it is told", hold))
            .build()?;
        let app = server.router(HttpConfig::default());
        let holds =
            tokio::spawn(app.clone().oneshot(post(Revision::V2026_07_28, "tools/call", call("hold"))));
        let refused = loop {
            let answer = app.clone().oneshot(post(Revision::V2026_07_28, "tools/call", call("echo"))).await?;
            if answer.status() != 200 {
                break answer;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.headers()["retry-after"], "1");
        held.notify_one();
        assert_eq!(holds.await??.status(), 200);
        Ok(())
    }
}

/// Keeps the processor busy.
fn work(length: Duration) {
    let begun = std::time::Instant::now();
    while begun.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Is ready again whenever it is polled: it waits for nothing.
async fn always_ready(_: &Ctx, _: ()) -> Result<String> {
    for _ in 0..100 {
        work(Duration::from_millis(3));
        tokio::task::yield_now().await;
    }
    Ok("done".into())
}

/// Works ten times as long as it waits.
async fn works_and_waits(_: &Ctx, _: ()) -> Result<String> {
    for _ in 0..30 {
        work(Duration::from_millis(10));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok("done".into())
}

/// Logs more than a client reads, and never waits for anything else.
async fn logs_much(ctx: &Ctx, _: ()) -> Result<String> {
    for _ in 0..64 {
        ctx.log(antiphon::Level::Error, "x".repeat(64 * 1024));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok("done".into())
}

#[tokio::test]
async fn tool_timeout_counts_work() -> Result<()> {
    let limits = Limits::default().with_tool_timeout(Duration::from_millis(60));
    let server = Server::builder("busy", "1.0.0")
        .with_limits(limits)
        .tool(Tool::new("always_ready", "Works", always_ready))
        .tool(Tool::new("works_and_waits", "Works and waits", works_and_waits))
        .build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        for tool in ["always_ready", "works_and_waits"] {
            let talk = client.call(tool, json!({})).await?;
            assert_eq!(
                (talk.is_error(), talk.text().as_str()),
                (true, "the time limit of 60ms was exceeded"),
                "{tool}"
            );
        }
    }
    Ok(())
}

/// Tells when it is dropped.
struct OnDrop(std::sync::Arc<tokio::sync::Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn tool_timeout_ends_a_tool_whose_client_does_not_read() -> Result<()> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let ended = std::sync::Arc::new(tokio::sync::Notify::new());
    let notify = std::sync::Arc::clone(&ended);
    let server = Server::builder("chatty", "1.0.0")
        .with_limits(Limits::default().with_tool_timeout(Duration::from_millis(60)))
        .with_state(notify)
        .tool(Tool::new("logs_much", "Logs", async |ctx: &Ctx, _: ()| {
            let _ended = OnDrop(std::sync::Arc::clone(ctx.state::<std::sync::Arc<tokio::sync::Notify>>()?));
            logs_much(ctx, ()).await
        }))
        .build()?;
    let (mut near, far) = tokio::io::duplex(4096);
    tokio::spawn(async move { server.serve_stream(far).await });
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    near.write_all(format!("{hello}\n").as_bytes()).await?;
    let _ = near.read(&mut [0; 4096]).await?;
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "logs_much", "arguments": {}}}),
    ] {
        near.write_all(format!("{message}\n").as_bytes()).await?;
    }
    // The client reads nothing from here on.
    tokio::time::timeout(Duration::from_secs(10), ended.notified()).await.expect("the tool is given up");
    Ok(())
}
