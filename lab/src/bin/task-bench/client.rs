//! A client that speaks JSON lines and keeps nothing of what was said.

use std::time::{Duration, Instant};

use antiphon::Server;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};

const VERSION: &str = "2026-07-28";
/// How often a task is looked at that is waited for.
const POLL: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    id: u64,
    line: String,
}

impl Client {
    /// A connection to a server in this process.
    pub(crate) fn connect(server: &Server) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let server = server.clone();
        tokio::spawn(async move { server.serve_stream(theirs).await });
        let (reader, writer) = tokio::io::split(ours);
        Self { reader: BufReader::new(reader), writer, id: 0, line: String::new() }
    }

    pub(crate) async fn request(&mut self, method: &str, mut params: Value) -> Result<Value> {
        self.id += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": { "form": {} },
                "extensions": { "io.modelcontextprotocol/tasks": {} },
            },
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
        });
        let request = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        self.writer.write_all(format!("{request}\n").as_bytes()).await?;
        loop {
            self.line.clear();
            ensure!(self.reader.read_line(&mut self.line).await? > 0, "the server has hung up");
            let mut message: Value = serde_json::from_str(&self.line).context("that is no JSON")?;
            if message["id"] == self.id {
                ensure!(message.get("error").is_none(), "{method} failed: {message}");
                return Ok(message["result"].take());
            }
        }
    }

    /// Begins a task and returns its id.
    pub(crate) async fn begin(&mut self, tool: &str, arguments: Value) -> Result<String> {
        let created = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await?;
        Ok(created["taskId"].as_str().with_context(|| format!("no task: {created}"))?.to_owned())
    }

    /// Looks at a task until it has come to this.
    pub(crate) async fn until(&mut self, task: &str, status: &str) -> Result<()> {
        let start = Instant::now();
        loop {
            let found = self.request("tasks/get", json!({ "taskId": task })).await?;
            if found["status"] == status {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "it never was {status}: {found}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Answers the question that a task waits for.
    pub(crate) async fn answer(&mut self, task: &str) -> Result<()> {
        let response = json!({ "word": { "action": "accept", "content": { "word": "a word" } } });
        self.request("tasks/update", json!({ "taskId": task, "inputResponses": response })).await?;
        Ok(())
    }
}
