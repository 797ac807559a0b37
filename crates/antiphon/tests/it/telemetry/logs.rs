//! Logs: enough to find out what went wrong, and nothing of the caller's.

use std::{
    io,
    sync::{Arc, Mutex},
};

use antiphon::{
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::TaskPolicy,
    telemetry::Telemetry,
    testing::{Client, Revision},
};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use serde_json::{Value, json};
use tracing_subscriber::{
    EnvFilter, fmt::MakeWriter, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use super::{Secret, builder, secrets};
use crate::tasks::{accept, answer, begin, everything, quick, until};

/// Where a log is written that can be read.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Paper {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The filter that the guide recommends, with everything of ours on top. The SDK writes whole requests into its log, and
/// errors as they are answered.
const FILTER: &str = "trace,rmcp=error";

/// What a caller brings, is asked and is given.
const CONTENT: [&str; 11] = [
    "given-canary",
    "hunter2",
    "swordfish",
    "receipt-4711",
    "First?",
    "Second?",
    "error-canary",
    "panic-canary",
    "uri-canary",
    "argument-canary",
    "question-canary",
];

async fn fails(_: &Ctx, _: ()) -> Result<String> {
    Err(Error::tool("error-canary"))
}

async fn panics(_: &Ctx, _: ()) -> Result<String> {
    panic!("panic-canary");
}

async fn drifts(ctx: &Ctx, _: ()) -> Result<String> {
    static TIMES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let times = TIMES.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    ctx.elicit::<Secret>(format!("question-canary {times}")).key("volatile").await?.accepted()?;
    ctx.elicit::<Secret>("First?").key("first").await?.accepted()?;
    Ok("never".into())
}

async fn read(_: &Ctx, _: Value) -> Result<String> {
    Err(Error::tool("error-canary"))
}

/// A day at a server: rounds, a session, a task, errors, a panic, drift, seals that do not open.
async fn day(telemetry: Option<Telemetry>) -> String {
    let keys = KeyRing::random();
    let mut builder = builder(&keys, TaskPolicy::WhenLong)
        .with_tasks(quick())
        .tool(Tool::new("fails", "Fails", fails).with_tasks(TaskPolicy::Never))
        .tool(Tool::new("panics", "Panics", panics).with_tasks(TaskPolicy::Never))
        .tool(Tool::new("drifts", "Drifts", drifts).with_tasks(TaskPolicy::Never))
        .resource_template(antiphon::ResourceTemplate::new("user://{name}", "user", read));
    if let Some(telemetry) = telemetry {
        builder = builder.with_telemetry(telemetry);
    }
    let server = builder.build().unwrap();
    let given = json!({"given": "given-canary"});
    for revision in Revision::BOTH {
        let mut client = Client::connect(&server, revision).await.unwrap().with_answers(secrets());
        client.call("keep", given.clone()).await.unwrap();
        client.call("fails", json!({})).await.unwrap();
        client.call("panics", json!({})).await.unwrap();
        client.call("keep", json!({"given": {"argument-canary": true}})).await.unwrap();
        let _ = client.request("resources/read", json!({"uri": "user://uri-canary"})).await;
    }
    let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap().with_answers(secrets());
    let state = client.request("tools/call", json!({"name": "keep", "arguments": given})).await.unwrap();
    let forged = json!({"uri": "user://uri-canary", "requestState": state["requestState"]});
    client.request("resources/read", forged).await.unwrap_err();
    let answers = antiphon::testing::Answers::new().otherwise(|_| Some(accept(json!({"secret": "hunter2"}))));
    client.set_answers(answers);
    assert!(client.call("drifts", json!({})).await.unwrap().is_error());

    let seal = SealConfig::default().with_keys(keys);
    let tasks = super::builder(&KeyRing::random(), TaskPolicy::Always).with_seal(seal).with_tasks(quick());
    let tasks = tasks.build().unwrap();
    let mut client = Client::connect_with(&tasks, Revision::V2026_07_28, everything()).await.unwrap();
    let task = begin(&mut client, "keep", given).await;
    for (key, secret) in [("first", "hunter2"), ("second", "swordfish")] {
        until(&mut client, &task, "input_required").await;
        answer(&mut client, &task, json!({key: accept(json!({"secret": secret}))})).await;
    }
    until(&mut client, &task, "completed").await;
    state["requestState"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn no_log_line_has_a_secret_or_anything_of_the_callers() {
    let paper = Paper::default();
    let guard = tracing_subscriber::registry()
        .with(EnvFilter::new(FILTER))
        .with(tracing_subscriber::fmt::layer().json().with_writer(paper.clone()))
        .set_default();
    let state = day(Some(Telemetry::global().with_content(true))).await;
    drop(guard);
    let log = paper.text();
    assert!(log.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "it is structured");
    for line in [
        "a requestState was refused",
        "a tool panicked",
        "a tool returned an error",
        "does not match the journal of the run",
    ] {
        assert!(log.contains(line), "the day was told of: {line}\n{log}");
    }
    assert!(log.contains("\"mcp.method.name\":\"tools/call\""), "lines say to which request they belong");
    for content in CONTENT.into_iter().chain([state.as_str()]) {
        let lines: Vec<_> = log.lines().filter(|line| line.contains(content)).collect();
        assert_eq!(lines, [] as [&str; 0], "{content} is in the log");
    }
}

#[tokio::test]
async fn spans_hold_contents_if_asked_and_only_then() {
    for content in [false, true] {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let guard = tracing_subscriber::registry().with(EnvFilter::new(FILTER)).with(layer).set_default();
        day(Some(Telemetry::global().with_content(content))).await;
        drop(guard);
        let spans = exporter.get_finished_spans().unwrap();
        let text = format!("{spans:?}");
        assert!(spans.len() > 10);
        for canary in ["given-canary", "receipt-4711", "uri-canary"] {
            assert_eq!(text.contains(canary), content, "{canary} with content {content}");
        }
        // What was asked and answered on the way is never told; what a tool says in the end may repeat it.
        assert!(!text.contains("First?"), "content {content}");
    }
}

#[cfg(feature = "auth")]
#[tokio::test]
async fn scopes_that_are_not_checked_over_http_are_in_the_log() {
    use antiphon::{
        auth::{ApiKey, Auth},
        http::HttpConfig,
    };

    let paper = Paper::default();
    let guard = tracing_subscriber::registry()
        .with(EnvFilter::new("antiphon=warn"))
        .with(tracing_subscriber::fmt::layer().json().with_writer(paper.clone()))
        .set_default();
    let notes = || {
        let erase = Tool::new("erase", "Erases the notes", fails).with_scopes(["erase"]);
        Server::builder("notes", "1.0.0").tool(erase)
    };
    let office = || Server::builder("office", "1.0.0").mount("notes", notes());
    let key = ApiKey::new("ci", &"k".repeat(32));
    let auth = Auth::builder("https://office.example/mcp").with_api_keys([key]);
    let checked = office().with_auth(auth.build().unwrap()).build().unwrap();
    let _ = checked.router(HttpConfig::default());
    // Over stdio, the server does not check scopes.
    let mounted = office().build().unwrap();
    Client::connect(&mounted, Revision::V2026_07_28).await.unwrap();
    assert_eq!(paper.text(), "");
    for (server, tool) in [(mounted, "notes_erase"), (notes().build().unwrap(), "erase")] {
        let _ = server.router(HttpConfig::default());
        let log = paper.text();
        let line: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        assert_eq!(line["fields"]["tools"], tool, "{log}");
    }
    drop(guard);
}

#[cfg(feature = "http")]
#[tokio::test]
async fn what_an_operator_does_is_in_the_audit_log() {
    use tower::ServiceExt as _;
    const TOKEN: &str = "a-token-that-is-long-enough-for-this";
    let paper = Paper::default();
    let guard = tracing_subscriber::registry()
        .with(EnvFilter::new("antiphon::audit=info"))
        .with(tracing_subscriber::fmt::layer().json().with_writer(paper.clone()))
        .set_default();
    let server = builder(&KeyRing::random(), TaskPolicy::Always).with_tasks(quick()).build().unwrap();
    let mut client = Client::connect_with(&server, Revision::V2026_07_28, everything()).await.unwrap();
    let task = begin(&mut client, "keep", json!({"given": "given-canary"})).await;
    until(&mut client, &task, "input_required").await;
    let run = server.runs().unwrap().list(None, None, 10).await.unwrap().runs[0].run.clone();
    let routes = server.operator_router(TOKEN).unwrap();
    let ask = async |method: &str, path: String, token: &str| {
        let request = axum::http::Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {token}"));
        let request = request.body(axum::body::Body::empty()).unwrap();
        routes.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    let other = "another-token-that-is-long-enough";
    assert_eq!(ask("POST", format!("/runs/{run}/cancel"), other).await, 401);
    assert_eq!(ask("GET", format!("/runs/{run}"), TOKEN).await, 200);
    assert_eq!(paper.text(), "", "who only looks is not in it, nor who is no operator");
    assert_eq!(ask("POST", format!("/runs/{run}/cancel"), TOKEN).await, 200);
    until(&mut client, &task, "cancelled").await;
    assert_eq!(ask("POST", format!("/runs/{run}/retry"), TOKEN).await, 200);
    ask("DELETE", format!("/runs/{run}"), TOKEN).await;
    drop(guard);
    let log = paper.text();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let actions: Vec<_> = lines.iter().map(|line| line["fields"]["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["cancel", "retry", "purge"], "{log}");
    for line in &lines {
        let fields = &line["fields"];
        assert_eq!(fields["run"], run, "{line}");
        assert!(fields["operator"].as_str().unwrap().starts_with("token "), "{line}");
    }
    assert!(!log.contains(TOKEN) && !log.contains("given-canary"), "{log}");
}
