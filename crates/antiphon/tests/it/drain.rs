//! Servers that are asked to end while requests are in flight, on real connections.

use std::{net::SocketAddr, time::Duration};

use antiphon::{
    ServerBuilder,
    http::{HttpConfig, ServeConfig},
    prelude::*,
};
use antiphon_store::{Memory, QueueConfig};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::replicas::wire::{self, Response};

const MOMENT: Duration = Duration::from_secs(10);

/// Says that it has begun, and works for a while.
async fn work(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.state::<mpsc::UnboundedSender<()>>()?.send(())?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok("worked".into())
}

async fn forever(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.state::<mpsc::UnboundedSender<()>>()?.send(())?;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    Ok("never".into())
}

fn tools() -> ServerBuilder {
    Server::builder("drained", "1.0.0")
        .tool(Tool::new("work", "Works for two seconds", work))
        .tool(Tool::new("forever", "Does not end", forever))
}

fn with_backend(builder: ServerBuilder) -> ServerBuilder {
    builder.with_backend(Memory::default().backend(QueueConfig::default()))
}

/// A server on a port, until it is asked to end.
struct Served {
    address: SocketAddr,
    begun: mpsc::UnboundedReceiver<()>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Served {
    async fn start(builder: ServerBuilder, config: HttpConfig) -> Self {
        let (begins, begun) = mpsc::unbounded_channel::<()>();
        let server = builder.with_state(begins).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            server.serve_listener(listener, config, async { drop(stopped.await) }).await.unwrap();
        });
        Self { address, begun, stop, serving }
    }

    /// Asks it to end once a tool is at work, and waits until it has. Returns how long that took.
    async fn end(mut self, answer: impl Future<Output = ()>) -> Duration {
        self.begun.recv().await.unwrap();
        let asked = Instant::now();
        drop(self.stop);
        answer.await;
        timeout(MOMENT, self.serving).await.expect("it ends").unwrap();
        asked.elapsed()
    }
}

async fn session(address: SocketAddr) -> String {
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
    let mut response = legacy(address, "POST", None, Some(&hello)).await;
    response.message().await.unwrap();
    response.header("mcp-session-id").expect("a session").to_owned()
}

