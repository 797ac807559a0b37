//! The client of one user, on either protocol revision. A request can go to any front end.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, anyhow, ensure};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::http::Message;
use crate::mcp::{self, Connection, LEGACY, MODERN};

/// The header that names the user.
const USER: &str = "x-user";

/// The front ends.
#[derive(Debug)]
pub(super) struct Fronts {
    pub(super) addresses: Vec<SocketAddr>,
    /// The number of answers in flight, by front end.
    answering: Vec<AtomicU64>,
    /// Requests without a response.
    pub(super) unanswered: AtomicU64,
}

/// An answer in flight.
#[derive(Debug)]
pub(super) struct InFlight<'a>(&'a AtomicU64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Fronts {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Self {
        let answering = addresses.iter().map(|_| AtomicU64::new(0)).collect();
        Self { addresses, answering, unanswered: AtomicU64::new(0) }
    }

    /// Counts an answer to this front end until the returned value is dropped.
    pub(super) fn answer(&self, front: usize) -> InFlight<'_> {
        self.answering[front].fetch_add(1, Ordering::Relaxed);
        InFlight(&self.answering[front])
    }

    /// Returns a front end that has an answer in flight.
    pub(super) fn answering(&self, rng: &mut Rng) -> Option<usize> {
        let is_busy = |front: &usize| self.answering[*front].load(Ordering::Relaxed) > 0;
        let busy: Vec<usize> = (0..self.answering.len()).filter(is_busy).collect();
        (!busy.is_empty()).then(|| busy[rng.usize(..busy.len())])
    }
}

/// The client of a user. It shows MCP Apps, and has neither forms nor tasks.
#[derive(Debug)]
pub(super) struct Caller<'a> {
    pub(super) fronts: &'a Fronts,
    connections: Vec<Connection>,
    user: String,
    revision: &'static str,
    session: Option<String>,
    id: u64,
}

impl<'a> Caller<'a> {
    pub(super) fn new(fronts: &'a Fronts, user: &str, revision: &'static str) -> Self {
        let connections = fronts.addresses.iter().map(|address| Connection::new(*address)).collect();
        Self { fronts, connections, user: user.to_owned(), revision, session: None, id: 0 }
    }

    /// Returns the same client with connections of its own, so that two requests can be in flight.
    pub(super) fn twin(&self) -> Self {
        let session = self.session.clone();
        // Both use one session, so their request IDs must differ.
        let id = u64::from(fastrand::u32(1 << 24..));
        Self { session, id, ..Self::new(self.fronts, &self.user, self.revision) }
    }

    /// Calls a tool.
    pub(super) fn call(&mut self, front: usize, tool: &str, arguments: &Value) -> Result<Value> {
        self.ask(front, "tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Sends a request, and returns its result. Opens a session first if the revision has sessions.
    pub(super) fn ask(&mut self, front: usize, method: &str, mut params: Value) -> Result<Value> {
        if self.revision == LEGACY && self.session.is_none() {
            self.open(front)?;
        }
        self.id += 1;
        let name = params["name"].as_str().or_else(|| params["uri"].as_str()).map(str::to_owned);
        let mut headers = Vec::new();
        if self.revision == MODERN {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": capabilities(),
                "io.modelcontextprotocol/clientInfo": program(),
            });
            headers.push(("mcp-method", method));
            headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        }
        let body = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        let request = self.post(front, &headers, &body);
        let response = self.send(front, &request)?;
        if response.status() != 200 {
            // The session can be gone together with its front end.
            self.session = None;
        }
        mcp::result(&response)
    }

    /// Ends the session, if there is one.
    pub(super) fn close(mut self, front: usize) {
        if self.session.is_some() {
            let mut request = self.post(front, &[], &Value::Null);
            request.start = "DELETE /mcp HTTP/1.1".into();
            request.body.clear();
            // A session that stays open expires.
            let _ = self.send(front, &request);
        }
    }

    /// Opens a session of 2025-11-25.
    fn open(&mut self, front: usize) -> Result<()> {
        let params =
            json!({ "protocolVersion": LEGACY, "capabilities": capabilities(), "clientInfo": program() });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let request = self.post(front, &[], &hello);
        let response = self.send(front, &request)?;
        let id = response.header("mcp-session-id").map(str::to_owned);
        let id = id.with_context(|| format!("`initialize` returned no session: {}", response.start))?;
        let noted = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let mut request = self.post(front, &[], &noted);
        request.headers.push(("mcp-session-id".into(), id.clone()));
        let response = self.send(front, &request)?;
        ensure!(response.status() == 202, "`initialized` was answered with {}", response.start);
        self.session = Some(id);
        Ok(())
    }

    fn post(&self, front: usize, headers: &[(&str, &str)], body: &Value) -> Message {
        let host = self.fronts.addresses[front].to_string();
        let mut message = Message::post(&host, headers, body.to_string().into_bytes());
        message.headers.push(("mcp-protocol-version".into(), self.revision.into()));
        message.headers.push((USER.into(), self.user.clone()));
        let session = self.session.clone();
        message.headers.extend(session.map(|session| ("mcp-session-id".into(), session)));
        message
    }

    fn send(&mut self, front: usize, request: &Message) -> Result<Message> {
        self.connections[front].exchange(&request.to_bytes()).map_err(|error| {
            self.fronts.unanswered.fetch_add(1, Ordering::Relaxed);
            anyhow!("front end {front} sent no response: {error}")
        })
    }
}

fn capabilities() -> Value {
    let apps = json!({ "mimeTypes": ["text/html;profile=mcp-app"] });
    json!({ "extensions": { "io.modelcontextprotocol/ui": apps } })
}

fn program() -> Value {
    json!({ "name": "xtask", "version": "1" })
}
