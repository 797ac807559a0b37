//! Clients that are slow, greedy or come under a strange name, on real connections.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use antiphon::{
    http::{HttpConfig, OperatorConfig, ServeConfig},
    prelude::*,
    task::TaskConfig,
    testing::Revision,
};
use axum::{Router, body::Body, extract::ConnectInfo, http::StatusCode, routing::get};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};
use tower::ServiceExt as _;

use crate::http::post;

const MOMENT: Duration = Duration::from_secs(10);

async fn who(ConnectInfo(peer): ConnectInfo<SocketAddr>) -> String {
    peer.ip().to_string()
}

/// Something that is served, until it is told to end.
struct Served {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Served {
    async fn start(router: Router, config: ServeConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let ends = async { drop(stopped.await) };
        let serving = tokio::spawn(antiphon::http::serve(listener, router, config, ends));
        Self { address, stop: Some(stop), serving }
    }

    async fn hello(config: ServeConfig) -> Self {
        Self::start(Router::new().route("/", get(who)), config).await
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A request on a connection of its own, and all that comes back.
    async fn ask(&self) -> String {
        let mut stream = self.connect().await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        rest(&mut stream).await
    }
}

/// What comes until the other side has closed.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = timeout(MOMENT, stream.read_to_end(&mut bytes)).await.expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn head_that_comes_byte_by_byte_is_not_waited_for() {
    let served = Served::hello(ServeConfig::default().with_header_timeout(Duration::from_millis(300))).await;
    let began = Instant::now();
    let mut stream = served.connect().await;
    let (mut reading, mut writing) = stream.split();
    let trickles = async {
        for byte in b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: ".iter().chain([b'x'].iter().cycle()) {
            if writing.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut answer = Vec::new();
    tokio::select! {
        () = trickles => {}
        _ = reading.read_to_end(&mut answer) => {}
    }
    assert!(began.elapsed() < MOMENT && answer.is_empty(), "{:?}", String::from_utf8_lossy(&answer));
    assert!(served.ask().await.contains("127.0.0.1"), "others are served, and seen by their address");
}

#[tokio::test]
async fn connection_that_asks_nothing_is_closed() {
    let served = Served::hello(ServeConfig::default().with_header_timeout(Duration::from_millis(200))).await;
    let mut silent = served.connect().await;
    assert_eq!(rest(&mut silent).await, "");
}

#[tokio::test]
async fn head_that_is_too_long_is_refused() {
    let served = Served::hello(ServeConfig::default().with_max_header_bytes(10_000)).await;
    let mut stream = served.connect().await;
    let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(20_000));
    let _ = stream.write_all(head.as_bytes()).await;
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 431"));
}

/// Set when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn answer_that_nobody_reads_is_given_up() {
    let gone = Arc::new(AtomicBool::new(false));
    let endless = {
        let gone = Arc::clone(&gone);
        move || {
            let guard = Dropped(Arc::clone(&gone));
            let chunks = stream::repeat_with(move || {
                let _guard = &guard;
                Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 4096]))
            });
            std::future::ready(Body::from_stream(chunks))
        }
    };
    let config = ServeConfig::default().with_write_timeout(Duration::from_millis(300));
    let served = Served::start(Router::new().route("/", get(endless)), config).await;
    let mut stream = served.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let began = Instant::now();
    while !gone.load(Ordering::SeqCst) {
        assert!(began.elapsed() < MOMENT, "the answer is held for somebody who does not read it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(stream);
}

#[tokio::test]
async fn flood_of_idle_connections_keeps_nobody_out() {
    let served = Served::hello(ServeConfig::default().with_max_connections(4)).await;
    let mut flood = Vec::new();
    for _ in 0..12 {
        let mut stream = served.connect().await;
        // Half a head: it has nothing in hand.
        stream.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        flood.push(stream);
    }
    for _ in 0..8 {
        assert!(served.ask().await.starts_with("HTTP/1.1 200"));
    }
    drop(flood);
}

#[tokio::test]
async fn server_whose_connections_all_work_says_that_it_is_full() {
    let forever = || async {
        std::future::pending::<()>().await;
        StatusCode::OK
    };
    let router = Router::new().route("/", get(who)).route("/forever", get(forever));
    let served = Served::start(router, ServeConfig::default().with_max_connections(2)).await;
    let mut working = Vec::new();
    for _ in 0..2 {
        let mut stream = served.connect().await;
        stream.write_all(b"GET /forever HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        working.push(stream);
    }
    let began = Instant::now();
    let refused = loop {
        // Until both are being worked on, one of them may have to make room.
        let answer = served.ask().await;
        if answer.starts_with("HTTP/1.1 503") {
            break answer;
        }
        assert!(began.elapsed() < MOMENT, "{answer}");
        if working.len() < 10 {
            let mut stream = served.connect().await;
            stream.write_all(b"GET /forever HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
            working.push(stream);
        }
    };
    assert!(refused.contains("retry-after: 5") && refused.ends_with("too many connections"), "{refused}");
}

#[tokio::test]
async fn server_ends_though_somebody_holds_on_to_it() {
    let forever = || async {
        std::future::pending::<()>().await;
        StatusCode::OK
    };
    let config = ServeConfig::default().with_drain(Duration::from_millis(200));
    let mut served = Served::start(Router::new().route("/", get(forever)), config).await;
    let mut stream = served.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let _idle = served.connect().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(served.stop.take());
    timeout(MOMENT, &mut served.serving).await.expect("it ends").unwrap();
}

async fn greet(_: &Ctx, _: ()) -> Result<String> {
    Ok("hello".into())
}

fn server() -> Server {
    let greet = Tool::new("greet", "Greets", greet);
    Server::builder("slow", "1.0.0").with_tasks(TaskConfig::default()).tool(greet).build().unwrap()
}

#[tokio::test]
async fn body_that_does_not_come_is_not_waited_for() {
    let config = HttpConfig::default().with_body_timeout(Duration::from_millis(200));
    let served = Served::start(server().router(config), ServeConfig::default()).await;
    for version in ["2025-11-25", "2026-07-28"] {
        let mut stream = served.connect().await;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-protocol-version: {version}\r\ncontent-length: 1000\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(rest(&mut stream).await.starts_with("HTTP/1.1 408"), "{version}");
    }
}

#[tokio::test]
async fn body_that_is_said_to_be_too_long_is_not_waited_for() {
    let config = HttpConfig::default().with_max_body_bytes(1000);
    let served = Served::start(server().router(config), ServeConfig::default()).await;
    let mut stream = served.connect().await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1001\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn request_in_hand_is_answered_by_a_server_that_was_asked_to_end() {
    async fn work(_: &Ctx, _: ()) -> Result<String> {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok("worked".into())
    }
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let server = Server::builder("slow", "1.0.0").tool(Tool::new("work", "Works", work)).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        // Without sessions both are one request and its answer.
        let config = HttpConfig::default().with_sessions(false);
        let serving = tokio::spawn({
            let server = server.clone();
            async move { server.serve_listener(listener, config, async { drop(stopped.await) }).await }
        });
        let request = post(revision, "tools/call", json!({"name": "work", "arguments": {}}));
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let mut head = format!("POST /mcp HTTP/1.1\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in &parts.headers {
            head.extend([name.as_str(), ": ", value.to_str().unwrap(), "\r\n"]);
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(b"\r\n").await.unwrap();
        stream.write_all(&body).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(stop);
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("worked"), "{revision:?}: {answer}");
        timeout(MOMENT, serving).await.expect("it ends").unwrap().unwrap();
    }
}

#[tokio::test]
async fn large_bodies_take_so_much_memory_and_no_more() {
    let config = HttpConfig::default().with_body_memory(3 * 1024 * 1024);
    let app = server().router(config);
    let call = |bytes: usize| {
        let arguments = json!({"name": "greet", "arguments": {}, "padding": "x".repeat(bytes)});
        post(Revision::V2026_07_28, "tools/call", arguments)
    };
    let status = app.clone().oneshot(call(200 * 1024)).await.unwrap().status();
    assert_eq!(status, StatusCode::OK);
    let refused = app.clone().oneshot(call(600 * 1024)).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "1");
    // A body that waits for its end holds what it has; small ones come through all the same.
    let (held, waits) = oneshot::channel::<()>();
    let begins = stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 480 * 1024]))]);
    let ends = stream::once(async {
        let _ = waits.await;
        Err(std::io::Error::other("given up"))
    });
    let mut slow = call(0);
    *slow.body_mut() = Body::from_stream(futures_util::StreamExt::chain(begins, ends));
    let slow = tokio::spawn(app.clone().oneshot(slow));
    // Nothing else is tried before it has come so far: there would be no room for it.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let refused = app.clone().oneshot(call(100 * 1024)).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "what is held is counted");
    assert_eq!(app.clone().oneshot(call(10 * 1024)).await.unwrap().status(), StatusCode::OK);
    drop(held);
    let _ = slow.await.unwrap();
    assert_eq!(app.clone().oneshot(call(100 * 1024)).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn sessions_are_so_many_and_no_more_whatever_their_header_says() {
    let app = server().router(HttpConfig::default().with_max_sessions(2));
    let initialize = |version: &str| {
        let hello = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        axum::http::Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", version)
            .body(Body::from(
                json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).to_string(),
            ))
            .unwrap()
    };
    // The answers are kept: a session may end with its stream.
    let mut kept = Vec::new();
    for _ in 0..2 {
        let answer = app.clone().oneshot(initialize("2025-11-25")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        kept.push(answer);
    }
    for version in ["2025-11-25", "2026-07-28"] {
        let refused = app.clone().oneshot(initialize(version)).await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{version}");
        assert!(refused.headers().contains_key("retry-after"));
    }
    // Who needs no session is served.
    let call = post(Revision::V2026_07_28, "tools/call", json!({"name": "greet", "arguments": {}}));
    assert_eq!(app.oneshot(call).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn operators_are_known_by_their_token_and_come_by_our_name_from_no_page() {
    const TOKEN: &str = "a-token-that-is-long-enough-for-this";
    let server = server();
    let status = async |router: &Router, host: &str, origin: Option<&str>, token: &str| -> u16 {
        let mut request = axum::http::Request::get("/runs")
            .header("host", host)
            .header("authorization", format!("Bearer {token}"));
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
    };
    let router = server.operator_router(TOKEN).unwrap();
    assert_eq!(status(&router, "localhost:9000", None, TOKEN).await, 200);
    assert_eq!(status(&router, "localhost:9000", None, "another-token-that-is-long-enough").await, 401);
    assert_eq!(status(&router, "evil.example", None, TOKEN).await, 403);
    assert_eq!(status(&router, "localhost:9000", Some("http://localhost:9000"), TOKEN).await, 403);
    let config = OperatorConfig::new(TOKEN).with_allowed_hosts(["ops.internal"]);
    assert!(!format!("{config:?}").contains(TOKEN));
    let router = server.operator_router(config).unwrap();
    assert_eq!(status(&router, "ops.internal:9000", None, TOKEN).await, 200);
    assert_eq!(status(&router, "localhost:9000", None, TOKEN).await, 403);
    assert!(server.operator_router("short").is_err());
}
