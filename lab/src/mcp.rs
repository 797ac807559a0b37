//! JSON-RPC as an MCP client without an SDK would speak it.
//!
//! Chaos, field tests and soak use this client, not `antiphon-host`: they have to know which request was lost, send the
//! same bytes again, and send what no host sends. Load generators use it because a client that parses less measures the
//! server better. `antiphon-host` is the client of conformance and interop, in `src/bin/`.

use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

use crate::http::Message;

/// The revision with sessions, which also allows calls without one.
pub(crate) const LEGACY: &str = "2025-11-25";
/// The stateless revision.
pub(crate) const MODERN: &str = "2026-07-28";

/// A keep-alive connection to a server or a proxy.
#[derive(Debug)]
pub(crate) struct Connection {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    /// Connects when first used.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Sends prepared bytes and waits for the answer; after an error the next use connects anew.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> io::Result<Message> {
        use io::Write as _;

        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => BufReader::new(connect(self.address)?),
        };
        stream.get_mut().write_all(request)?;
        let response = Message::read(&mut stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if !response.closes() {
            self.stream = Some(stream);
        }
        Ok(response)
    }
}

/// Sends prepared bytes on a connection of their own, and waits no longer than `patience` for each part of the answer.
pub(crate) fn exchange_once(address: SocketAddr, request: &[u8], patience: Duration) -> io::Result<Message> {
    use io::Write as _;

    let mut stream = connect(address)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(request)?;
    Message::read(&mut BufReader::new(stream))?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Connects with patience for an answer.
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    Ok(stream)
}

/// A `tools/call` with `params`, to which the revision's metadata is added.
pub(crate) fn tool_call(revision: &str, host: &str, id: u64, mut params: Map<String, Value>) -> Message {
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if revision == MODERN {
        params.insert(
            "_meta".into(),
            json!({
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
                "io.modelcontextprotocol/clientInfo": { "name": "xtask", "version": "1" },
            }),
        );
    }
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    let mut headers = vec![("mcp-protocol-version", revision)];
    if revision == MODERN {
        headers.extend([("mcp-method", "tools/call"), ("mcp-name", name.as_str())]);
    }
    Message::post(host, &headers, body.to_string().into_bytes())
}

/// A request on 2026-07-28 of a client that answers forms and knows tasks. `name` is what it is about.
pub(crate) fn modern(host: &str, id: u64, method: &str, name: &str, mut params: Value) -> Message {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": { "form": {} },
            "extensions": { "io.modelcontextprotocol/tasks": {} },
        },
        "io.modelcontextprotocol/clientInfo": { "name": "xtask", "version": "1" },
    });
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", method), ("mcp-name", name)];
    Message::post(host, &headers, body.to_string().into_bytes())
}

/// The answer in a response, result or error, whether it came as JSON or as a stream of events.
pub(crate) fn answer(response: &Message) -> Option<Value> {
    let text = String::from_utf8_lossy(&response.body);
    let is_stream = response.header("content-type").is_some_and(|it| it.starts_with("text/event-stream"));
    let messages: Vec<Value> = if is_stream {
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect()
    } else {
        serde_json::from_str(&text).into_iter().collect()
    };
    messages.into_iter().find(|it| it.get("result").is_some() || it.get("error").is_some())
}

/// The `result` in a response.
pub(crate) fn result(response: &Message) -> Result<Value> {
    let mut answer = answer(response).with_context(|| {
        let text = String::from_utf8_lossy(&response.body);
        format!("status {} without an answer: {text}", response.status())
    })?;
    if let Some(error) = answer.get("error") {
        bail!("error {error}");
    }
    Ok(answer["result"].take())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(kind: &str, body: &str) -> Message {
        Message {
            start: "HTTP/1.1 200 OK".into(),
            headers: vec![("content-type".into(), kind.into())],
            body: body.into(),
        }
    }

    #[test]
    fn the_result_is_found_behind_notifications() {
        let body = "data:\n\ndata: {\"method\":\"x\"}\n\nid: 1\ndata: {\"id\":1,\"result\":7}\n\n";
        assert_eq!(result(&response("text/event-stream", body)).unwrap(), json!(7));
    }

    #[test]
    fn a_protocol_error_is_an_error() {
        let error = result(&response("application/json", r#"{"id":1,"error":{"code":-32602}}"#)).unwrap_err();
        assert!(error.to_string().contains("-32602"), "{error}");
        assert!(result(&response("application/json", "")).is_err());
    }
}
