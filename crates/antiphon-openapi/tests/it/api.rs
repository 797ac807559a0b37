//! An API that records its requests.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use antiphon::{
    Server,
    task::{RetryPolicy, TaskConfig, TaskPolicy},
    testing::{Client, Revision, Talk},
};
use antiphon_openapi::OpenApi;
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// A request that the API received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: Method,
    /// The path and the query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

type Answer = dyn Fn(&Received) -> Response + Send + Sync;

/// A running API.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    answer: Arc<Answer>,
}

impl Api {
    /// Starts an API that answers each request with `answer`.
    pub(crate) async fn start(answer: impl Fn(&Received) -> Response + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let api = Self { url, received: Arc::default(), answer: Arc::new(answer) };
        let app = Router::new().fallback(handle).with_state(api.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        api
    }

    /// Starts an API that answers each request with `{"ok": true}`.
    pub(crate) async fn ok() -> Self {
        Self::start(|_| axum::Json(json!({"ok": true})).into_response()).await
    }

    /// Returns all requests.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Returns the only request.
    pub(crate) fn only(&self) -> Received {
        let received = self.received();
        assert_eq!(received.len(), 1, "{received:?}");
        received[0].clone()
    }
}

async fn handle(
    State(api): State<Api>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let target = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    let received = Received { method, target, headers, body };
    api.received.lock().unwrap().push(received.clone());
    let response = (api.answer)(&received);
    if response.extensions().get::<Silence>().is_some() {
        std::future::pending::<()>().await;
    }
    response
}

#[derive(Clone)]
struct Silence;

/// Returns an answer that the API does not send.
pub(crate) fn silence() -> Response {
    axum::Extension(Silence).into_response()
}

/// Returns an answer with this status and text.
pub(crate) fn text(status: u16, text: impl Into<String>) -> Response {
    (StatusCode::from_u16(status).unwrap(), text.into()).into_response()
}

/// Returns a document with these paths.
pub(crate) fn document(paths: Value) -> OpenApi {
    let mut document = json!({"openapi": "3.1.0"});
    document["paths"] = paths;
    OpenApi::from_value(document).unwrap()
}

/// Returns a server with the tools of a document.
pub(crate) fn serve(openapi: &OpenApi) -> Server {
    let converted = openapi.tools().unwrap();
    assert!(converted.report.refused.is_empty(), "{}", converted.report);
    Server::builder("api", "1.0.0").tools(converted.tools).build().unwrap()
}

/// Returns a server whose calls are tasks.
pub(crate) fn serve_tasks(openapi: &OpenApi) -> Server {
    let retry = RetryPolicy::default().with_backoff(Duration::from_millis(10));
    let tasks = TaskConfig::default()
        .with_heartbeat_interval(Duration::from_millis(200))
        .with_poll_interval(Duration::from_millis(20))
        .with_retry(retry);
    let tools = openapi.tools().unwrap().tools.into_iter().map(|it| it.with_tasks(TaskPolicy::Always));
    Server::builder("api", "1.0.0").with_tasks(tasks).tools(tools).build().unwrap()
}

/// Calls a tool as a task. Returns the ID of the task and its result.
pub(crate) async fn call_task(server: &Server, tool: &str, arguments: Value) -> (String, Value) {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = Client::connect_with(server, Revision::V2026_07_28, capabilities).await.unwrap();
    let params = json!({"name": tool, "arguments": arguments});
    let created = client.request("tools/call", params).await.unwrap();
    let id = created["taskId"].as_str().unwrap().to_owned();
    for _ in 0..1_000 {
        let task = client.request("tasks/get", json!({"taskId": id})).await.unwrap();
        match task["status"].as_str() {
            Some("completed") => return (id, task["result"].clone()),
            Some("working") => tokio::time::sleep(Duration::from_millis(10)).await,
            _ => panic!("{task}"),
        }
    }
    panic!("the task did not end");
}

/// Calls a tool.
pub(crate) async fn call(server: &Server, tool: &str, arguments: Value) -> Talk {
    let mut client = Client::connect(server, Revision::V2026_07_28).await.unwrap();
    client.call(tool, arguments).await.unwrap()
}
