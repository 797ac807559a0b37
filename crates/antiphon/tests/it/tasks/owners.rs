//! Whose tasks: callers over HTTP, on both revisions.

use std::time::Duration;

use antiphon::{
    ServerBuilder,
    http::HttpConfig,
    prelude::*,
    task::{TaskConfig, TaskPolicy},
    testing::{Frame, Revision},
};
use axum::{Router, body::Body};
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::checked::check;

#[derive(Deserialize, JsonSchema)]
struct Seat {
    seat: String,
}

async fn book(ctx: &Ctx, _: ()) -> Result<String> {
    let who = ctx.principal().unwrap_or("nobody").to_owned();
    Ok(format!("{} for {who}", ctx.elicit::<Seat>("Which seat?").key("seat").await?.accepted()?.seat))
}

fn builder(config: TaskConfig) -> ServerBuilder {
    super::server()
        .with_tasks(config)
        .tool(Tool::new("book", "Asks for a seat", book).with_tasks(TaskPolicy::Always))
}

/// Callers are who they say they are.
fn known() -> Router {
    let builder = builder(super::quick()).with_principal(|parts| {
        parts.headers.get("x-caller").and_then(|caller| caller.to_str().ok()).map(ToOwned::to_owned)
    });
    builder.build().unwrap().router(HttpConfig::default())
}

/// Who calls, and in which session.
struct Caller {
    app: Router,
    name: &'static str,
    revision: Revision,
    session: Option<String>,
    /// What `initialize` was answered with.
    hello: Value,
}

impl Caller {
    async fn new(app: &Router, name: &'static str, revision: Revision) -> Self {
        let mut caller = Self { app: app.clone(), name, revision, session: None, hello: Value::Null };
        if revision == Revision::V2025_11_25 {
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}});
            let mut response = caller.post(caller.message("initialize", hello)).await;
            let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
            caller.hello = answer(&mut response).await;
            caller.session = Some(session);
            caller.post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        }
        caller
    }

    fn message(&self, method: &str, mut params: Value) -> Value {
        if self.revision == Revision::V2026_07_28 {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": super::everything(),
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            });
        }
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    }

    async fn post(&self, message: Value) -> http::Response<Body> {
        let mut request = Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", self.revision.as_str())
            .header("x-caller", self.name);
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if self.revision == Revision::V2026_07_28 {
            request = request.header("mcp-method", message["method"].as_str().unwrap());
            let params = &message["params"];
            if let Some(name) = params["name"].as_str().or(params["taskId"].as_str()) {
                request = request.header("mcp-name", name);
            }
        }
        self.app.clone().oneshot(request.body(Body::from(message.to_string())).unwrap()).await.unwrap()
    }

    /// Makes a request, and returns the message it is answered with.
    async fn request(&self, method: &str, params: Value) -> Value {
        let mut response = self.post(self.message(method, params)).await;
        let answer = answer(&mut response).await;
        check(self.revision, &Frame { method: Some(method.to_owned()), message: answer.clone() });
        answer
    }
}

/// The next message of a response, be it JSON or a stream of events.
async fn read(response: &mut http::Response<Body>, is_it: impl Fn(&Value) -> bool) -> Value {
    let mut text = String::new();
    loop {
        let lines = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok());
        if let Some(message) = messages.find(|message| is_it(message)) {
            return message;
        }
        let frame = response.body_mut().frame().await;
        let Some(frame) = frame else { panic!("the answer ended: {text}") };
        if let Ok(data) = frame.unwrap().into_data() {
            text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }
}

async fn answer(response: &mut http::Response<Body>) -> Value {
    read(response, |message| message.get("method").is_none() && message.get("id").is_some()).await
}

fn declared(hello: &Value) -> &Value {
    let capabilities = &hello["result"]["capabilities"];
    &capabilities["tasks"]
}

#[tokio::test]
async fn task_of_somebody_else_is_no_task() {
    let app = known();
    for revision in Revision::BOTH {
        let (ada, eve) = (Caller::new(&app, "ada", revision).await, Caller::new(&app, "eve", revision).await);
        let session = revision == Revision::V2025_11_25;
        let begun = ada.request("tools/call", json!({"name": "book", "arguments": {}, "task": {}})).await;
        let id = if session { &begun["result"]["task"]["taskId"] } else { &begun["result"]["taskId"] };
        assert!(id.is_string(), "{begun}");
        let last = if session { "result" } else { "update" };
        for method in ["get", "cancel", last] {
            let params = json!({"taskId": id, "inputResponses": {}});
            let stolen = eve.request(&format!("tasks/{method}"), params).await;
            assert_eq!(stolen["error"]["code"], -32602, "{method}: {stolen}");
            let missing = json!({"taskId": "0".repeat(32), "inputResponses": {}});
            let missing = eve.request(&format!("tasks/{method}"), missing).await;
            // There is no telling which.
            assert_eq!(stolen["error"], missing["error"]);
        }
        let own = ada.request("tasks/get", json!({"taskId": id})).await;
        assert_eq!(own["result"]["taskId"], *id);
        assert_ne!(own["result"]["status"], "cancelled");
    }
}

#[tokio::test]
async fn who_waits_for_a_task_has_a_session_that_is_in_use() {
    let config = HttpConfig::default().with_session_idle(Duration::from_millis(900));
    let server = builder(super::quick()).build().unwrap();
    let caller = Caller::new(&server.router(config), "nobody", Revision::V2025_11_25).await;
    let call = json!({"name": "book", "arguments": {}, "task": {}});
    let begun = caller.request("tools/call", call).await;
    let id = &begun["result"]["task"]["taskId"];
    let mut waiting = caller.post(caller.message("tasks/result", json!({"taskId": id}))).await;
    let question = read(&mut waiting, |message| message["method"] == "elicitation/create").await;
    // One is sent every third of the time after which a session would be closed.
    for _ in 0..5 {
        read(&mut waiting, |message| message["method"] == "ping").await;
    }
    let accepted = super::accept(json!({"seat": "3A"}));
    caller.post(json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted})).await;
    assert_eq!(answer(&mut waiting).await["result"]["content"][0]["text"], "3A for nobody");
}

