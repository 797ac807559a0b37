//! What is WebSocket's own: the handshake, frames, closing.

use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};

use antiphon_transport::{
    Error,
    websocket::{WebSocketClient, WebSocketClientConfig},
};
use futures_util::{SinkExt as _, StreamExt as _};
use rmcp::{
    model::ProtocolVersion,
    service::{ClientLifecycleMode, ClientServiceExt as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, Message, client::IntoClientRequest as _, protocol::frame::coding::CloseCode},
};

use crate::support::{
    Kind, Obliging, Served, Tweaks, address_of, alone, call, connect, resident, serve, text_of, until,
};

const MOMENT: Duration = Duration::from_secs(10);
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

type Raw = WebSocketStream<TcpStream>;

/// A WebSocket without our client.
pub(crate) async fn raw(address: SocketAddr) -> Raw {
    upgrade(address, &[("sec-websocket-protocol", "mcp")]).await.unwrap()
}

async fn upgrade(
    address: SocketAddr,
    headers: &[(&'static str, &'static str)],
) -> Result<Raw, tungstenite::Error> {
    let mut request = address_of(Kind::WebSocket, address).into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    Ok(tokio_tungstenite::client_async(request, stream).await?.0)
}

/// As [`raw`], with the MCP handshake done.
pub(crate) async fn ready(address: SocketAddr) -> Raw {
    let mut socket = raw(address).await;
    socket.send(Message::text(INITIALIZE)).await.unwrap();
    assert!(next_text(&mut socket).await.contains(r#""id":"init""#));
    socket.send(Message::text(INITIALIZED)).await.unwrap();
    socket
}

pub(crate) async fn next_text(socket: &mut Raw) -> String {
    loop {
        let message = timeout(MOMENT, socket.next()).await.expect("in time").expect("a message").unwrap();
        if let Message::Text(text) = message {
            return text.to_string();
        }
    }
}

/// The code with which the server closes, whatever it says before.
pub(crate) async fn closing(socket: &mut Raw) -> CloseCode {
    loop {
        match timeout(MOMENT, socket.next()).await.expect("in time") {
            Some(Ok(Message::Close(frame))) => return frame.expect("a code").code,
            Some(Ok(_)) => {}
            other => panic!("the connection ends without a close frame: {other:?}"),
        }
    }
}

async fn check_refused(served: &Served, headers: &[(&'static str, &'static str)], status: u16) {
    match upgrade(served.address, headers).await {
        Err(tungstenite::Error::Http(response)) => {
            assert_eq!(response.status().as_u16(), status, "{headers:?}");
        }
        other => panic!("{headers:?}: {other:?}"),
    }
}

#[tokio::test]
async fn origin_host_and_subprotocol_are_checked_before_the_upgrade() {
    let served = serve(Kind::WebSocket, Tweaks::default()).await;
    let mcp = ("sec-websocket-protocol", "mcp");
    check_refused(&served, &[mcp, ("origin", "https://example.com")], 403).await;
    check_refused(&served, &[mcp, ("origin", "null")], 403).await;
    check_refused(&served, &[mcp, ("host", "example.com")], 403).await;
    check_refused(&served, &[("sec-websocket-protocol", "soap, wamp")], 400).await;
    check_refused(&served, &[], 400).await;
    check_refused(&served, &[mcp, ("sec-websocket-version", "8")], 426).await;
    assert_eq!(served.stats.served.load(Ordering::SeqCst), 0);
    upgrade(served.address, &[("sec-websocket-protocol", "soap, mcp"), ("origin", "http://localhost:5173")])
        .await
        .unwrap();
    let plain = reqwest::get(format!("http://{}/ws", served.address)).await.unwrap();
    assert_eq!(plain.status(), 426);
    let posted = reqwest::Client::new().post(format!("http://{}/ws", served.address)).send().await.unwrap();
    assert_eq!(posted.status(), 405);
}

#[tokio::test]
async fn a_client_tells_why_it_is_not_connected() {
    let served = serve(Kind::WebSocket, Tweaks::default()).await;
    let connect = |url: String, config: WebSocketClientConfig| async move {
        WebSocketClient::connect(&url, config).await.unwrap_err()
    };
    let mut headers = http::HeaderMap::new();
    headers.insert("origin", "https://example.com".parse().unwrap());
    let config = WebSocketClientConfig::default().with_headers(headers);
    let error = connect(address_of(Kind::WebSocket, served.address), config).await;
    assert!(
        matches!(&error, Error::Refused { status: 403, reason } if reason.contains("Origin")),
        "{error:?}"
    );
    let error = connect(format!("http://{}/ws", served.address), WebSocketClientConfig::default()).await;
    assert!(matches!(error, Error::Url { .. }), "{error:?}");
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    let config = WebSocketClientConfig::default().with_connect_timeout(Duration::from_millis(50));
    let error = connect(address_of(Kind::WebSocket, address), config).await;
    assert!(matches!(error, Error::TimedOut(_)), "{error:?}");
    drop(nobody);
    let error = connect(address_of(Kind::WebSocket, address), WebSocketClientConfig::default()).await;
    assert!(matches!(error, Error::Connection(_)), "{error:?}");
}

#[tokio::test]
async fn a_server_that_does_not_choose_mcp_is_not_spoken_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let _socket = tokio_tungstenite::accept_async(stream).await;
        std::future::pending::<()>().await;
    });
    let url = address_of(Kind::WebSocket, address);
    let error = WebSocketClient::connect(&url, WebSocketClientConfig::default()).await.unwrap_err();
    assert!(matches!(error, Error::Subprotocol), "{error:?}");
}