async fn legacy(
    address: SocketAddr,
    method: &str,
    session: Option<&str>,
    message: Option<&Value>,
) -> Response {
    let mut headers = vec![
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    headers.extend(session.map(|session| ("mcp-session-id", session)));
    wire::send(address, method, &headers, message).await.unwrap()
}

fn call(tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

#[tokio::test]
async fn session_call_in_flight_is_answered_by_a_server_that_is_asked_to_end() {
    for builder in [tools(), with_backend(tools())] {
        let served = Served::start(builder, HttpConfig::default()).await;
        let session = session(served.address).await;
        let mut response = legacy(served.address, "POST", Some(&session), Some(&call("work"))).await;
        let took = served
            .end(async {
                let answer = timeout(MOMENT, response.message()).await.unwrap().unwrap();
                assert_eq!(answer.message["result"]["content"][0]["text"], "worked", "{answer:?}");
            })
            .await;
        assert!(took > Duration::from_secs(1) && took < Duration::from_secs(5), "{took:?}");
    }
}

#[tokio::test]
async fn call_of_2026_07_28_in_flight_is_answered_by_a_server_that_is_asked_to_end() {
    for builder in [tools(), with_backend(tools())] {
        let served = Served::start(builder, HttpConfig::default().with_json_response(false)).await;
        let request = crate::http::post(
            antiphon::testing::Revision::V2026_07_28,
            "tools/call",
            json!({"name": "work", "arguments": {}}),
        );
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let address = served.address;
        let answering = tokio::spawn(async move {
            let headers = parts.headers.iter().filter(|(name, _)| *name != "host");
            let headers: Vec<_> =
                headers.map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
            wire::send(address, "POST", &headers, Some(&body)).await.unwrap().message().await.unwrap()
        });
        let took = served
            .end(async {
                let answer = timeout(MOMENT, answering).await.unwrap().unwrap();
                assert_eq!(answer.message["result"]["content"][0]["text"], "worked", "{answer:?}");
            })
            .await;
        assert!(took > Duration::from_secs(1) && took < Duration::from_secs(5), "{took:?}");
    }
}

#[tokio::test]
async fn call_that_outlasts_the_drain_is_answered_with_an_error() {
    for builder in [tools(), with_backend(tools())] {
        let serve = ServeConfig::default().with_drain(Duration::from_millis(500));
        let served = Served::start(builder, HttpConfig::default().with_serve(serve)).await;
        let session = session(served.address).await;
        let mut response = legacy(served.address, "POST", Some(&session), Some(&call("forever"))).await;
        let took = served
            .end(async {
                let answer = timeout(MOMENT, response.message()).await.unwrap().unwrap();
                let error = &answer.message["error"];
                assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("shutdown")));
            })
            .await;
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
}

#[tokio::test]
async fn stream_without_a_request_in_flight_ends_when_the_server_drains() {
    for builder in [tools(), with_backend(tools())] {
        let served = Served::start(builder, HttpConfig::default()).await;
        let session = session(served.address).await;
        let listening = legacy(served.address, "GET", Some(&session), None).await;
        let mut call = legacy(served.address, "POST", Some(&session), Some(&call("work"))).await;
        served
            .end(async {
                timeout(Duration::from_secs(1), listening.rest()).await.expect("it ends at once").unwrap();
                assert_eq!(call.message().await.unwrap().message["result"]["isError"], false);
            })
            .await;
    }
}

#[tokio::test]
async fn idle_server_ends_at_once() {
    for builder in [tools(), with_backend(tools())] {
        let served = Served::start(builder, HttpConfig::default()).await;
        let session = session(served.address).await;
        let listening = legacy(served.address, "GET", Some(&session), None).await;
        let asked = Instant::now();
        drop(served.stop);
        timeout(MOMENT, served.serving).await.expect("it ends").unwrap();
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        listening.rest().await.unwrap();
    }
}

/// Whoever serves the router by other means than ours still gets answers, and no sessions.
#[tokio::test(start_paused = true)]
async fn server_that_only_runs_workers_does_not_wait_for_requests() {
    let (begins, _begun) = mpsc::unbounded_channel::<()>();
    let server = with_backend(tools()).with_state(begins).build().unwrap();
    let start = Instant::now();
    server.run_workers(std::future::ready(())).await;
    assert!(start.elapsed() < Duration::from_millis(50), "{:?}", start.elapsed());
}

#[tokio::test]
async fn router_of_a_draining_server_begins_no_session_and_answers_until_it_has_stopped() {
    use axum::http::StatusCode;
    use tower::ServiceExt as _;
    for builder in [tools(), with_backend(tools())] {
        let (begins, mut begun) = mpsc::unbounded_channel::<()>();
        let server = builder.with_state(begins).build().unwrap();
        let app = server.router(HttpConfig::default());
        let post = |method: &str, params| {
            app.clone().oneshot(crate::http::post(antiphon::testing::Revision::V2026_07_28, method, params))
        };
        let initialize = || {
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
            app.clone().oneshot(crate::http::post(
                antiphon::testing::Revision::V2025_11_25,
                "initialize",
                hello,
            ))
        };
        let working = tokio::spawn(post("tools/call", json!({"name": "work", "arguments": {}})));
        begun.recv().await.unwrap();
        server.shut_down();
        let refused = initialize().await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()["retry-after"], "1");
        assert_eq!(post("tools/list", json!({})).await.unwrap().status(), StatusCode::OK);
        assert_eq!(working.await.unwrap().unwrap().status(), StatusCode::OK);
        timeout(MOMENT, server.drain()).await.expect("it ends");
        assert_eq!(post("tools/list", json!({})).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}

#[tokio::test]
async fn stream_on_which_a_client_listens_ends_at_its_age() {
    let config = || HttpConfig::default().with_max_stream_age(Duration::from_millis(400));
    for builder in [tools(), with_backend(tools())] {
        let served = Served::start(builder, config()).await;
        let session = session(served.address).await;
        let listening = legacy(served.address, "GET", Some(&session), None).await;
        // A call may take longer than that.
        let mut call = legacy(served.address, "POST", Some(&session), Some(&call("work"))).await;
        timeout(Duration::from_secs(2), listening.rest()).await.expect("it ends").unwrap();
        assert_eq!(call.message().await.unwrap().message["result"]["isError"], false);
    }
}

/// A connection of its own, as one over a pipe or a WebSocket is.
#[tokio::test]
async fn connection_answers_what_is_in_flight_rejects_what_comes_later_and_ends() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let (begins, mut begun) = mpsc::unbounded_channel::<()>();
    let server = tools().with_state(begins).build().unwrap();
    let (near, far) = tokio::io::duplex(1 << 16);
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_stream(far).await }
    });
    let (read, mut write) = tokio::io::split(near);
    let mut lines = BufReader::new(read).lines();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    });
    let call = |id: u32| {
        let params = json!({"name": "work", "arguments": {}, "_meta": meta});
        format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    };
    write.write_all(call(1).as_bytes()).await.unwrap();
    begun.recv().await.unwrap();
    let asked = Instant::now();
    server.shut_down();
    write.write_all(call(2).as_bytes()).await.unwrap();
    let mut next = async || -> Value {
        let line = timeout(MOMENT, lines.next_line()).await.unwrap().unwrap().expect("an answer");
        serde_json::from_str(&line).unwrap()
    };
    let refused = next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32000)), "{refused}");
    assert_eq!(refused["error"]["data"]["retryAfter"], 1);
    let answer = next().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(1), &json!("worked")),
        "{answer}"
    );
    timeout(MOMENT, serving).await.expect("the connection ends").unwrap().unwrap();
    timeout(MOMENT, server.drain()).await.expect("it ends");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert!(begun.try_recv().is_err(), "what was rejected was not begun");
}