#[tokio::test]
async fn known_callers_list_their_own_tasks() {
    let app = known();
    let revision = Revision::V2025_11_25;
    let (ada, eve) = (Caller::new(&app, "ada", revision).await, Caller::new(&app, "eve", revision).await);
    assert_eq!(declared(&ada.hello)["list"], json!({}));
    let begun = ada.request("tools/call", json!({"name": "book", "arguments": {}, "task": {}})).await;
    let listed = ada.request("tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"][0]["taskId"], begun["result"]["task"]["taskId"]);
    assert_eq!(eve.request("tasks/list", json!({})).await["result"]["tasks"], json!([]));
}

#[tokio::test]
async fn strangers_do_not_list_each_others_tasks() {
    let revision = Revision::V2025_11_25;
    for allowed in [false, true] {
        let server = builder(super::quick().with_anonymous_list(allowed)).build().unwrap();
        let caller = Caller::new(&server.router(HttpConfig::default()), "nobody", revision).await;
        assert_eq!(declared(&caller.hello)["cancel"], json!({}));
        assert_eq!(declared(&caller.hello).get("list").is_some(), allowed);
        let listed = caller.request("tasks/list", json!({})).await;
        let error = listed["error"]["code"].as_i64();
        assert_eq!(error, (!allowed).then_some(-32601), "{listed}");
    }
}

#[tokio::test]
async fn question_comes_on_the_stream_of_who_waits() {
    let app = known();
    let ada = Caller::new(&app, "ada", Revision::V2025_11_25).await;
    let begun = ada.request("tools/call", json!({"name": "book", "arguments": {}, "task": {}})).await;
    let id = &begun["result"]["task"]["taskId"];
    let mut waiting = ada.post(ada.message("tasks/result", json!({"taskId": id}))).await;
    let question = read(&mut waiting, |message| message["method"] == "elicitation/create").await;
    check(Revision::V2025_11_25, &Frame { method: None, message: question.clone() });
    let related = &question["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(*related, json!({"taskId": id}));
    let accepted = super::accept(json!({"seat": "3A"}));
    ada.post(json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted})).await;
    let result = answer(&mut waiting).await;
    assert_eq!(result["result"]["content"][0]["text"], "3A for ada", "{result}");
}

#[tokio::test]
async fn who_comes_back_in_another_session_is_asked_what_nobody_hears_any_more() {
    let config = HttpConfig::default().with_session_idle(Duration::from_millis(900));
    let server = builder(super::quick()).build().unwrap();
    let app = server.router(config);
    let gone = Caller::new(&app, "nobody", Revision::V2025_11_25).await;
    let begun =
        gone.request("antiphon/tasks/call", json!({"name": "book", "arguments": {}, "task": {}})).await;
    let id = &begun["result"]["task"]["taskId"];
    let mut waiting = gone.post(gone.message("antiphon/tasks/result", json!({"taskId": id}))).await;
    read(&mut waiting, |message| message["method"] == "elicitation/create").await;
    // It has crashed: nothing is cancelled, and no session ended.
    drop(waiting);
    let back = Caller::new(&app, "nobody", Revision::V2025_11_25).await;
    let mut waiting = back.post(back.message("antiphon/tasks/result", json!({"taskId": id}))).await;
    let question = read(&mut waiting, |message| message["method"] == "elicitation/create");
    let question = tokio::time::timeout(Duration::from_secs(15), question).await.expect("it is asked again");
    let accepted = super::accept(json!({"seat": "3A"}));
    back.post(json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted})).await;
    assert_eq!(answer(&mut waiting).await["result"]["content"][0]["text"], "3A for nobody");
}

async fn approve(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.continue_as_task();
    ctx.elicit::<Approval>("May it start?").await?.accepted()?;
    Ok("started".into())
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    #[expect(dead_code, reason = "nobody answers")]
    sure: bool,
}

/// A request ends as soon as the client has its task, on any thread. The leg must not count as cancelled then. The
/// heartbeat interval is so long that no worker takes over a lost run during the test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_continues_when_the_request_ends_that_made_it_a_task() {
    let config = super::quick().with_heartbeat_interval(Duration::from_secs(60));
    let server = Server::builder("approvals", "1.0.0").with_tasks(config);
    let server = server.tool(Tool::new("approve", "Asks", approve)).build().unwrap();
    let app = server.router(HttpConfig::default());
    let send = async |method: &str, params: Value| {
        let task = params["taskId"].as_str().map(ToOwned::to_owned);
        let mut request = crate::http::post_with(Revision::V2026_07_28, method, params, super::everything());
        if let Some(task) = task {
            request.headers_mut().insert("mcp-name", task.parse().unwrap());
        }
        let response = app.clone().oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap()["result"].clone()
    };
    let mut tasks = Vec::new();
    for _ in 0..50 {
        // Fewer than there are workers: a run becomes a task only if a worker is free.
        let calls = (0..4).map(|_| send("tools/call", json!({"name": "approve", "arguments": {}})));
        tasks.extend(futures_util::future::join_all(calls).await);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    for task in tasks {
        let found = send("tasks/get", json!({"taskId": task["taskId"]})).await;
        assert_eq!(found["status"], "input_required", "{found}");
    }
}
