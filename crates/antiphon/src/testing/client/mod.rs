//! The test client, the scripted answers, and the test harness.

mod answers;
mod replicas;

use std::{collections::BTreeMap, fmt, time::Duration};

use antiphon_llm::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinHandle,
};

use self::answers::ERROR;
pub use self::{
    answers::{Answers, Question},
    replicas::{Replicas, Report},
};
use super::{FormBehavior, HostProfile, Revision};
use crate::{
    error::{Error, Result},
    run::client::Connection,
    server::Server,
};

/// A test client in the same process as the server. A byte stream connects the test client to the server.
pub struct Client {
    revision: Revision,
    capabilities: Value,
    /// The profile of the host whose behavior the client imitates. The value is `None` if the client does not imitate a
    /// host.
    host: Option<HostProfile>,
    /// The time after which the client cancels a request, if the client has a time limit.
    limit: Option<Duration>,
    answers: Answers,
    meta: Value,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    next_id: u64,
    frames: Vec<Frame>,
    /// The method of each sent request, by the ID of the request.
    methods: BTreeMap<u64, String>,
    max_rounds: u32,
    serving: JoinHandle<()>,
}

/// How long the client waits for a message from the server. This time is long enough for a busy machine, and short
/// enough for a test.
const PATIENCE: Duration = Duration::from_secs(30);

/// The messages that the server sent for one request: the result, the questions and the notifications.
#[derive(Clone, Debug, PartialEq)]
pub struct Talk {
    /// The result of the request.
    pub result: Value,
    /// The questions that the server asked during the request, in order.
    pub asked: Vec<Question>,
    /// The number of rounds in which the server asked for input before it sent the final result. On MCP 2025-11-25, the
    /// number is always 0.
    pub rounds: u32,
    /// The notifications that the server sent during the request.
    pub notifications: Vec<Value>,
}

impl Talk {
    /// Returns the text of the result. If the result contains several text blocks, this method joins the blocks with
    /// newlines.
    pub fn text(&self) -> String {
        let blocks = self.result["content"].as_array().into_iter().flatten();
        blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// Returns `true` if the tool returned an error result.
    pub fn is_error(&self) -> bool {
        self.result["isError"] == true
    }

    /// Returns the question keys of the questions that the server asked, in order.
    pub fn keys(&self) -> Vec<&str> {
        self.asked.iter().map(|question| question.key.as_str()).collect()
    }
}

/// A JSON-RPC message that the server sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The method of the request, if the message is the response to a request.
    pub method: Option<String>,
    /// The message, as the server sent it.
    pub message: Value,
}

/// A JSON-RPC error that the server returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// The JSON-RPC error code.
    pub code: i64,
    /// The message of the JSON-RPC error.
    pub message: String,
    /// The `data` of the JSON-RPC error.
    pub data: Value,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered with error {}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failed {}

impl Client {
    /// Connects to `server` as a client that declares all capabilities and can answer all questions.
    ///
    /// # Errors
    ///
    /// Returns an error if the client uses MCP 2025-11-25 and the initialization fails.
    pub async fn connect(server: &Server, revision: Revision) -> Result<Self> {
        let capabilities = json!({
            "elicitation": {"form": {}, "url": {}},
            "sampling": {"tools": {}, "context": {}},
            "roots": {},
        });
        Self::connect_with(server, revision, capabilities).await
    }

    /// Connects to `server` as a client with these `capabilities`.
    ///
    /// # Errors
    ///
    /// Returns an error if the client uses MCP 2025-11-25 and the initialization fails.
    pub async fn connect_with(server: &Server, revision: Revision, capabilities: Value) -> Result<Self> {
        Self::open(server, revision, capabilities, None).await
    }

