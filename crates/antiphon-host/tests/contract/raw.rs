//! One HTTP request by hand, to see what a stranger is told.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::world::Transport;

/// The status a request with this origin is answered with.
pub(crate) async fn status_of(address: SocketAddr, path: &str, transport: Transport, origin: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = match transport {
        Transport::WebSocket => format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: {origin}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ),
        Transport::Sse => format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: {origin}\r\nAccept: text/event-stream\r\n\r\n"
        ),
        _ => format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: {origin}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: 2\r\n\r\n{{}}"
        ),
    };
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    std::str::from_utf8(&head[9..12]).unwrap().parse().unwrap()
}
