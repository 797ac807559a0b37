//! The tasks of 2025-11-25, which the SDK drops, reach a handler through every transport of the crate.

use std::sync::{Arc, Mutex};

use antiphon::{model::ServerHandler, prelude::*};
use rmcp::{
    ErrorData, RoleServer,
    model::{CustomRequest, CustomResult, ExperimentalCapabilities, ServerCapabilities, ServerConfig},
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

type Seen = Arc<Mutex<Vec<(String, Value)>>>;

/// Keeps what it is asked.
#[derive(Clone, Default)]
struct Tasks(Seen);

impl ServerHandler for Tasks {
    fn get_info(&self) -> ServerConfig {
        let tasks = json!({"cancel": {}}).as_object().cloned().unwrap();
        let experimental = ExperimentalCapabilities::from([("antiphon/tasks".to_owned(), tasks)]);
        ServerConfig::new(ServerCapabilities::builder().enable_experimental_with(experimental).build())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.0.lock().unwrap().push((request.method.clone(), request.params.unwrap_or_default()));
        Ok(CustomResult::new(json!({"asked": request.method})))
    }
}

fn server(tasks: &Tasks) -> Server {
    Server::builder("layer", "1").handler(tasks.clone()).build().unwrap()
}

fn hello(version: &str) -> Value {
    let params =
        json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn call() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "x", "arguments": {"word": "\"task\" é"}, "task": {"ttl": 60000},
    }})
}

fn check_called(seen: &Seen) {
    let expect = ("antiphon/tasks/call".to_owned(), call()["params"].clone());
    assert_eq!(*seen.lock().unwrap(), [expect]);
    seen.lock().unwrap().clear();
}

fn check_capabilities(answer: &Value) {
    let capabilities = &answer["result"]["capabilities"];
    assert_eq!(capabilities["tasks"], json!({"cancel": {}}), "{answer}");
    assert_eq!(capabilities.get("experimental"), None, "{answer}");
}

/// One client's end of a stream.
struct Pipe(BufReader<tokio::io::DuplexStream>);

impl Pipe {
    fn to(server: Server) -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move { server.serve_stream(far).await });
        Self(BufReader::new(near))
    }

    async fn tell(&mut self, message: Value) -> Result<()> {
        Ok(self.0.write_all(format!("{message}\n").as_bytes()).await?)
    }

    async fn ask(&mut self, message: Value) -> Result<Value> {
        let id = message["id"].clone();
        self.tell(message).await?;
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).await?, 0, "the server goes");
            let answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == id {
                return Ok(answer);
            }
        }
    }
}

#[tokio::test]
async fn a_call_with_a_task_comes_through_a_stream() -> Result<()> {
    let tasks = Tasks::default();
    let mut pipe = Pipe::to(server(&tasks));
    check_capabilities(&pipe.ask(hello("2025-11-25")).await?);
    pipe.tell(initialized()).await?;
    assert_eq!(pipe.ask(call()).await?["result"], json!({"asked": "antiphon/tasks/call"}));
    check_called(&tasks.0);
    for method in ["tasks/get", "tasks/cancel", "tasks/list", "tasks/result"] {
        let answer = pipe.ask(json!({"jsonrpc": "2.0", "id": method, "method": method})).await?;
        assert_eq!(answer["result"], json!({"asked": format!("antiphon/{method}")}));
    }
    Ok(())
}

#[tokio::test]
async fn a_client_of_an_older_revision_is_not_told_of_tasks() -> Result<()> {
    let mut pipe = Pipe::to(server(&Tasks::default()));
    let answer = pipe.ask(hello("2025-06-18")).await?;
    let capabilities = &answer["result"]["capabilities"];
    assert_eq!((capabilities.get("tasks"), capabilities.get("experimental")), (None, None), "{answer}");
    Ok(())
}

#[tokio::test]
async fn discovery_does_not_tell_of_tasks_that_are_not_its_revisions() -> Result<()> {
    let mut pipe = Pipe::to(server(&Tasks::default()));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    });
    let discover = json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": meta}});
    let answer = pipe.ask(discover).await?;
    let capabilities = &answer["result"]["capabilities"];
    assert!(capabilities.is_object(), "{answer}");
    assert_eq!((capabilities.get("tasks"), capabilities.get("experimental")), (None, None), "{answer}");
    Ok(())
}

#[cfg(feature = "http")]
mod web {
    use ::http::{Request, Response, StatusCode};
    use antiphon::{http::HttpConfig, testing::Revision};
    use antiphon_store::{Backend, QueueConfig};
    use axum::{Router, body::Body};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::http::post;

