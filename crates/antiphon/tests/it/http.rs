//! Streamable HTTP: through the router where that is enough, over a socket where it is not.

use std::time::{Duration, Instant};

use antiphon::{
    ServerBuilder,
    http::HttpConfig,
    prelude::*,
    seal::SealConfig,
    testing::{Frame, Revision},
};
use axum::{Router, body::Body};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use crate::{
    checked::check,
    replicas::{
        fleet::{self, Fleet},
        streams::check_question_is_sent_once,
    },
};

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.log(antiphon::Level::Info, "asking");
    let who = ctx.principal().unwrap_or("nobody").to_owned();
    Ok(format!("{} for {who}", ctx.elicit::<Word>("Word?").await?.accepted()?.word))
}

async fn panics(_: &Ctx, _: ()) -> Result<String> {
    panic!("at the disco");
}

fn builder() -> ServerBuilder {
    Server::builder("web", "1.0.0")
        .tool(Tool::new("ask", "Asks", ask))
        .tool(Tool::new("panics", "Panics", panics))
}

fn app(config: HttpConfig) -> Result<Router> {
    Ok(builder().build()?.router(config))
}

fn request(revision: Revision, method: &str, params: Value) -> http::request::Builder {
    let _ = params;
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", revision.as_str());
    if revision == Revision::V2026_07_28 {
        request = request.header("mcp-method", method);
        if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
            request = request.header("mcp-name", name);
        }
    }
    request
}

fn body(revision: Revision, method: &str, params: Value) -> Body {
    body_with(revision, method, params, json!({"elicitation": {}}))
}

fn body_with(revision: Revision, method: &str, mut params: Value, capabilities: Value) -> Body {
    if revision == Revision::V2026_07_28 {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string().into()
}

pub(crate) fn post(revision: Revision, method: &str, params: Value) -> Request<Body> {
    request(revision, method, params.clone()).body(body(revision, method, params)).unwrap()
}

/// The same, of a client that has declared `capabilities`.
pub(crate) fn post_with(
    revision: Revision,
    method: &str,
    params: Value,
    capabilities: Value,
) -> Request<Body> {
    request(revision, method, params.clone()).body(body_with(revision, method, params, capabilities)).unwrap()
}

/// The messages of a response, as JSON or as an event stream.
pub(crate) async fn messages(response: Response<Body>) -> Result<Vec<Value>> {
    let bytes = response.into_body().collect().await?.to_bytes();
    let text = String::from_utf8(bytes.to_vec())?;
    Ok(if text.starts_with('{') { vec![serde_json::from_str(&text)?] } else { events(&text) })
}

fn events(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok()).collect()
}

fn checked(revision: Revision, method: &str, messages: Vec<Value>) -> Value {
    for message in &messages {
        let answers = message.get("method").is_none().then(|| method.to_owned());
        check(revision, &Frame { method: answers, message: message.clone() });
    }
    messages.last().cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_run_goes_on_at_another_replica() -> Result<()> {
    let seal = SealConfig::default();
    let replica =
        || builder().with_seal(seal.clone()).build().map(|server| server.router(HttpConfig::default()));
    let call = json!({"name": "ask", "arguments": {}});
    let revision = Revision::V2026_07_28;
    let first = replica()?.oneshot(post(revision, "tools/call", call.clone())).await?;
    assert_eq!(first.status(), StatusCode::OK);
    let first = checked(revision, "tools/call", messages(first).await?);
    assert_eq!(first["result"]["resultType"], "input_required");
    let mut retry = call;
    retry["requestState"] = first["result"]["requestState"].clone();
    retry["inputResponses"] = json!({"word": {"action": "accept", "content": {"word": "a"}}});
    let second = replica()?.oneshot(post(revision, "tools/call", retry)).await?;
    let second = checked(revision, "tools/call", messages(second).await?);
    assert_eq!(second["result"]["content"][0]["text"], "a for nobody");
    Ok(())
}

#[tokio::test]
async fn another_callers_run_does_not_open() -> Result<()> {
    let seal = SealConfig::default();
    let replica = || {
        builder()
            .with_seal(seal.clone())
            .with_principal(|parts| parts.extensions.get::<Caller>().map(|caller| caller.0.to_owned()))
            .build()
            .map(|server| server.router(HttpConfig::default()))
    };
    let revision = Revision::V2026_07_28;
    let send = async |caller: &'static str, params: Value| -> Result<Value> {
        let mut request = post(revision, "tools/call", params);
        request.extensions_mut().insert(Caller(caller));
        Ok(checked(revision, "tools/call", messages(replica()?.oneshot(request).await?).await?))
    };
    let call = json!({"name": "ask", "arguments": {}});
    let first = send("ada", call.clone()).await?;
    let mut retry = call;
    retry["requestState"] = first["result"]["requestState"].clone();
    retry["inputResponses"] = json!({"word": {"action": "accept", "content": {"word": "a"}}});
    let stolen = send("eve", retry.clone()).await?;
    assert_eq!(stolen["error"], json!({"code": -32602, "message": "Invalid or expired requestState"}));
    assert_eq!(send("ada", retry).await?["result"]["content"][0]["text"], "a for ada");
    Ok(())
}