#[tokio::test]
async fn each_wrong_frame_has_its_close_code() {
    let served = serve(Kind::WebSocket, Tweaks::default()).await;

    let mut socket = ready(served.address).await;
    socket.send(Message::binary(INITIALIZE)).await.unwrap();
    assert_eq!(closing(&mut socket).await, CloseCode::Unsupported);

    let mut socket = ready(served.address).await;
    // More than the system holds for two sockets: the server must read on for this to be sent at all.
    socket.send(Message::text("x".repeat(12 * 1024 * 1024))).await.unwrap();
    assert_eq!(closing(&mut socket).await, CloseCode::Size);

    let mut socket = ready(served.address).await;
    // A masked text frame of one byte, which is not UTF-8.
    socket.get_mut().write_all(&[0x81, 0x81, 0, 0, 0, 0, 0xff]).await.unwrap();
    assert_eq!(closing(&mut socket).await, CloseCode::Invalid);

    let mut socket = ready(served.address).await;
    // The same without a mask.
    socket.get_mut().write_all(&[0x81, 0x01, b'x']).await.unwrap();
    assert_eq!(closing(&mut socket).await, CloseCode::Protocol);

    // A first message that begins no conversation.
    let mut socket = raw(served.address).await;
    socket.send(Message::text(INITIALIZED)).await.unwrap();
    assert_eq!(closing(&mut socket).await, CloseCode::Policy);
}

