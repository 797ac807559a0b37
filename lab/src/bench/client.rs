//! Clients that cost next to nothing: the same prepared bytes to every server, answers hardly looked at.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{ChildStdin, ChildStdout};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use crate::events::{read_chunk, take_event};
use crate::http::Message;
use crate::mcp;

/// A hundred bytes, to be said again.
pub(super) const TEXT: &str =
    "the quick brown fox jumps over the lazy dog; the lazy dog turns over and the quick brown fox is gone";

/// A way to one server that takes JSON texts and brings back JSON texts, with many under way at a time.
pub(super) trait Wire {
    /// Sends a message, in one write of its own as a caller that knows of no others would.
    fn send(&mut self, message: &[u8]) -> Result<()>;

    /// Waits for the next answer, to whichever message.
    fn receive(&mut self) -> Result<&[u8]>;
}

/// Calls of the tool `echo`, each under an id of its own and all of one length.
#[derive(Debug)]
pub(super) struct Calls {
    body: Vec<u8>,
    id_at: usize,
    next: u64,
}

impl Calls {
    pub(super) fn new(revision: &str) -> Result<Self> {
        let next = 100_000_000;
        let body = call(revision, "", next).body;
        let id = next.to_string();
        let id_at = body.windows(id.len()).position(|it| it == id.as_bytes());
        Ok(Self { body, id_at: id_at.context("a call has an id")?, next })
    }

    pub(super) fn next(&mut self) -> &[u8] {
        let id = self.next.to_string();
        self.body[self.id_at..self.id_at + id.len()].copy_from_slice(id.as_bytes());
        self.next += 1;
        &self.body
    }
}

fn call(revision: &str, host: &str, id: u64) -> Message {
    let params = json!({ "name": "echo", "arguments": { "text": TEXT } });
    mcp::tool_call(revision, host, id, params.as_object().cloned().unwrap_or_default())
}

fn initialize() -> Vec<u8> {
    let params = json!({
        "protocolVersion": mcp::LEGACY,
        "capabilities": {},
        "clientInfo": { "name": "xtask", "version": "1" },
    });
    let request = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    request.to_string().into_bytes()
}

const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Opens a session where the connection is the session.
pub(super) fn greet(wire: &mut dyn Wire) -> Result<()> {
    wire.send(&initialize())?;
    let answer = String::from_utf8_lossy(wire.receive()?).into_owned();
    ensure!(answer.contains(mcp::LEGACY), "answered initialize with {answer}");
    wire.send(INITIALIZED)
}

fn connect(address: SocketAddr) -> Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    Ok(BufReader::with_capacity(64 * 1024, stream))
}

/// The standard streams of a server: a message a line.
#[derive(Debug)]
pub(super) struct Pipe {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    scratch: Vec<u8>,
}

impl Pipe {
    pub(super) fn new(input: ChildStdin, output: ChildStdout) -> Self {
        Self { input, output: BufReader::with_capacity(64 * 1024, output), scratch: Vec::new() }
    }
}

impl Wire for Pipe {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.scratch.clear();
        self.scratch.extend_from_slice(message);
        self.scratch.push(b'\n');
        Ok(self.input.write_all(&self.scratch)?)
    }

    fn receive(&mut self) -> Result<&[u8]> {
        self.scratch.clear();
        ensure!(self.output.read_until(b'\n', &mut self.scratch)? > 0, "the server closed its output");
        Ok(&self.scratch)
    }
}

/// Posts that are answered where they are made, on a connection for each that is under way.
#[derive(Debug)]
pub(super) struct Http {
    connections: Vec<BufReader<TcpStream>>,
    head: Vec<u8>,
    sent: usize,
    received: usize,
    scratch: Vec<u8>,
}

impl Http {
    /// Without a session.
    pub(super) fn new(address: SocketAddr, revision: &str, in_flight: usize) -> Result<Self> {
        Self::open(address, head(&call(revision, &address.to_string(), 1)), in_flight)
    }