/// Whom a middleware has found to be calling.
#[derive(Clone, Copy)]
struct Caller(&'static str);

#[tokio::test]
async fn tool_reads_headers_and_what_a_middleware_provided() -> Result<()> {
    async fn origin(ctx: &Ctx, _: ()) -> Result<String> {
        let language = ctx.headers().and_then(|headers| headers.get("accept-language")?.to_str().ok());
        let caller = ctx.extension::<Caller>().map(|caller| caller.0);
        Ok(format!("{language:?} {caller:?}"))
    }
    let server =
        Server::builder("http", "1.0.0").tool(Tool::new("origin", "Says from where", origin)).build()?;
    let app = server.router(HttpConfig::default().with_sessions(false));
    let call = json!({"name": "origin", "arguments": {}});
    let send = async |revision: Revision| -> Result<Value> {
        let mut request = post(revision, "tools/call", call.clone());
        request.headers_mut().insert("accept-language", "de".parse()?);
        request.extensions_mut().insert(Caller("ada"));
        Ok(checked(revision, "tools/call", messages(app.clone().oneshot(request).await?).await?))
    };
    for revision in Revision::BOTH {
        let answer = send(revision).await?;
        let text = &answer["result"]["content"][0]["text"];
        assert_eq!(text, r#"Some("de") Some("ada")"#, "{}: {answer}", revision.as_str());
    }
    // Over a pipe there is neither.
    let mut client = antiphon::testing::Client::connect(&server, Revision::V2026_07_28).await?;
    assert_eq!(client.call("origin", json!({})).await?.text(), "None None");
    Ok(())
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_turned_away_by_default() -> Result<()> {
    let list = || request(Revision::V2026_07_28, "tools/list", json!({}));
    let send = async |request: http::request::Builder, config: HttpConfig| -> Result<StatusCode> {
        let request = request.body(body(Revision::V2026_07_28, "tools/list", json!({})))?;
        Ok(app(config)?.oneshot(request).await?.status())
    };
    let default = HttpConfig::default;
    assert_eq!(send(list(), default()).await?, StatusCode::OK);
    assert_eq!(
        send(list().header("origin", "https://evil.example"), default()).await?,
        StatusCode::FORBIDDEN
    );
    assert_eq!(send(list().header("origin", "null"), default()).await?, StatusCode::FORBIDDEN);
    assert_eq!(send(list().header("origin", "http://localhost:6274"), default()).await?, StatusCode::OK);
    let app_origin = default().with_allowed_origins(["https://app.example:443"]);
    assert_eq!(send(list().header("origin", "https://app.example"), app_origin).await?, StatusCode::OK);
    let mut evil = list();
    evil.headers_mut().unwrap().insert("host", "evil.example".parse()?);
    assert_eq!(send(evil, default()).await?, StatusCode::FORBIDDEN);
    Ok(())
}

#[tokio::test]
async fn a_body_too_large_or_too_deep_is_refused() -> Result<()> {
    let revision = Revision::V2026_07_28;
    let config = HttpConfig::default().with_max_body_bytes(10_000);
    let large = json!({"name": "ask", "arguments": {"x": "x".repeat(20_000)}});
    let status = app(config)?.oneshot(post(revision, "tools/call", large)).await?.status();
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"ask","arguments":{{"a":{}1{}}}}}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let request = request(revision, "tools/call", json!({"name": "ask"})).body(Body::from(deep))?;
    let status = app(HttpConfig::default())?.oneshot(request).await?.status();
    assert!(status.is_client_error(), "{status}");
    Ok(())
}

#[tokio::test]
async fn a_panic_is_answered_over_http_too() -> Result<()> {
    for revision in Revision::BOTH {
        let config = HttpConfig::default().with_sessions(false);
        let response = app(config)?
            .oneshot(post(revision, "tools/call", json!({"name": "panics", "arguments": {}})))
            .await?;
        let answer = checked(revision, "tools/call", messages(response).await?);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    Ok(())
}

#[tokio::test]
async fn a_2025_11_25_client_without_a_session_fails_fast() -> Result<()> {
    let revision = Revision::V2025_11_25;
    let config = HttpConfig::default().with_sessions(false);
    let began = Instant::now();
    let response =
        app(config)?.oneshot(post(revision, "tools/call", json!({"name": "ask", "arguments": {}}))).await?;
    let answer = checked(revision, "tools/call", messages(response).await?);
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(
        answer["result"]["content"][0]["text"],
        "the client cannot receive questions: it sent this request outside a session; initialize a session first, or use protocol revision 2026-07-28"
    );
    assert!(began.elapsed() < Duration::from_secs(5));
    Ok(())
}

/// A session over a real socket.
struct Session {
    address: std::net::SocketAddr,
    id: String,
}

impl Session {
    async fn begin(config: HttpConfig) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = builder().build()?;
        tokio::spawn(async move { server.serve_listener(listener, config, std::future::pending()).await });
        let mut session = Self { address, id: String::new() };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}});
        let (head, _) = session
            .send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}), |_| false)
            .await?;
        let id = head.lines().find_map(|line| {
            line.to_lowercase().strip_prefix("mcp-session-id:").map(|id| id.trim().to_owned())
        });
        session.id = id.expect("a session id");
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), |_| true).await?;
        Ok(session)
    }

    /// Posts a message on a connection of its own and reads events until `done` says so or the
    /// answer ends.
    async fn send(&self, message: &Value, done: impl Fn(&[Value]) -> bool) -> Result<(String, Vec<Value>)> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(self.address).await?;
        let body = message.to_string();
        let session =
            if self.id.is_empty() { String::new() } else { format!("mcp-session-id: {}\r\n", self.id) };
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             mcp-protocol-version: 2025-11-25\r\n{session}content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
        let mut text = String::new();
        let mut chunk = [0; 4096];
        loop {
            let read = stream.read(&mut chunk).await?;
            text.push_str(&String::from_utf8_lossy(&chunk[..read]));
            let events = events(&text);
            if read == 0 || (!events.is_empty() && done(&events)) {
                let (head, _) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
                return Ok((head.to_owned(), events));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_may_think_for_longer_than_a_session_may_be_idle() -> Result<()> {
    let config = HttpConfig::default().with_session_idle(Duration::from_secs(1));
    let session = std::sync::Arc::new(Session::begin(config).await?);
    let caller = std::sync::Arc::clone(&session);
    let (asked, question) = tokio::sync::oneshot::channel();
    let asked = std::sync::Mutex::new(Some(asked));
    let call = tokio::spawn(async move {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": {}}});
        let done = |events: &[Value]| {
            if let Some(question) = events.iter().find(|event| event["method"] == "elicitation/create")
                && let Some(asked) = asked.lock().unwrap().take()
            {
                let _ = asked.send(question.clone());
            }
            events.iter().any(|event| event["id"] == 1 && event.get("result").is_some())
        };
        caller.send(&call, done).await
    });
    let question = tokio::time::timeout(Duration::from_secs(10), question).await??;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"word": "late"}}});
    let (head, _) = session.send(&answer, |_| true).await?;
    assert!(head.starts_with("HTTP/1.1 202"), "{head}");
    let (_, events) = tokio::time::timeout(Duration::from_secs(10), call).await???;
    let events: Vec<_> = events.into_iter().filter(|event| event["method"] != "ping").collect();
    let result = checked(Revision::V2025_11_25, "tools/call", events);
    assert_eq!(result["result"]["content"][0]["text"], "late for nobody");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_stream_does_not_repeat_a_question() -> Result<()> {
    let mut fleet = Fleet::empty();
    // Without a backend, sessions are in the memory of the server.
    let server = fleet::builder(&fleet.gate).build()?;
    fleet.add(server, HttpConfig::default()).await?;
    check_question_is_sent_once(&fleet).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_is_closed() -> Result<()> {
    let session = Session::begin(HttpConfig::default().with_session_idle(Duration::from_millis(100))).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (head, _) = session.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), |_| true).await?;
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_stream_is_not_held_back_by_small_writes() -> Result<()> {
    let session = Session::begin(HttpConfig::default()).await?;
    let mut times: Vec<_> = Vec::new();
    for id in 0..15 {
        let began = Instant::now();
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "panics", "arguments": {}}});
        session.send(&ping, |events| events.iter().any(|event| event["id"] == id)).await?;
        times.push(began.elapsed());
    }
    times.sort();
    assert!(times[7] < Duration::from_millis(30), "{times:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_asked_to_end_ends() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = builder().build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_listener(listener, HttpConfig::default(), async { drop(stopped.await) }).await }
    });
    drop(stop);
    tokio::time::timeout(Duration::from_secs(10), serving).await???;
    Ok(())
}
