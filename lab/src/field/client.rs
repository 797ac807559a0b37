//! A client that starts work, and may leave.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::http::Message;
use crate::mcp::{self, LEGACY};

/// How long a request may take unless a scenario says otherwise.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client of one replica. It keeps no connection.
#[derive(Debug, Clone)]
pub(super) struct Client {
    address: SocketAddr,
    /// The bearer token, if it has one.
    token: Option<String>,
    patience: Duration,
}

impl Client {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, token: None, patience: PATIENCE }
    }

    pub(super) fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    pub(super) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sends a request on 2026-07-28 and returns its result.
    pub(super) fn ask(&self, method: &str, name: &str, params: Value) -> Result<Value> {
        mcp::result(&self.send(mcp::modern(&self.address.to_string(), 1, method, name, params))?)
    }

    /// Sends a prepared request on a connection of its own.
    pub(super) fn send(&self, mut request: Message) -> Result<Message> {
        request.headers.push(("connection".into(), "close".into()));
        if let Some(token) = &self.token {
            request.headers.push(("authorization".into(), format!("Bearer {token}")));
        }
        let sent = mcp::exchange_once(self.address, &request.to_bytes(), self.patience);
        sent.with_context(|| format!("{} to {}", request.start, self.address))
    }

    /// Starts an errand as a task and returns the task's ID. `acts` are those of `examples/deployed`.
    pub(super) fn start(&self, name: &str, acts: &Value) -> Result<String> {
        let created = self.call("errand", name, acts)?;
        let id = created["taskId"].as_str();
        Ok(id.with_context(|| format!("`{name}` became no task: {created}"))?.to_owned())
    }

    /// Runs an errand while the client waits.
    pub(super) fn call_now(&self, name: &str, acts: &Value) -> Result<Value> {
        self.call("errand_now", name, acts)
    }

    fn call(&self, tool: &str, name: &str, acts: &Value) -> Result<Value> {
        let arguments = json!({ "name": name, "acts": acts });
        self.ask("tools/call", tool, json!({ "name": tool, "arguments": arguments }))
    }

    /// A task as the server shows it.
    pub(super) fn get(&self, task: &str) -> Result<Value> {
        self.ask("tasks/get", task, json!({ "taskId": task }))
    }

    /// Waits until a task has the status.
    pub(super) fn wait_for(&self, task: &str, status: &str, patience: Duration) -> Result<Value> {
        let began = Instant::now();
        loop {
            let found = self.get(task)?;
            if found["status"] == status {
                return Ok(found);
            }
            ensure!(began.elapsed() < patience, "task {task} is not {status} but {found}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Confirms every question that a task asks.
    pub(super) fn answer(&self, task: &str) -> Result<()> {
        let found = self.get(task)?;
        let questions = found["inputRequests"].as_object();
        let keys = questions.with_context(|| format!("task {task} asks nothing: {found}"))?.keys();
        let accept = json!({ "action": "accept", "content": { "yes": true } });
        let responses: serde_json::Map<_, _> = keys.map(|key| (key.clone(), accept.clone())).collect();
        self.ask("tasks/update", task, json!({ "taskId": task, "inputResponses": responses }))?;
        Ok(())
    }

    /// Opens a session of 2025-11-25 and returns its ID.
    pub(super) fn open_session(&self) -> Result<String> {
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "xtask", "version": "1" },
        });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = self.send(self.in_session(None, &hello))?;
        let Some(id) = answer.header("mcp-session-id").map(str::to_owned) else {
            bail!("there is no session: {}", answer.start);
        };
        let noted = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let noted = self.send(self.in_session(Some(&id), &noted))?;
        ensure!(noted.status() == 202, "`initialized` was answered with {}", noted.start);
        Ok(id)
    }

    /// A message in a session of 2025-11-25.
    pub(super) fn in_session(&self, session: Option<&str>, body: &Value) -> Message {
        let mut headers = vec![("mcp-protocol-version", LEGACY)];
        headers.extend(session.map(|id| ("mcp-session-id", id)));
        Message::post(&self.address.to_string(), &headers, body.to_string().into_bytes())
    }
}
