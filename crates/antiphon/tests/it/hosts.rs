//! What the hosts that people use need of a server, beyond the specification.

use std::time::Duration;

use antiphon::{
    http::{HttpConfig, MemoryBudget},
    prelude::*,
};
use antiphon_store::{Memory, QueueConfig};
use axum::{Router, body::Body};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

#[derive(Deserialize, JsonSchema)]
struct Weeks {
    name: String,
    #[serde(default)]
    first_week: u32,
    #[serde(default)]
    last_week: Option<u32>,
}

async fn weeks(_: &Ctx, Weeks { name, first_week, last_week }: Weeks) -> Result<String> {
    Ok(format!("{name} {first_week} {last_week:?}"))
}

/// The same server, with its sessions in its own memory and in a store.
fn worlds() -> [Router; 2] {
    worlds_with(&MemoryBudget::default())
}

fn worlds_with(budget: &MemoryBudget) -> [Router; 2] {
    let builder = || Server::builder("hosts", "1.0.0").tool(Tool::new("weeks", "Says which weeks", weeks));
    let alone = builder().build().unwrap();
    let backed = builder().with_backend(Memory::default().backend(QueueConfig::default())).build().unwrap();
    [alone, backed].map(|server| server.router(HttpConfig::default().with_body_budget(budget.clone())))
}

fn request(method: Method, session: Option<&str>, message: Option<Value>) -> Request<Body> {
    let mut request = Request::builder()
        .method(method)
        .uri("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    request.body(message.map_or_else(Body::empty, |message| Body::from(message.to_string()))).unwrap()
}

/// Begins a session. As some hosts do, it never says the revision in a header.
async fn begin(app: &Router, version: &str) -> (String, String) {
    let hello =
        json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
    let response = app.clone().oneshot(request(Method::POST, None, Some(hello))).await.unwrap();
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let text = all(response).await;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    app.clone().oneshot(request(Method::POST, Some(&session), Some(initialized))).await.unwrap();
    (session, text)
}

async fn all(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// The data of each event.
fn data(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect()
}

#[tokio::test]
async fn stream_begins_with_an_empty_event_only_for_clients_that_know_it() {
    for app in worlds() {
        for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
            let (session, hello) = begin(&app, version).await;
            let knows = version == "2025-11-25";
            assert!(knows || data(&hello).iter().all(|data| !data.is_empty()), "{version}: {hello}");
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "weeks", "arguments": {"name": "ada"}}});
            let response =
                app.clone().oneshot(request(Method::POST, Some(&session), Some(call))).await.unwrap();
            let text = all(response).await;
            assert_eq!(data(&text)[0].is_empty(), knows, "{version}: {text}");
            assert!(text.contains("ada 0 None"), "{text}");
            let response = app.clone().oneshot(request(Method::GET, Some(&session), None)).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let mut body = response.into_body();
            let first = tokio::time::timeout(Duration::from_millis(300), body.frame()).await;
            let first = first.ok().flatten().map(|frame| frame.unwrap().into_data().unwrap());
            let first = first.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
            let primed =
                first.as_ref().is_some_and(|text| data(text).first().is_some_and(|data| data.is_empty()));
            assert_eq!(primed, knows, "{version}: {first:?}");
        }
    }
}

#[tokio::test]
async fn end_of_a_session_is_answered_as_other_servers_do() {
    for app in worlds() {
        let (session, _) = begin(&app, "2025-11-25").await;
        let response = app.clone().oneshot(request(Method::DELETE, Some(&session), None)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let response = app.clone().oneshot(request(Method::POST, Some(&session), Some(ping))).await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn null_for_an_optional_argument_is_taken_as_absent() {
    let [app, _] = worlds();
    let (session, _) = begin(&app, "2025-11-25").await;
    let call = async |arguments: Value| {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "weeks", "arguments": arguments}});
        let response = app.clone().oneshot(request(Method::POST, Some(&session), Some(call))).await.unwrap();
        all(response).await
    };
    let text = call(json!({"name": "ada", "first_week": null, "last_week": null})).await;
    assert!(text.contains("ada 0 None"), "{text}");
    let text = call(json!({"name": null})).await;
    assert!(text.contains("name: null is not of type"), "a required argument is not absent: {text}");
    let text = call(json!({"name": "ada", "first_week": "x"})).await;
    assert!(text.contains("first_week: "), "{text}");
}

#[tokio::test]
async fn session_in_which_nothing_happens_takes_no_memory_of_the_budget() {
    let budget = MemoryBudget::new(16 * 1024 * 1024);
    let whole = format!("{budget:?}");
    for app in worlds_with(&budget) {
        let mut sessions = Vec::new();
        for _ in 0..50 {
            let (session, _) = begin(&app, "2025-11-25").await;
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "weeks", "arguments": {"name": "ada"}}});
            let response =
                app.clone().oneshot(request(Method::POST, Some(&session), Some(call))).await.unwrap();
            all(response).await;
            sessions.push(session);
        }
        let began = std::time::Instant::now();
        while format!("{budget:?}") != whole {
            assert!(began.elapsed() < Duration::from_secs(5), "{budget:?} is left of {whole}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
