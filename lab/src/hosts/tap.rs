//! A proxy that records the messages between a host and the server.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::http::Message;

/// A proxy before the server. Its threads end with the process.
#[derive(Debug)]
pub(super) struct Tap {
    address: SocketAddr,
    sent: Sent,
}

/// The recorded messages: `{"from": "host" or "server", "message"}`.
type Sent = Arc<Mutex<Vec<Value>>>;

impl Tap {
    pub(super) fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the proxy")?;
        let tap = Self { address: listener.local_addr()?, sent: Sent::default() };
        let sent = Arc::clone(&tap.sent);
        thread::spawn(move || {
            for host in listener.incoming().flatten() {
                let sent = Arc::clone(&sent);
                // A host that closes the connection ends its thread.
                thread::spawn(move || forward(host, server, &sent));
            }
        });
        Ok(tap)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The messages until now.
    pub(super) fn sent(&self) -> Vec<Value> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Forwards one request and its response. The response is forwarded in lines, because a stream of events can stay open.
fn forward(host: TcpStream, server: SocketAddr, sent: &Sent) -> io::Result<()> {
    let mut host = BufReader::new(host);
    let Some(mut request) = Message::read(&mut host)? else { return Ok(()) };
    record(sent, "host", &request.body);
    request.headers.retain(|(name, _)| name != "host" && name != "connection");
    request.headers.push(("host".to_owned(), server.to_string()));
    request.headers.push(("connection".to_owned(), "close".to_owned()));
    let mut upstream = BufReader::new(TcpStream::connect(server)?);
    request.write(upstream.get_mut())?;
    let mut line = Vec::new();
    while upstream.read_until(b'\n', &mut line)? > 0 {
        record(sent, "server", &line);
        host.get_mut().write_all(&line)?;
        line.clear();
    }
    host.get_ref().shutdown(Shutdown::Both)
}

/// Records a line or a body if it is a JSON-RPC message, with or without the field name of an event.
fn record(sent: &Sent, from: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix("data:").unwrap_or(&text);
    if let Ok(message @ Value::Object(_)) = serde_json::from_str(text.trim()) {
        let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.push(json!({"from": from, "message": message}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_are_recorded() {
        let sent = Sent::default();
        for line in ["HTTP/1.1 200 OK\r\n", "1f\r\n", "data: {\"id\":1}\n", "data: \n", "{\"id\":2}"] {
            record(&sent, "server", line.as_bytes());
        }
        let sent = sent.lock().unwrap();
        let ids: Vec<&Value> = sent.iter().map(|it| &it["message"]["id"]).collect();
        assert_eq!(ids, [&json!(1), &json!(2)]);
    }
}
