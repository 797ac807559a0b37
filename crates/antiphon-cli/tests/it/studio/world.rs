//! A running `antiphon studio`, a server for it to talk to, and a model.

use std::{process::Stdio, time::Duration};

use antiphon::{
    Server,
    http::HttpConfig,
    prelude::*,
    task::{TaskConfig, TaskPolicy},
};
use axum::{Json, Router, routing::post};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

use crate::support::{Folder, serve_router};

pub(super) const BOTH: [&str; 2] = ["2026-07-28", "2025-11-25"];

#[derive(Deserialize, JsonSchema)]
struct Size {
    size: String,
}

async fn order(ctx: &Ctx, (): ()) -> Result<String> {
    ctx.log(antiphon::Level::Info, "the kitchen is open");
    let asked = ctx.elicit::<Size>("Which size?").key("pickSize").context(&json!({"menu": ["S", "L"]}));
    let Size { size } = asked.await?.accepted()?;
    Ok(format!("a {size} pizza"))
}

async fn pay(ctx: &Ctx, (): ()) -> Result<String> {
    let visit = ctx.elicit_url("Pay first", "https://pay.example/order/1").await?;
    Ok(if visit.agreed { "paid".to_owned() } else { "not paid".to_owned() })
}

async fn rhyme(ctx: &Ctx, (): ()) -> Result<String> {
    Ok(ctx.sample("A word that rhymes with day?").await?.text())
}

/// A server with tools that ask.
pub(super) async fn kitchen() -> String {
    let server = Server::builder("kitchen", "1.0.0")
        .with_tasks(TaskConfig::default().with_poll_interval(Duration::from_millis(50)))
        .tool(Tool::new("order", "Takes an order", order).with_tasks(TaskPolicy::Never))
        .tool(Tool::new("deliver", "Takes an order, and its time", order).with_tasks(TaskPolicy::Always))
        .tool(Tool::new("pay", "Sends you to a page", pay).with_tasks(TaskPolicy::Never))
        .tool(Tool::new("rhyme", "Finds a rhyme", rhyme).with_tasks(TaskPolicy::Never))
        .build()
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        server.serve_listener(listener, HttpConfig::default(), std::future::pending::<()>()).await.unwrap();
    });
    url
}

/// A model that knows one word.
pub(super) async fn model() -> String {
    let reply = json!({
        "id": "1", "object": "chat.completion", "created": 0, "model": "poet",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "may"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    });
    let completions = post(|| async move { Json(reply) });
    serve_router(Router::new().route("/v1/chat/completions", completions)).await + "/v1"
}

/// The command, running.
pub(super) struct Studio {
    _child: Child,
    /// Its configuration, unless the test has brought its own.
    _folder: Option<Folder>,
    pub(super) base: String,
    pub(super) token: String,
    client: Client,
}

impl Studio {
    pub(super) async fn start(arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let studio = Self::start_in(&folder, arguments).await;
        Self { _folder: Some(folder), ..studio }
    }

    pub(super) async fn start_in(folder: &Folder, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
        command.args(["studio", "--no-open"]).args(arguments).env("ANTIPHON_CONFIG_DIR", folder.path());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        let (base, token) = line.trim().split_once("/?token=").expect("the address is printed");
        assert!(base.starts_with("http://127.0.0.1:"), "{base}");
        assert!(token.len() >= 32, "{token}");
        let client = Client::builder().no_proxy().build().unwrap();
        Self { _child: child, _folder: None, base: base.to_owned(), token: token.to_owned(), client }
    }

    pub(super) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(&self.token)
    }

    pub(super) async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path).send().await.unwrap()).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).json(&body).send().await.unwrap()).await
    }

    pub(super) async fn connect(&self, server: &str, revision: &str) -> String {
        let (status, session) =
            self.post("/api/connect", json!({"server": server, "revision": revision})).await;
        assert_eq!((status, &session["revision"]), (StatusCode::OK, &json!(revision)), "{session}");
        assert_eq!(session["name"], "kitchen");
        session["session"].as_str().unwrap().to_owned()
    }

    pub(super) async fn call(&self, session: &str, tool: &str) -> String {
        let path = format!("/api/session/{session}/call");
        let (status, call) = self.post(&path, json!({"tool": tool, "task": tool == "deliver"})).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{call}");
        call["call"].as_str().unwrap().to_owned()
    }

    pub(super) async fn answer(&self, ask: &Value, body: Value) -> StatusCode {
        self.post(&format!("/api/ask/{}", ask["ask"].as_str().unwrap()), body).await.0
    }

    pub(super) async fn events(&self, session: &str, after: u64) -> Events {
        self.listen(session, "events", after).await
    }

    /// The messages of a session, and the standard error of its program.
    pub(super) async fn traffic(&self, session: &str) -> Events {
        self.listen(session, "traffic", 0).await
    }

    async fn listen(&self, session: &str, what: &str, after: u64) -> Events {
        let request = self.request(Method::GET, &format!("/api/session/{session}/{what}"));
        let response = request.header("last-event-id", after.to_string()).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Events { response, rest: String::new(), last: after }
    }
}

pub(super) async fn answer(response: Response) -> (StatusCode, Value) {
    guarded(&response);
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Every answer says what the page may do.
pub(super) fn guarded(response: &Response) {
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap());
    let policy = header("content-security-policy").unwrap_or_default();
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{}: {policy}", response.url());
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(header("x-content-type-options"), Some("nosniff"));
    assert_eq!(header("referrer-policy"), Some("no-referrer"));
    assert_eq!(header("cache-control"), Some("no-store"));
}

/// What happens in a session.
pub(super) struct Events {
    response: Response,
    rest: String,
    pub(super) last: u64,
}

impl Events {
    /// The next event; none when there will be no more.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((message, rest)) = self.rest.split_once("\n\n") {
                let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
                let event = field("data:").map(|data| serde_json::from_str(data.trim()).unwrap());
                if let Some(id) = field("id:") {
                    self.last = id.trim().parse().unwrap();
                }
                self.rest = rest.to_string();
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let chunk = self.response.chunk().await.ok()??;
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event of this kind.
    pub(super) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("there was no `{kind}`"));
            if event["type"] == kind {
                return event;
            }
            assert!(event["type"] != "failed", "{event}");
        }
    }
}