    /// Connects to `server` as a client that behaves like `host`.
    ///
    /// The client declares the capabilities of the host. If the host does not show a form, the client does not use the
    /// scripted answer to this form. If the profile has a time limit for calls, the client cancels a longer call, and
    /// the call fails. [`HostProfile::model_view`] and [`HostProfile::app_view`] return the parts of a result that
    /// reach the model or the app of the host.
    ///
    /// ```
    /// use antiphon::{prelude::*, testing::{Client, HostProfile, Revision}};
    /// use serde_json::json;
    ///
    /// # async fn add(_: &Ctx, _: ()) -> Result<String> { Ok("3 rows".to_owned()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = Server::builder("rows", "1.0.0").tool(Tool::new("add", "Adds rows", add)).build()?;
    /// for host in HostProfile::ALL.iter().copied() {
    ///     let mut client = Client::connect_as(&server, Revision::V2025_11_25, host).await?;
    ///     let talk = client.call("add", json!({})).await?;
    ///     assert!(host.model_view(&talk.result).contains("3 rows"), "{}", host.title());
    /// }
    /// # Ok::<(), antiphon::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the client uses MCP 2025-11-25 and the initialization fails.
    pub async fn connect_as(server: &Server, revision: Revision, host: HostProfile) -> Result<Self> {
        Self::open(server, revision, host.capabilities(revision), Some(host)).await
    }