    /// In a session, if the server has them.
    pub(super) fn in_session(address: SocketAddr, in_flight: usize) -> Result<Self> {
        let mut message = call(mcp::LEGACY, &address.to_string(), 1);
        message.start = "POST /session HTTP/1.1".into();
        let mut connection = connect(address)?;
        connection.get_mut().write_all(&Message { body: initialize(), ..message.clone() }.to_bytes())?;
        let answer = Message::read(&mut connection)?.context("no answer to initialize")?;
        if let Some(id) = answer.header("mcp-session-id") {
            message.headers.push(("mcp-session-id".into(), id.to_owned()));
            message.body = INITIALIZED.to_vec();
            connection.get_mut().write_all(&message.to_bytes())?;
            let answer = Message::read(&mut connection)?.context("no answer to initialized")?;
            ensure!(answer.status() == 202, "status {} for initialized", answer.status());
        }
        Self::open(address, head(&message), in_flight)
    }

    fn open(address: SocketAddr, head: Vec<u8>, in_flight: usize) -> Result<Self> {
        let connections = (0..in_flight).map(|_| connect(address)).collect::<Result<_>>()?;
        Ok(Self { connections, head, sent: 0, received: 0, scratch: Vec::new() })
    }
}

impl Wire for Http {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        // In turn, as they are received: the one whose answer was read last is free.
        let place = self.sent % self.connections.len();
        self.sent += 1;
        post(&mut self.connections[place], &mut self.scratch, &self.head, message)
    }

    fn receive(&mut self) -> Result<&[u8]> {
        let place = self.received % self.connections.len();
        self.received += 1;
        let answer = Message::read(&mut self.connections[place])?.context("the server hung up")?;
        ensure!(answer.status() == 200, "status {}", answer.status());
        self.scratch = answer.body;
        Ok(&self.scratch)
    }
}

/// All of a POST before its length.
fn head(message: &Message) -> Vec<u8> {
    let bytes = Message { body: Vec::new(), ..message.clone() }.to_bytes();
    bytes.strip_suffix(b"content-length: 0\r\n\r\n").unwrap_or(&bytes).to_vec()
}

fn post(
    connection: &mut BufReader<TcpStream>,
    scratch: &mut Vec<u8>,
    head: &[u8],
    body: &[u8],
) -> Result<()> {
    scratch.clear();
    scratch.extend_from_slice(head);
    write!(scratch, "content-length: {}\r\n\r\n", body.len())?;
    scratch.extend_from_slice(body);
    Ok(connection.get_mut().write_all(scratch)?)
}

/// One WebSocket connection: a message a text frame.
#[derive(Debug)]
pub(super) struct WebSocket {
    stream: BufReader<TcpStream>,
    scratch: Vec<u8>,
}

impl WebSocket {
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        let mut stream = connect(address)?;
        let headers = [
            ("host", address.to_string().as_str()),
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "mcp"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        Message { start: "GET /ws HTTP/1.1".into(), headers, body: Vec::new() }.write(stream.get_mut())?;
        let answer = Message::read(&mut stream)?.context("no answer to the upgrade")?;
        ensure!(answer.status() == 101, "status {} for the upgrade", answer.status());
        Ok(Self { stream, scratch: Vec::new() })
    }
}

impl Wire for WebSocket {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.scratch.clear();
        write_frame(&mut self.scratch, message)?;
        Ok(self.stream.get_mut().write_all(&self.scratch)?)
    }

    fn receive(&mut self) -> Result<&[u8]> {
        // Pings need no answer: a server has heard from us since.
        while read_frame(&mut self.stream, &mut self.scratch)? != Opcode::Text {}
        Ok(&self.scratch)
    }
}

#[derive(Debug, PartialEq)]
enum Opcode {
    Text,
    Ping,
}

/// Masks with zeros, which the server takes off as it would any other key.
fn write_frame(to: &mut Vec<u8>, message: &[u8]) -> Result<()> {
    let length = u16::try_from(message.len())?;
    if let Ok(short @ ..126) = u8::try_from(length) {
        to.extend_from_slice(&[0x81, 0x80 | short]);
    } else {
        to.extend_from_slice(&[0x81, 0x80 | 0x7e]);
        to.extend_from_slice(&length.to_be_bytes());
    }
    to.extend_from_slice(&[0; 4]);
    to.extend_from_slice(message);
    Ok(())
}

