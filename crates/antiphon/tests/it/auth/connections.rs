//! Connections end with the credentials that opened them, and nobody behind the layer sees those.

use std::{
    net::SocketAddr,
    time::{Duration, Instant, SystemTime},
};

use antiphon::{
    auth::{Auth, AuthBuilder, Identity, Introspection, Issuer},
    http::{HttpConfig, ServeConfig},
    prelude::*,
};
use antiphon_transport::{
    sse::{self, SseConfig},
    websocket::{self, WebSocketConfig},
};
use axum::Router;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::{
    RESOURCE,
    authority::{Authority, now},
    signer::Signer,
    tools,
};

const MOMENT: Duration = Duration::from_secs(20);

/// A server with every endpoint that stays open, behind the layer.
async fn start(auth: AuthBuilder) -> SocketAddr {
    let auth = auth.build().unwrap();
    let server = tools().with_auth(auth.clone()).build().unwrap();
    let (over_ws, over_sse) = (server.clone(), server.clone());
    let doors = Router::new()
        .merge(websocket::router(WebSocketConfig::default(), move |transport| {
            let server = over_ws.clone();
            async move { drop(server.serve_transport(transport).await) }
        }))
        .merge(sse::router(SseConfig::default(), move |transport| {
            let server = over_sse.clone();
            async move { drop(server.serve_transport(transport).await) }
        }))
        .layer(auth.layer());
    let app = server.router(HttpConfig::default()).merge(doors);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(antiphon::http::serve(listener, app, ServeConfig::default(), std::future::pending()));
    address
}

/// Sends a head, and returns the connection and the head of the answer.
async fn open(address: SocketAddr, head: &str, token: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{head} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    (stream, String::new())
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(MOMENT, stream.read_u8()).await.unwrap().unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// A WebSocket, raw.
struct Socket(TcpStream);

impl Socket {
    async fn open(address: SocketAddr, token: &str) -> Self {
        let (mut stream, _) = open(address, "GET /ws", token).await;
        let rest = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: mcp\r\n\r\n";
        stream.write_all(rest.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        Self(stream)
    }

    async fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let mut frame = vec![0x81, 0x80 | 0x7e];
        frame.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
        // With a mask of zeros the text is what it was.
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(text.as_bytes());
        self.0.write_all(&frame).await.unwrap();
    }

    /// The next text, or the code and the reason of the end.
    async fn next(&mut self) -> Result<Value, (u16, String)> {
        loop {
            let (kind, length) = (self.0.read_u8().await.unwrap() & 0xf, self.0.read_u8().await.unwrap());
            let length =
                if length == 126 { self.0.read_u16().await.unwrap().into() } else { usize::from(length) };
            let mut data = vec![0; length];
            self.0.read_exact(&mut data).await.unwrap();
            match kind {
                1 => return Ok(serde_json::from_slice(&data).unwrap()),
                8 => {
                    let (code, reason) = data.split_at(2);
                    let code = u16::from_be_bytes(code.try_into().unwrap());
                    return Err((code, String::from_utf8(reason.to_vec()).unwrap()));
                }
                _ => {}
            }
        }
    }

    async fn whoami(&mut self) -> Result<Value, (u16, String)> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let params = json!({"name": "whoami", "arguments": {}, "_meta": meta});
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
        timeout(MOMENT, self.next()).await.unwrap()
    }

    /// Waits for the end.
    async fn end(&mut self) -> (u16, String) {
        timeout(MOMENT, async {
            loop {
                if let Err(end) = self.next().await {
                    return end;
                }
            }
        })
        .await
        .expect("the connection stays open")
    }
}

const OVER: (u16, &str) = (1008, "the credentials are no longer valid");

fn short(authority: &Authority) -> AuthBuilder {
    let issuer = Issuer::new(&*authority.issuer).with_leeway(Duration::ZERO);
    Auth::builder(RESOURCE).with_issuer(issuer).with_scopes(["use"])
}

#[tokio::test]
async fn websocket_closes_when_its_token_ends() {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let address = start(short(&authority)).await;
    let mut claims = authority.claims();
    claims["exp"] = json!(now() + 2);
    let mut socket = Socket::open(address, &signer.sign(&claims)).await;
    let answer = socket.whoami().await.unwrap();
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().ends_with("#ada ada"), "{answer}");
    let (code, reason) = socket.end().await;
    assert_eq!((code, &*reason), OVER);
    assert!(now() > claims["exp"].as_u64().unwrap(), "it was good until then");
}

#[tokio::test]
async fn websocket_closes_when_its_opaque_token_is_revoked() {
    let authority = Authority::start(&[]).await;
    let said = json!({"active": true, "sub": "ada", "aud": RESOURCE, "scope": "use", "exp": now() + 300});
    authority.issue("t", said.clone());
    let introspection = Introspection::new(&*authority.issuer, "reports server", "s3cr3t+");
    let introspection = introspection.with_cache(Duration::from_millis(100));
    let auth = Auth::builder(RESOURCE).with_introspection(introspection).with_scopes(["use"]);
    let address = start(auth.with_recheck(Duration::from_millis(150))).await;
    let mut socket = Socket::open(address, "t").await;
    let asked = authority.asked();
    while authority.asked() < asked + 3 {
        socket.whoami().await.unwrap();
    }
    // While nobody can be asked, what is known goes on.
    authority.desk.down.store(true, std::sync::atomic::Ordering::SeqCst);
    while authority.asked() < asked + 6 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    socket.whoami().await.unwrap();
    authority.desk.down.store(false, std::sync::atomic::Ordering::SeqCst);
    authority.issue("t", json!({"active": false}));
    let (code, reason) = socket.end().await;
    assert_eq!((code, &*reason), OVER);
    // So does one whose token may do something else now.
    authority.issue("u", said.clone());
    let mut socket = Socket::open(address, "u").await;
    let mut other = said;
    other["scope"] = json!("use more");
    authority.issue("u", other);
    assert_eq!(socket.end().await.0, 1008);
}