    /// Calls [`start_connection`](Self::start_connection) and boxes the future. The methods that return a boxed future
    /// are not `async`, so that only this crate compiles the futures, and not each program with tests.
    fn open(
        server: &Server,
        revision: Revision,
        capabilities: Value,
        host: Option<HostProfile>,
    ) -> BoxFuture<'_, Result<Self>> {
        Box::pin(Self::start_connection(server, revision, capabilities, host))
    }

    async fn start_connection(
        server: &Server,
        revision: Revision,
        capabilities: Value,
        host: Option<HostProfile>,
    ) -> Result<Self> {
        let (near, far) = tokio::io::duplex(1 << 20);
        let server = server.clone();
        let serving = tokio::spawn(async move {
            // All test clients of a server act as one user, like clients over stdio.
            let stream = antiphon_transport::legacy_tasks::Lines::server(far);
            if let Err(error) = server.serve_connection(stream, Connection::only()).await {
                tracing::debug!(%error, "a test connection ended");
            }
        });
        let (reader, writer) = tokio::io::split(near);
        let mut client = Self {
            revision,
            capabilities,
            host,
            limit: host.and_then(HostProfile::gives_up_after),
            answers: Answers::new(),
            meta: json!({}),
            lines: BufReader::new(reader).lines(),
            writer,
            next_id: 0,
            frames: Vec::new(),
            methods: BTreeMap::new(),
            max_rounds: 100,
            serving,
        };
        if revision == Revision::V2025_11_25 {
            let hello = json!({
                "protocolVersion": revision.as_str(),
                "capabilities": client.capabilities,
                "clientInfo": client.about(),
            });
            client.request("initialize", hello).await?;
            client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        }
        Ok(client)
    }

    /// Sets the scripted answers. Default: none.
    #[must_use]
    pub fn with_answers(mut self, answers: Answers) -> Self {
        self.answers = answers;
        self
    }

    /// Sets the time after which the client cancels a request. Default: the time limit of the [`HostProfile`], or no
    /// limit.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets additional `_meta` entries that the client adds to every request, for example a progress token or a log
    /// level. Default: none.
    #[must_use]
    pub fn with_meta(mut self, meta: Value) -> Self {
        self.meta = meta;
        self
    }

    /// Replaces the scripted answers.
    pub fn set_answers(&mut self, answers: Answers) {
        self.answers = answers;
    }

    /// Replaces the additional `_meta` entries. Requests after a call of `set_meta` contain the new entries.
    pub fn set_meta(&mut self, meta: Value) {
        self.meta = meta;
    }

    /// Sets the number of rounds after which the client stops the run. Real clients also have a maximum number of
    /// rounds. Default: 100.
    pub fn set_max_rounds(&mut self, rounds: u32) {
        self.max_rounds = rounds;
    }

    /// Calls a tool, and answers the tool's questions. Returns when the tool has returned.
    ///
    /// # Errors
    ///
    /// Returns [`Failed`] if the server returns a JSON-RPC error.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Result<Talk> {
        self.converse("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Sends a request, and answers the questions of the server. Returns when the server has returned the final
    /// result.
    ///
    /// # Errors
    ///
    /// Returns [`Failed`] if the server returns a JSON-RPC error.
    pub async fn converse(&mut self, method: &str, params: Value) -> Result<Talk> {
        self.boxed_converse(method, params).await
    }

    fn boxed_converse<'a>(&'a mut self, method: &'a str, params: Value) -> BoxFuture<'a, Result<Talk>> {
        Box::pin(self.converse_in_rounds(method, params))
    }

    async fn converse_in_rounds(&mut self, method: &str, params: Value) -> Result<Talk> {
        let mut talk = Talk { result: Value::Null, asked: Vec::new(), rounds: 0, notifications: Vec::new() };
        let mut retry = params.clone();
        loop {
            let result = self.exchange(method, retry, &mut talk).await?;
            if result["resultType"] != "input_required" {
                talk.result = result;
                return Ok(talk);
            }
            talk.rounds += 1;
            if talk.rounds > self.max_rounds {
                return Err(Error::tool(format!(
                    "the server still sends questions after {} rounds",
                    self.max_rounds
                )));
            }
            retry = params.clone();
            retry["requestState"] = result["requestState"].clone();
            retry["inputResponses"] = json!({});
            for (key, request) in result["inputRequests"].as_object().into_iter().flatten() {
                let question = Question::new(Some(key), request);
                let Some(answer) = self.answer(&question)? else {
                    return Err(Error::tool(format!(
                        "the call did not finish: the client does not answer the question `{key}`"
                    )));
                };
                if answer.get(ERROR).is_none() {
                    retry["inputResponses"][key] = answer;
                }
                talk.asked.push(question);
            }
        }
    }

    /// Sends one request and returns the result, even if the result contains questions. This method does not answer
    /// questions.
    ///
    /// # Errors
    ///
    /// Returns [`Failed`] if the server returns a JSON-RPC error.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        let mut talk = Talk { result: Value::Null, asked: Vec::new(), rounds: 0, notifications: Vec::new() };
        self.exchange(method, params, &mut talk).await
    }

    /// Returns all messages that the server has sent, in order.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Returns the protocol revision that the client uses.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Sends a line of text to the server, without changes. Returns the next message of the server.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is closed, or if no message arrives within 30 seconds.
    pub async fn send_raw(&mut self, line: &str) -> Result<Value> {
        self.writer.write_all(line.as_bytes()).await?;
        self.writer.write_all(b"\n").await?;
        self.receive().await
    }

    /// Waits for the next notification that does not belong to a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is closed, or if no message arrives within 30 seconds.
    pub async fn notification(&mut self) -> Result<Value> {
        loop {
            let message = self.receive().await?;
            if message.get("method").is_some() && message.get("id").is_none() {
                return Ok(message);
            }
        }
    }

    /// Sends a request, but does not wait for the result. Returns the ID of the request.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is closed.
    pub async fn start(&mut self, method: &str, mut params: Value) -> Result<u64> {
        self.next_id += 1;
        let id = self.next_id;
        let meta = &mut params["_meta"];
        if let Value::Object(extra) = &self.meta {
            for (key, value) in extra {
                meta[key] = value.clone();
            }
        }
        if self.revision == Revision::V2026_07_28 {
            meta["io.modelcontextprotocol/protocolVersion"] = self.revision.as_str().into();
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            meta["io.modelcontextprotocol/clientInfo"] = self.about();
        }
        if meta.is_null() {
            params.as_object_mut().map(|params| params.remove("_meta"));
        }
        self.methods.insert(id, method.to_owned());
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        Ok(id)
    }

    /// Sends a notification to the server.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is closed.
    pub async fn notify(&mut self, method: &str, params: Value) -> Result<()> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    fn about(&self) -> Value {
        let name = self.host.map_or("antiphon-testing", HostProfile::name);
        json!({"name": name, "version": env!("CARGO_PKG_VERSION")})
    }

    /// Returns the answer that the client sends to a question. Returns `None` if the imitated host does not answer the
    /// question.
    fn answer(&mut self, question: &Question) -> Result<Option<Value>> {
        let is_form = question.method == "elicitation/create" && question.params["mode"] != "url";
        let host = self.host.filter(|_| is_form);
        Ok(match host.map(|host| host.form(&question.params["requestedSchema"])) {
            Some(FormBehavior::Declines) => Some(json!({"action": "decline"})),
            Some(FormBehavior::AcceptsEmpty) => Some(json!({"action": "accept", "content": {}})),
            Some(FormBehavior::Undeclared) => {
                Some(json!({ERROR: {"code": -32601, "message": "Method not found"}}))
            }
            Some(FormBehavior::Ignores) => None,
            Some(FormBehavior::Shows) | None => Some(self.answers.answer(question)?),
        })
    }

    fn exchange<'a>(
        &'a mut self,
        method: &'a str,
        params: Value,
        talk: &'a mut Talk,
    ) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.exchange_one(method, params, talk))
    }

    async fn exchange_one(&mut self, method: &str, params: Value, talk: &mut Talk) -> Result<Value> {
        let id = self.start(method, params).await?;
        let Some(limit) = self.limit else { return self.response(id, talk).await };
        if let Ok(response) = tokio::time::timeout(limit, self.response(id, talk)).await {
            return response;
        }
        let reason = format!("the request timed out: no response within {limit:?}");
        self.notify("notifications/cancelled", json!({"requestId": id, "reason": reason})).await?;
        Err(Error::tool(format!("the client cancelled the request `{method}`: {reason}")))
    }

    async fn response(&mut self, id: u64, talk: &mut Talk) -> Result<Value> {
        loop {
            let message = self.receive().await?;
            match (message.get("method").and_then(Value::as_str), message.get("id")) {
                (Some("ping"), Some(id)) => {
                    self.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}})).await?;
                }
                (Some(_), Some(id)) => {
                    let question = Question::new(None, &message);
                    let answer = self.answer(&question)?;
                    talk.asked.push(question);
                    let Some(mut answer) = answer else { continue };
                    let kind = if answer.get(ERROR).is_some() { "error" } else { "result" };
                    let answer = if kind == "error" { answer[ERROR].take() } else { answer };
                    self.send(&json!({"jsonrpc": "2.0", "id": id, kind: answer})).await?;
                }
                (Some(_), None) => talk.notifications.push(message),
                (None, Some(answered)) if *answered == id => {
                    if let Some(error) = message.get("error") {
                        return Err(Error::from(Failed {
                            code: error["code"].as_i64().unwrap_or_default(),
                            message: error["message"].as_str().unwrap_or_default().to_owned(),
                            data: error["data"].clone(),
                        }));
                    }
                    return Ok(message["result"].clone());
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, message: &Value) -> BoxFuture<'_, Result<()>> {
        let mut line = message.to_string();
        line.push('\n');
        Box::pin(async move { Ok(self.writer.write_all(line.as_bytes()).await?) })
    }

    fn receive(&mut self) -> BoxFuture<'_, Result<Value>> {
        Box::pin(self.receive_one())
    }

    async fn receive_one(&mut self) -> Result<Value> {
        let patience = self.limit.map_or(PATIENCE, |limit| limit + PATIENCE);
        let line = tokio::time::timeout(patience, self.lines.next_line()).await??;
        let line = line.ok_or_else(|| Error::tool("the server closed the connection"))?;
        let message: Value = serde_json::from_str(&line)?;
        let answered = message["id"].as_u64().filter(|_| message.get("method").is_none());
        let method = answered.and_then(|id| self.methods.get(&id).cloned());
        self.frames.push(Frame { method, message: message.clone() });
        Ok(message)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("revision", &self.revision).finish_non_exhaustive()
    }
}
