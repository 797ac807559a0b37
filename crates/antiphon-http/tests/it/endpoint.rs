//! The endpoint before a handler of the SDK's own.

use std::sync::Arc;

use antiphon_http::{Application, HttpConfig, SharedSessions, endpoint};
use antiphon_store::{Memory, QueueConfig};
use antiphon_transport::drain::Drain;
use axum::{
    Router,
    body::{Body, to_bytes},
};
use http::{Request, Response, StatusCode, header, request::Parts};
use rmcp::ServerHandler;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

struct App(Drain);

impl Application for App {
    fn drain(&self) -> &Drain {
        &self.0
    }

    fn has_principals(&self) -> bool {
        true
    }

    fn principal(&self, parts: &Parts) -> Option<String> {
        Some(parts.headers.get("x-user")?.to_str().ok()?.to_owned())
    }
}

struct Plain;

impl ServerHandler for Plain {}

fn router(sessions: Option<&SharedSessions>, drain: &Drain) -> Router {
    let config = HttpConfig::default();
    let app = Arc::new(App(drain.clone()));
    Router::new().route(config.path(), endpoint(app, || Plain, sessions, &config))
}

async fn post(router: &Router, user: &str, session: Option<&str>, message: Value) -> Response<Body> {
    let mut request = Request::post("/mcp")
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header("x-user", user);
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    let request = request.body(Body::from(message.to_string())).expect("a request");
    router.clone().oneshot(request).await.expect("a response")
}

async fn begin(router: &Router) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let response = post(router, "ada", None, message).await;
    assert_eq!(response.status(), StatusCode::OK);
    let session = response.headers()["mcp-session-id"].to_str().expect("an ID").to_owned();
    let body = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    assert!(String::from_utf8_lossy(&body).contains("2025-11-25"));
    session
}

fn ping() -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})
}

#[tokio::test]
async fn session_belongs_to_the_caller_who_began_it() {
    let router = router(None, &Drain::new(CancellationToken::new()));
    let session = begin(&router).await;
    assert_eq!(post(&router, "ada", Some(&session), ping()).await.status(), StatusCode::OK);
    assert_eq!(post(&router, "bob", Some(&session), ping()).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn session_goes_on_at_another_replica() {
    let backend = Memory::default().backend(QueueConfig::default());
    let replica = || {
        let drain = Drain::new(CancellationToken::new());
        let sessions = SharedSessions::new(&backend, &drain, drain.stopped.child_token());
        router(Some(&sessions), &drain)
    };
    let (first, second) = (replica(), replica());
    let session = begin(&first).await;
    assert_eq!(post(&second, "ada", Some(&session), ping()).await.status(), StatusCode::OK);
    assert_eq!(post(&second, "bob", Some(&session), ping()).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn endpoint_rejects_new_sessions_while_the_server_drains() {
    let drain = Drain::new(CancellationToken::new());
    let router = router(None, &drain);
    drain.draining.cancel();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }});
    assert_eq!(post(&router, "ada", None, message).await.status(), StatusCode::SERVICE_UNAVAILABLE);
}