    async fn send(app: &Router, message: &Value, session: Option<&str>) -> Result<Response<Body>> {
        let mut request = Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("content-length", message.to_string().len())
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        Ok(app.clone().oneshot(request.body(Body::from(message.to_string()))?).await?)
    }

    /// The last message of a response, as JSON or as an event stream.
    async fn read(response: Response<Body>) -> Result<Value> {
        assert_eq!(response.status(), StatusCode::OK);
        let bytes = response.into_body().collect().await?.to_bytes();
        let text = std::str::from_utf8(&bytes)?;
        let data = text.lines().filter_map(|line| line.strip_prefix("data:")).next_back();
        Ok(serde_json::from_str(data.unwrap_or(text))?)
    }

    async fn check_session(app: &Router, seen: &Seen) -> Result<()> {
        let began = send(app, &hello("2025-11-25"), None).await?;
        let session = began.headers()["mcp-session-id"].to_str()?.to_owned();
        check_capabilities(&read(began).await?);
        let told = send(app, &initialized(), Some(&session)).await?;
        assert_eq!(told.status(), StatusCode::ACCEPTED);
        let answer = read(send(app, &call(), Some(&session)).await?).await?;
        assert_eq!(answer["result"], json!({"asked": "antiphon/tasks/call"}));
        check_called(seen);
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
        assert_eq!(read(send(app, &list, Some(&session)).await?).await?["result"]["tools"], json!([]));
        Ok(())
    }

    #[tokio::test]
    async fn a_call_with_a_task_comes_through_a_session() -> Result<()> {
        let tasks = Tasks::default();
        check_session(&server(&tasks).router(HttpConfig::default()), &tasks.0).await
    }

    #[tokio::test]
    async fn a_call_with_a_task_comes_through_a_session_that_replicas_share() -> Result<()> {
        let tasks = Tasks::default();
        let backend = Backend::connect("memory:", "layer", QueueConfig::default()).await?;
        let server = Server::builder("layer", "1").handler(tasks.clone()).with_backend(backend).build()?;
        check_session(&server.router(HttpConfig::default()), &tasks.0).await
    }

    #[tokio::test]
    async fn a_call_with_a_task_comes_through_without_a_session() -> Result<()> {
        for json in [true, false] {
            let tasks = Tasks::default();
            let config = HttpConfig::default().with_sessions(false).with_json_response(json);
            let app = server(&tasks).router(config);
            check_capabilities(&read(send(&app, &hello("2025-11-25"), None).await?).await?);
            let answer = read(send(&app, &call(), None).await?).await?;
            assert_eq!(answer["result"], json!({"asked": "antiphon/tasks/call"}));
            check_called(&tasks.0);
        }
        Ok(())
    }

    #[tokio::test]
    async fn discovery_does_not_tell_of_them_over_http_either() -> Result<()> {
        let app = server(&Tasks::default()).router(HttpConfig::default());
        let answer =
            read(app.oneshot(post(Revision::V2026_07_28, "server/discover", json!({}))).await?).await?;
        let capabilities = &answer["result"]["capabilities"];
        assert!(capabilities.is_object(), "{answer}");
        assert_eq!((capabilities.get("tasks"), capabilities.get("experimental")), (None, None), "{answer}");
        Ok(())
    }

    #[tokio::test]
    async fn a_body_too_large_is_refused_in_the_same_words_on_both_revisions() -> Result<()> {
        let mut said = Vec::new();
        for revision in Revision::BOTH {
            let config = HttpConfig::default().with_max_body_bytes(10_000);
            let app = server(&Tasks::default()).router(config);
            let large = json!({"name": "x", "arguments": {"x": "x".repeat(20_000)}, "task": {}});
            let response = app.oneshot(post(revision, "tools/call", large)).await?;
            assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE, "{revision:?}");
            said.push(response.into_body().collect().await?.to_bytes());
        }
        assert_eq!(said[0], said[1]);
        Ok(())
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_refused_as_before() -> Result<()> {
        let app = server(&Tasks::default()).router(HttpConfig::default());
        let (mut parts, _) = post(Revision::V2025_11_25, "tools/list", json!({})).into_parts();
        parts.headers.remove("content-length");
        let chunks = [Ok("{"), Err(std::io::Error::other("gone"))];
        let body = Body::from_stream(futures_util::stream::iter(chunks));
        let response = app.oneshot(Request::from_parts(parts, body)).await?;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        Ok(())
    }
}
