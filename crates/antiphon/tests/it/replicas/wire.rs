//! HTTP and event streams by hand, so that a test decides when a connection breaks.

use std::{net::SocketAddr, time::Duration};

use antiphon::Result;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// No event of these tests takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) message: Value,
}

/// A response that is being read. Dropped, the connection breaks.
pub(crate) struct Response {
    stream: TcpStream,
    head: String,
    /// What has come of the body, as it was sent.
    raw: Vec<u8>,
    /// What of it is an unfinished event.
    text: Vec<u8>,
    ended: bool,
}

pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<Response> {
    let mut stream = TcpStream::connect(address).await?;
    let body = body.map(ToString::to_string).unwrap_or_default();
    let headers: String = headers.iter().map(|(name, value)| [name, ": ", value, "\r\n"].concat()).collect();
    let request = format!(
        "{method} /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut response =
        Response { stream, head: String::new(), raw: Vec::new(), text: Vec::new(), ended: false };
    response.read_head().await?;
    Ok(response)
}

impl Response {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The next event; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>> {
        tokio::time::timeout(PATIENCE, self.read_event()).await?
    }

    /// The next message that is no ping.
    pub(crate) async fn message(&mut self) -> Result<Event> {
        while let Some(event) = self.next().await? {
            if event.message.is_object() && event.message["method"] != "ping" {
                return Ok(event);
            }
        }
        panic!("the stream has ended");
    }

    /// All events to the end of the stream.
    pub(crate) async fn rest(mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await? {
            events.push(event);
        }
        Ok(events)
    }

    /// The body of a response that is not a stream.
    pub(crate) async fn json(mut self) -> Result<Value> {
        while self.read().await? {}
        Ok(serde_json::from_slice(&self.raw)?)
    }

    async fn read_head(&mut self) -> Result<()> {
        loop {
            if let Some(end) = find(&self.raw, b"\r\n\r\n") {
                self.head = String::from_utf8(self.raw.drain(..end + 4).collect())?;
                return Ok(());
            }
            assert!(self.read().await?, "no response");
        }
    }

    async fn read(&mut self) -> Result<bool> {
        Ok(self.stream.read_buf(&mut self.raw).await? > 0)
    }

    async fn read_event(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(end) = find(&self.text, b"\n\n") {
                let text: Vec<_> = self.text.drain(..end + 2).collect();
                if let Some(event) = event(std::str::from_utf8(&text)?) {
                    return Ok(Some(event));
                }
                continue;
            }
            if self.ended || !self.read_chunk().await? {
                return Ok(None);
            }
        }
    }

    /// One chunk of a chunked body.
    async fn read_chunk(&mut self) -> Result<bool> {
        loop {
            if let Some(end) = find(&self.raw, b"\r\n") {
                let size = usize::from_str_radix(std::str::from_utf8(&self.raw[..end])?, 16)?;
                if self.raw.len() >= end + 2 + size + 2 {
                    self.text.extend_from_slice(&self.raw[end + 2..end + 2 + size]);
                    self.raw.drain(..end + 2 + size + 2);
                    self.ended = size == 0;
                    return Ok(!self.ended);
                }
            }
            if !self.read().await? {
                return Ok(false);
            }
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// A comment is no event.
fn event(text: &str) -> Option<Event> {
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim_start().to_owned())
    };
    let data = field("data:")?;
    let message = if data.is_empty() { Value::Null } else { serde_json::from_str(&data).unwrap() };
    Some(Event { id: field("id:"), message })
}
