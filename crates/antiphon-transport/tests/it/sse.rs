//! What is HTTP+SSE's own: two endpoints, a session, statuses.

use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};

use antiphon_transport::{
    Error,
    sse::{SseClient, SseClientConfig},
};
use rmcp::{
    model::ProtocolVersion,
    service::{ClientLifecycleMode, ClientServiceExt as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::timeout,
};

use crate::{
    support::{Kind, Obliging, Served, Tweaks, address_of, call, serve, text_of, until},
    websocket::{INITIALIZE, INITIALIZED},
};

const MOMENT: Duration = Duration::from_secs(10);

/// A stream without our client.
pub(crate) struct Raw {
    response: reqwest::Response,
    seen: String,
    pub(crate) http: reqwest::Client,
    pub(crate) endpoint: String,
}

impl Raw {
    pub(crate) async fn open(served: &Served) -> Self {
        Self::at(served.address).await
    }

    pub(crate) async fn at(address: SocketAddr) -> Self {
        Self::of(address, reqwest::header::HeaderMap::new()).await
    }

    /// A stream of whoever these headers say.
    async fn of(address: SocketAddr, headers: reqwest::header::HeaderMap) -> Self {
        let http = reqwest::Client::new();
        let response = http.get(address_of(Kind::Sse, address)).headers(headers).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut raw = Self { response, seen: String::new(), http, endpoint: String::new() };
        let first = raw.event().await;
        let path = first.strip_prefix("event: endpoint\ndata: ").expect("the first event").to_owned();
        assert!(path.starts_with("/message?sessionId=") && path.len() == 51, "{path}");
        raw.endpoint = format!("http://{address}{path}");
        raw
    }

    /// As [`open`](Self::open), with the MCP handshake done.
    pub(crate) async fn ready(served: &Served) -> Self {
        let mut raw = Self::open(served).await;
        assert_eq!(raw.post(INITIALIZE).await, 202);
        assert!(raw.event().await.contains(r#""id":"init""#));
        assert_eq!(raw.post(INITIALIZED).await, 202);
        raw
    }

    pub(crate) async fn event(&mut self) -> String {
        loop {
            if let Some((event, rest)) = self.seen.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.seen = rest;
                return event;
            }
            let chunk =
                timeout(MOMENT, self.response.chunk()).await.expect("in time").unwrap().expect("an event");
            self.seen.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The status of a post. One that meets a connection which was closed after an earlier refusal is
    /// made again.
    pub(crate) async fn post(&self, body: impl Into<reqwest::Body> + Clone) -> u16 {
        for _ in 0..5 {
            if let Ok(status) = self.try_post(body.clone()).await {
                return status;
            }
        }
        self.try_post(body).await.unwrap()
    }

    pub(crate) async fn try_post(&self, body: impl Into<reqwest::Body>) -> reqwest::Result<u16> {
        let post = self.http.post(&self.endpoint).header("content-type", "application/json").body(body);
        Ok(post.send().await?.status().as_u16())
    }
}

#[tokio::test]
async fn origin_and_host_are_checked_on_both_endpoints() {
    let served = serve(Kind::Sse, Tweaks::default()).await;
    let raw = Raw::open(&served).await;
    let sse = address_of(Kind::Sse, served.address);
    for (name, value) in [("origin", "https://example.com"), ("origin", "null"), ("host", "example.com")] {
        assert_eq!(
            raw.http.get(&sse).header(name, value).send().await.unwrap().status(),
            403,
            "{name}: {value}"
        );
        let post =
            raw.http.post(&raw.endpoint).header(name, value).header("content-type", "application/json");
        assert_eq!(post.body(INITIALIZE).send().await.unwrap().status(), 403, "{name}: {value}");
    }
    assert_eq!(raw.http.get(&sse).header("origin", "http://localhost:1").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn each_wrong_post_has_its_status() {
    let served = serve(Kind::Sse, Tweaks::default()).await;
    let raw = Raw::ready(&served).await;
    let base = format!("http://{}/message", served.address);
    let post = |url: String, body: &'static str| {
        let post = raw.http.post(url).header("content-type", "application/json").body(body);
        async move { post.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(post(base.clone(), INITIALIZED).await, 400);
    assert_eq!(post(format!("{base}?sessionId="), INITIALIZED).await, 400);
    assert_eq!(post(format!("{base}?sessionId=a&sessionId=b"), INITIALIZED).await, 400);
    assert_eq!(post(format!("{base}?sessionId=00000000000000000000000000000000"), INITIALIZED).await, 404);
    assert_eq!(raw.post("{").await, 400);
    assert_eq!(raw.post("[]").await, 400);
    assert_eq!(raw.post("x".repeat(1024 * 1024 + 1)).await, 413);
    assert_eq!(raw.http.post(&raw.endpoint).body(INITIALIZED).send().await.unwrap().status(), 415);
    assert_eq!(raw.http.get(&raw.endpoint).send().await.unwrap().status(), 405);
    let sse = address_of(Kind::Sse, served.address);
    assert_eq!(raw.http.post(&sse).body(INITIALIZE).send().await.unwrap().status(), 405);
    assert_eq!(raw.post(INITIALIZED).await, 202);
}

#[tokio::test]
async fn session_of_somebody_else_is_not_there() {
    let served = serve(Kind::Sse, Tweaks::default()).await;
    let ada = reqwest::header::HeaderMap::from_iter([("x-owner".parse().unwrap(), "ada".parse().unwrap())]);
    let mut raw = Raw::of(served.address, ada).await;
    let post = |owner: Option<&'static str>| {
        let post = raw.http.post(&raw.endpoint).header("content-type", "application/json").body(INITIALIZE);
        let post = owner.into_iter().fold(post, |post, owner| post.header("x-owner", owner));
        async move { post.send().await.unwrap() }
    };
    for owner in [Some("eve"), Some(""), None] {
        let refused = post(owner).await;
        assert_eq!(refused.status(), 404, "{owner:?}");
        // There is no telling it from one that never was.
        assert_eq!(refused.text().await.unwrap(), "there is no such session: open a new stream");
    }
    assert_eq!(post(Some("ada")).await.status(), 202);
    assert!(raw.event().await.contains(r#""id":"init""#));
}

#[tokio::test]
async fn the_session_ends_with_its_stream() {
    let served = serve(Kind::Sse, Tweaks::default()).await;
    let Raw { response, http, endpoint, .. } = Raw::ready(&served).await;
    drop(response);
    until("the session ends", || served.stats.ended.load(Ordering::SeqCst) == 1).await;
    let post = http.post(endpoint).header("content-type", "application/json").body(INITIALIZED);
    assert_eq!(post.send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_quiet_stream_shows_that_it_is_alive() {
    let served =
        serve(Kind::Sse, Tweaks { ping: Some(Duration::from_millis(20)), ..Tweaks::default() }).await;
    let mut raw = Raw::ready(&served).await;
    assert_eq!(raw.event().await, ": still here");
    assert_eq!(raw.event().await, ": still here");
}

#[tokio::test]
async fn a_client_that_reads_no_events_is_given_up() {
    let send_timeout = Duration::from_millis(300);
    let tweaks = Tweaks { queue: 4, max_open_requests: 64, send_timeout, ..Tweaks::default() };
    let served = serve(Kind::Sse, tweaks).await;
    let raw = Raw::ready(&served).await;
    let mut last = 202;
    for id in 0..10_000 {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"large","arguments":{{"text":"262144"}}}}}}"#
        );
        last = raw.post(text).await;
        if last == 404 {
            break;
        }
    }
    assert_eq!(last, 404, "the session is over");
    let calls = served.stats.calls.load(Ordering::SeqCst);
    assert!(calls < 256, "{calls} calls were begun for a client that reads nothing");
}

#[tokio::test]
async fn a_client_of_2026_07_28_falls_back_to_initialize() {
    let served = serve(Kind::Sse, Tweaks::default()).await;
    let mut raw = Raw::open(&served).await;
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
    raw.post(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{meta}}}}}"#)).await;
    let answer = raw.event().await;
    assert!(answer.contains("-32022") && answer.contains("2025-11-25"), "{answer}");

    let url = address_of(Kind::Sse, served.address);
    let session = SseClient::connect(&url, SseClientConfig::default()).await.unwrap();
    let mode = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let client = Obliging::default().serve_with_lifecycle(session, mode).await.unwrap();
    assert_eq!(client.peer_info().unwrap().protocol_version, ProtocolVersion::V_2025_11_25);
    assert_eq!(text_of(&client.call_tool(call("ask", "L")).await.unwrap()), r#"{"size":"L"}"#);
}

/// A server that says these bytes to the first who comes, and no more.
async fn saying(bytes: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    });
    address_of(Kind::Sse, address)
}

#[tokio::test]
async fn a_client_tells_why_it_is_not_connected() {
    let connect = |url: String| async move {
        let config = SseClientConfig::default().with_connect_timeout(Duration::from_millis(500));
        SseClient::connect(&url, config).await.unwrap_err()
    };
    let elsewhere = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: https://example.com/message\n\n";
    let error = connect(saying(elsewhere).await).await;
    assert!(matches!(&error, Error::Url { reason, .. } if reason.contains("another server")), "{error:?}");
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\nhello";
    let error = connect(saying(page).await).await;
    assert!(matches!(&error, Error::Refused { status: 200, reason } if reason == "hello"), "{error:?}");
    let silent = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: nothing\n\n";
    let error = connect(saying(silent).await).await;
    assert!(matches!(error, Error::TimedOut(_)), "{error:?}");
    let error = connect("ws://127.0.0.1:1/sse".into()).await;
    assert!(matches!(error, Error::Url { .. }), "{error:?}");
}