#[tokio::test]
async fn connection_closes_at_its_greatest_age() {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let address = start(short(&authority).with_max_connection(Duration::from_millis(300))).await;
    let began = Instant::now();
    let mut socket = Socket::open(address, &signer.sign(&authority.claims())).await;
    assert_eq!(socket.end().await.0, 1008);
    assert!(began.elapsed() >= Duration::from_millis(300));
}

/// The whole of a stream, once it has ended.
async fn all(mut stream: TcpStream) -> String {
    let mut text = String::new();
    timeout(MOMENT, stream.read_to_string(&mut text)).await.expect("the stream stays open").unwrap();
    text
}

#[tokio::test]
async fn event_stream_ends_when_its_token_ends() {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let address = start(short(&authority)).await;
    let good = signer.sign(&authority.claims());
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let answer = post(address, "/mcp", &good, "", &initialize).await;
    let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
    let mut claims = authority.claims();
    claims["exp"] = json!(now() + 2);
    let token = signer.sign(&claims);
    let close = "connection: close\r\n\r\n";
    let (mut listens, _) = open(address, "GET /mcp", &token).await;
    let head = format!("accept: text/event-stream\r\nmcp-session-id: {session}\r\n{close}");
    listens.write_all(head.as_bytes()).await.unwrap();
    let (mut old, _) = open(address, "GET /sse", &token).await;
    old.write_all(close.as_bytes()).await.unwrap();
    let (listens, old) = tokio::join!(all(listens), all(old));
    assert!(listens.starts_with("HTTP/1.1 200") && listens.ends_with("0\r\n\r\n"), "{listens}");
    assert!(old.starts_with("HTTP/1.1 200") && old.contains("event: endpoint"), "{old}");
    assert!(now() > claims["exp"].as_u64().unwrap(), "it was good until then");
    // The session itself goes on with a good token, and not with the old one.
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let named = format!("mcp-session-id: {session}\r\n");
    assert!(post(address, "/mcp", &good, &named, &ping).await.starts_with("HTTP/1.1 200"));
    assert!(post(address, "/mcp", &token, &named, &ping).await.starts_with("HTTP/1.1 401"));
    let path = old.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    assert!(post(address, path, &good, "", &ping).await.starts_with("HTTP/1.1 404"), "its session is over");
}

async fn post(address: SocketAddr, path: &str, token: &str, headers: &str, message: &Value) -> String {
    let (mut stream, _) = open(address, &format!("POST {path}"), token).await;
    let body = message.to_string();
    let rest = format!(
        "{headers}connection: close\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(rest.as_bytes()).await.unwrap();
    all(stream).await
}

#[tokio::test]
async fn sse_session_takes_messages_of_its_own_caller_only() {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let address = start(short(&authority)).await;
    let token = |who: &str| signer.sign(&authority.claims_of(who, "use"));
    let (mut stream, _) = open(address, "GET /sse", &token("ada")).await;
    stream.write_all(b"\r\n").await.unwrap();
    let mut text = String::new();
    while !text.contains("sessionId=") || !text.ends_with("\n\n\r\n") {
        text.push(char::from(timeout(MOMENT, stream.read_u8()).await.unwrap().unwrap()));
    }
    let path = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert!(post(address, path, &token("eve"), "", &ping).await.starts_with("HTTP/1.1 404"));
    assert!(post(address, path, &token("ada"), "", &ping).await.starts_with("HTTP/1.1 202"));
}

#[tokio::test]
async fn message_of_a_caller_whose_credentials_have_ended_is_rejected() {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let server = tools().with_auth(short(&authority).build().unwrap()).build().unwrap();
    let ended = Identity::new("ada").with_scopes(["use", "erase", "audit"]).with_end(SystemTime::now());
    let answer = super::scopes::over_a_message(&server, Some(ended.clone())).await;
    assert_eq!(answer["error"]["message"], "the access token has expired", "{answer}");
    let good = ended.with_end(SystemTime::now() + Duration::from_secs(60));
    let answer = super::scopes::over_a_message(&server, Some(good)).await;
    assert!(answer["result"].is_object(), "{answer}");
}

#[tokio::test]
async fn credentials_do_not_reach_what_is_behind_the_layer() {
    use tower::ServiceExt as _;
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let auth = short(&authority).with_api_key_header("x-api-key").build().unwrap();
    let seen = |request: http::Request<axum::body::Body>| async move {
        let names: Vec<_> = request.headers().keys().map(ToString::to_string).collect();
        format!("{names:?} {:?}", request.extensions().get::<Identity>().map(|it| it.principal().to_owned()))
    };
    // The layer twice: who was admitted once is known there.
    let app = Router::new().fallback(seen).layer(auth.layer()).layer(auth.layer());
    let token = signer.sign(&authority.claims());
    for (name, value) in [("authorization", format!("Bearer {token}")), ("x-api-key", token.clone())] {
        let request = http::Request::get("/").header(name, value).header("x-other", "1");
        let response = app.clone().oneshot(request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let seen = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        let expected = format!("[\"x-other\"] Some(\"{}#ada\")", authority.issuer);
        assert_eq!(String::from_utf8(seen.to_vec()).unwrap(), expected);
    }
}