#[tokio::test]
async fn a_message_in_fragments_is_one_message_and_counts_as_one() {
    let served = serve(Kind::WebSocket, Tweaks { max_message_bytes: 1_000, ..Tweaks::default() }).await;
    let mut socket = ready(served.address).await;
    let frame = |opcode: u8, payload: &[u8]| {
        let mut frame = vec![opcode, 0x80 | u8::try_from(payload.len()).unwrap(), 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        frame
    };
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let (head, tail) = ping.split_at(7);
    socket.get_mut().write_all(&frame(0x01, head)).await.unwrap();
    socket.get_mut().write_all(&frame(0x80, tail)).await.unwrap();
    assert!(next_text(&mut socket).await.contains(r#""id":1"#));
    socket.get_mut().write_all(&frame(0x01, &[b' '; 120])).await.unwrap();
    for _ in 0..10 {
        let _ = socket.get_mut().write_all(&frame(0x00, &[b' '; 120])).await;
    }
    assert_eq!(closing(&mut socket).await, CloseCode::Size);
}

#[tokio::test]
async fn what_is_not_a_message_is_answered_and_the_connection_goes_on() {
    let served = serve(Kind::WebSocket, Tweaks::default()).await;
    let mut socket = ready(served.address).await;
    for (text, code) in [("{", "-32700"), ("[]", "-32600"), (r#"{"id":1,"method":"ping"}"#, "-32600")] {
        socket.send(Message::text(text)).await.unwrap();
        let answer = next_text(&mut socket).await;
        assert!(answer.contains(code), "{text}: {answer}");
    }
    socket.send(Message::text(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#)).await.unwrap();
    assert_eq!(next_text(&mut socket).await, r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
}

#[tokio::test]
async fn closing_is_clean_both_ways() {
    let served = serve(Kind::WebSocket, Tweaks::default()).await;
    let mut socket = ready(served.address).await;
    socket.close(None).await.unwrap();
    while let Some(message) = timeout(MOMENT, socket.next()).await.unwrap() {
        assert!(matches!(message, Ok(Message::Close(_))), "{message:?}");
    }
    until("the session ends", || served.stats.ended.load(Ordering::SeqCst) == 1).await;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut socket = accept(&listener).await;
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    });
    let url = address_of(Kind::WebSocket, address);
    let client = WebSocketClient::connect(&url, WebSocketClientConfig::default()).await.unwrap();
    drop(client);
    assert_eq!(timeout(MOMENT, server).await.unwrap().unwrap(), Some(CloseCode::Normal));
}

/// A WebSocket server without our own.
#[expect(clippy::result_large_err, reason = "the library's signature")]
pub(crate) async fn accept(listener: &TcpListener) -> Raw {
    use tungstenite::handshake::server::{ErrorResponse, Request, Response};
    let (stream, _) = listener.accept().await.unwrap();
    let choose = |_: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        response.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
        Ok(response)
    };
    tokio_tungstenite::accept_hdr_async(stream, choose).await.unwrap()
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_gone_and_one_that_pongs_is_not() {
    // Long enough that one that pongs is not gone because the machine is busy.
    let (ping, idle) = (Some(Duration::from_millis(100)), Some(Duration::from_secs(2)));
    let served = serve(Kind::WebSocket, Tweaks { ping, idle, ..Tweaks::default() }).await;
    let alive = connect(Kind::WebSocket, served.address, Obliging::default()).await;
    // Nobody reads this one, so nobody answers its pings.
    let _silent = ready(served.address).await;
    until("the silent one is ended", || served.stats.ended.load(Ordering::SeqCst) == 1).await;
    assert_eq!(text_of(&alive.call_tool(call("echo", "here")).await.unwrap()), "here");
}

#[tokio::test]
async fn a_reader_that_does_not_read_slows_its_writer_and_is_given_up() {
    if !alone("websocket::a_reader_that_does_not_read_slows_its_writer_and_is_given_up") {
        return;
    }
    let send_timeout = Duration::from_millis(500);
    let tweaks = Tweaks { queue: 4, max_open_requests: 64, send_timeout, ..Tweaks::default() };
    let served = serve(Kind::WebSocket, tweaks).await;
    let mut socket = ready(served.address).await;
    let mut sent = 0_usize;
    // Each asks for 256 KiB, and none is read.
    let flood = async {
        loop {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":{sent},"method":"tools/call","params":{{"name":"large","arguments":{{"text":"262144"}}}}}}"#
            );
            if socket.send(Message::text(text)).await.is_err() {
                return;
            }
            sent += 1;
        }
    };
    let before = resident();
    timeout(MOMENT, flood).await.expect("the server gives up");
    let grown = resident().saturating_sub(before);
    // 64 open requests of 256 KiB, twice, and what the allocator keeps.
    assert!(grown < 64 * 1024, "{grown} KiB for {sent} requests");
    let calls = served.stats.calls.load(Ordering::SeqCst);
    assert!(calls < 256, "{calls} calls were begun for a client that reads nothing");
    until("the session ends", || served.stats.ended.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn requests_of_2026_07_28_need_no_session() {
    let served = serve(Kind::WebSocket, Tweaks::default()).await;
    let url = address_of(Kind::WebSocket, served.address);
    let connection = WebSocketClient::connect(&url, WebSocketClientConfig::default()).await.unwrap();
    let mode = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = Obliging::default().serve_with_lifecycle(connection, mode).await.unwrap();
    assert_eq!(text_of(&client.call_tool(call("echo", "stateless")).await.unwrap()), "stateless");
}

#[tokio::test]
async fn a_server_that_talks_nonsense_does_not_disturb_the_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut socket = accept(&listener).await;
        let mut answered = 0;
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            let asked: serde_json::Value = serde_json::from_str(&text).unwrap();
            for nonsense in [
                "{",
                "[]",
                "{}",
                r#"{"jsonrpc":"2.0","id":77.5,"result":{}}"#,
                r#"{"jsonrpc":"2.0","method":5}"#,
            ] {
                socket.send(Message::text(nonsense)).await.unwrap();
            }
            let result = match asked["method"].as_str().unwrap_or_default() {
                "initialize" => {
                    serde_json::json!({"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}})
                }
                "tools/list" if answered == 0 => {
                    answered += 1;
                    let unreadable = serde_json::json!({"jsonrpc":"2.0","id":asked["id"],"error":"no"});
                    socket.send(Message::text(unreadable.to_string())).await.unwrap();
                    continue;
                }
                "tools/list" => serde_json::json!({"tools":[]}),
                _ => continue,
            };
            let answer = serde_json::json!({"jsonrpc":"2.0","id":asked["id"],"result":result});
            socket.send(Message::text(answer.to_string())).await.unwrap();
        }
    });
    let url = address_of(Kind::WebSocket, address);
    let connection = WebSocketClient::connect(&url, WebSocketClientConfig::default()).await.unwrap();
    let client = rmcp::serve_client((), connection).await.unwrap();
    let error = timeout(MOMENT, client.list_tools(None)).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
    assert!(timeout(MOMENT, client.list_tools(None)).await.unwrap().unwrap().tools.is_empty());
    drop(client);
    server.abort();
}

#[tokio::test]
async fn bytes_before_a_handshake_reach_nobody() {
    let served = serve(Kind::WebSocket, Tweaks::default()).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"\x81\x85hello, not HTTP\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(MOMENT, stream.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(served.stats.served.load(Ordering::SeqCst), 0);
}