fn read_frame(from: &mut impl Read, message: &mut Vec<u8>) -> Result<Opcode> {
    let mut start = [0; 2];
    from.read_exact(&mut start)?;
    let opcode = match start[0] {
        0x81 => Opcode::Text,
        0x89 => Opcode::Ping,
        other => bail!("the server sent a frame that begins with {other:#x}"),
    };
    let length = match start[1] {
        short @ ..126 => usize::from(short),
        126 => {
            let mut length = [0; 2];
            from.read_exact(&mut length)?;
            usize::from(u16::from_be_bytes(length))
        }
        _ => bail!("the server sent a frame longer than any answer"),
    };
    message.resize(length, 0);
    from.read_exact(message)?;
    Ok(opcode)
}

/// The HTTP+SSE of 2024-11-05: posts, and one stream with all the answers.
#[derive(Debug)]
pub(super) struct Sse {
    stream: BufReader<TcpStream>,
    /// What came on the stream and was not yet looked at.
    pending: Vec<u8>,
    /// Each with whether a post on it has yet to be acknowledged.
    posts: Vec<(BufReader<TcpStream>, bool)>,
    head: Vec<u8>,
    sent: usize,
    scratch: Vec<u8>,
}

impl Sse {
    pub(super) fn new(address: SocketAddr, in_flight: usize) -> Result<Self> {
        let mut stream = connect(address)?;
        let host = address.to_string();
        let headers = vec![("host".into(), host.clone()), ("accept".into(), "text/event-stream".into())];
        Message { start: "GET /sse HTTP/1.1".into(), headers, body: Vec::new() }.write(stream.get_mut())?;
        // The body never ends, so the head is read alone.
        let mut line = String::new();
        while stream.read_line(&mut line)? > 2 {
            line.clear();
        }
        let posts = (0..in_flight).map(|_| Ok((connect(address)?, false))).collect::<Result<_>>()?;
        let (pending, scratch) = (Vec::new(), Vec::new());
        let mut sse = Self { stream, pending, posts, head: Vec::new(), sent: 0, scratch };
        let endpoint = String::from_utf8(sse.receive()?.to_vec())?;
        ensure!(endpoint.starts_with('/'), "the first event is `{endpoint}`, not where to post");
        let mut message = Message::post(&host, &[], Vec::new());
        message.start = format!("POST {endpoint} HTTP/1.1");
        sse.head = head(&message);
        Ok(sse)
    }
}

impl Wire for Sse {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let place = self.sent % self.posts.len();
        self.sent += 1;
        let (connection, waiting) = &mut self.posts[place];
        if std::mem::replace(waiting, true) {
            let answer = Message::read(connection)?.context("the server hung up")?;
            ensure!(answer.status() == 202, "status {} for a post", answer.status());
        }
        post(connection, &mut self.scratch, &self.head, message)
    }

    fn receive(&mut self) -> Result<&[u8]> {
        while !take_event(&mut self.pending, &mut self.scratch) {
            read_chunk(&mut self.stream, &mut self.pending)?;
        }
        Ok(&self.scratch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_differ_in_nothing_but_their_ids() {
        for revision in [mcp::LEGACY, mcp::MODERN] {
            let mut calls = Calls::new(revision).unwrap();
            let first = String::from_utf8(calls.next().to_vec()).unwrap();
            let second = String::from_utf8(calls.next().to_vec()).unwrap();
            assert_eq!(first.replace("100000000", "100000001"), second);
            assert!(second.contains(TEXT), "{second}");
        }
        assert_eq!(TEXT.len(), 100);
    }

    #[test]
    fn frames_of_either_length_carry_their_message() {
        for length in [0, 125, 126, 400] {
            let message = vec![b'x'; length];
            let mut frame = Vec::new();
            write_frame(&mut frame, &message).unwrap();
            let head = if length < 126 { 2 } else { 4 };
            // As a server would send it: not masked.
            frame[1] &= 0x7f;
            frame.drain(head..head + 4);
            let mut read = Vec::new();
            assert_eq!(read_frame(&mut frame.as_slice(), &mut read).unwrap(), Opcode::Text);
            assert_eq!(read, message);
        }
    }
}
