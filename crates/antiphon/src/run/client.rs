//! The client of one request: the server reads the request and sends questions and notifications back to the client.
//!
//! This module also contains the rules for questions to clients: which capabilities a question needs, and which
//! answers are valid.

use std::{
    borrow::Cow,
    fmt,
    future::Future,
    sync::{Arc, OnceLock},
};

use antiphon_llm::plain;

use rmcp::{
    RoleServer,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientCapabilities, Extensions,
        GetExtensions as _, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
        ProgressToken, ProtocolVersion, RequestId, ServerRequest,
    },
    service::{OriginatingRequestId, Peer, PeerRequestOptions, RequestContext, ServiceError},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Pending;
use crate::{
    base::random_id,
    error::{Capability, Error, ErrorKind},
    protocol::{Level, Note, Revision, UI_EXTENSION, elicitation_complete},
};

/// The session of a request. The session records the elicitations and forms that the server has sent in the session.
pub(crate) trait SessionMemory: Send + Sync + fmt::Debug {
    /// Records that the server sends the URL elicitation with the ID `id` in this session. When the user has finished,
    /// the server uses this record to notify the session. Call this method before you send the elicitation.
    fn elicited<'a>(&'a self, id: &'a str) -> Pending<'a, ()>;

    /// Records whether the request `id` has an open form at the client. `client` is the name under which the server
    /// records this client. If `client` is `None`, the request `id` has no open form.
    fn watch_form(&self, id: &str, client: Option<&str>);

    /// Returns the name of the session. All replicas use the same name for a session.
    fn name(&self) -> &str;

    /// Enables or disables a group of tools in this session. Returns `true` if this call has changed the enabled
    /// groups.
    fn set_group<'a>(&'a self, group: &'a str, enabled: bool) -> Pending<'a, Result<bool, Error>>;
}

/// The values that layers have added to a request. A tool reads these values with `Ctx::extension`.
#[derive(Clone, Debug)]
pub(crate) struct Added(pub(crate) http::Extensions);

/// A connection that belongs to one client, for example stdio, a socket or a WebSocket. Streamable HTTP has no
/// connections that belong to one client.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The random name of the connection.
    name: Arc<str>,
    /// Whether the process serves only one client, as over stdio.
    is_only: bool,
}

impl Connection {
    /// Creates a connection for a transport that can have several connections, for example a WebSocket. The connection
    /// gets a random name.
    pub(crate) fn one_of_many() -> Self {
        Self { name: random_id().into(), is_only: false }
    }

    /// Creates the only connection of a process that serves only one user, as over stdio.
    #[cfg(any(feature = "stdio", feature = "testing"))]
    pub(crate) fn only() -> Self {
        Self { is_only: true, ..Self::one_of_many() }
    }

    /// Returns `true` if the process serves only one client, as over stdio.
    pub(crate) fn is_only(&self) -> bool {
        self.is_only
    }

    /// Returns the name that the server uses for the unauthenticated user of this connection. Each connection has a
    /// different user name. If the process has only one user, the user name is the same for all connections.
    pub(crate) fn user(&self) -> &str {
        if self.is_only { "" } else { &self.name }
    }
}

/// The party that sent a request.
#[derive(Debug)]
enum Kind {
    /// A client waits for the response. The request is boxed, because a move of the client would otherwise copy the
    /// large request.
    Remote(Box<RequestContext<RoleServer>>),
    /// A task has no connected client. A client can request the result of the task later.
    Task { id: String, cancelled: CancellationToken, extensions: Extensions },
    /// The program that contains the server called the tool itself, without a client.
    None { request_id: String, cancelled: CancellationToken, extensions: Extensions },
}

/// The request that a run answers, and the client that sent this request.
#[derive(Debug)]
pub(crate) struct Client {
    kind: Kind,
    revision: Revision,
    capabilities: OnceLock<Box<ClientCapabilities>>,
    /// The log level of the session. Each MCP 2026-07-28 request sets a log level for itself, because these requests
    /// have no session.
    session_level: LoggingLevel,
    /// The session that the request belongs to, if the request has a session.
    session: Option<Arc<dyn SessionMemory>>,
    /// The connection over which the request arrived, if the connection belongs to one client.
    connection: Option<Connection>,
}

impl Client {
    pub(crate) fn new(context: RequestContext<RoleServer>) -> Self {
        Self {
            revision: revision(&context),
            session_level: LoggingLevel::Emergency,
            session: None,
            connection: None,
            capabilities: OnceLock::new(),
            kind: Kind::Remote(Box::new(context)),
        }
    }

    /// Sets the session of the request, and the log level that the client set for this session. Default: no session.
    pub(crate) fn with_session(mut self, session: Arc<dyn SessionMemory>, level: LoggingLevel) -> Self {
        self.session = Some(session);
        self.session_level = level;
        self
    }

    /// Sets the connection over which the request arrived. Default: none.
    pub(crate) fn with_connection(mut self, connection: Option<Connection>) -> Self {
        self.connection = connection;
        self
    }

    /// Returns the connection over which the request arrived, if the connection belongs to one client.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// Returns the name of the connection over which the request arrived, if the connection belongs to one client.
    pub(crate) fn connection_name(&self) -> Option<String> {
        self.connection.as_ref().map(|connection| connection.name.to_string())
    }

    /// Returns a name for the user who sent the request, and the kind of this name. Returns `None` for unauthenticated
    /// callers over streamable HTTP, because the server cannot distinguish these callers.
    pub(crate) fn user<'a>(&'a self, principal: Option<&'a str>) -> Option<(&'static str, &'a str)> {
        match principal {
            Some(principal) => Some(("principal", principal)),
            None => Some(("connection", self.connection()?.user())),
        }
    }

    /// Returns the name of the client's connection. Over streamable HTTP, returns the ID of the HTTP session. If the
    /// request has no connection and no session, returns an empty text.
    pub(crate) fn session_name(&self) -> &str {
        if let Some(connection) = &self.connection {
            return &connection.name;
        }
        let parts = self.extensions().get::<http::request::Parts>();
        let session = parts.and_then(|parts| parts.headers.get(&antiphon_transport::streamable::SESSION));
        session.and_then(|session| session.to_str().ok()).unwrap_or_default()
    }

    /// Creates the `Client` for a tool call that the program itself makes. This `Client` cannot answer questions and
    /// does not receive progress.
    pub(crate) fn local(request_id: String) -> Self {
        let (cancelled, extensions) = (CancellationToken::new(), Extensions::default());
        Self {
            revision: Revision::Session,
            session_level: LoggingLevel::Emergency,
            session: None,
            connection: None,
            capabilities: OnceLock::new(),
            kind: Kind::None { request_id, cancelled, extensions },
        }
    }

    /// Creates the `Client` for a leg of a task. No client is connected, but the leg uses the capabilities that the
    /// client declared when it started the task.
    pub(crate) fn of_task(id: &str, capabilities: &Value, revision: Revision) -> Self {
        let declared = serde_json::from_value(capabilities.clone()).unwrap_or_default();
        let (cancelled, extensions) = (CancellationToken::new(), Extensions::default());
        Self {
            revision,
            session_level: LoggingLevel::Emergency,
            session: None,
            connection: None,
            capabilities: OnceLock::from(Box::new(declared)),
            kind: Kind::Task { id: id.to_owned(), cancelled, extensions },
        }
    }

    /// Returns `true` if a connected client waits for the response. Only a connected client can receive notifications.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.kind, Kind::Remote(_))
    }

    pub(crate) fn is_of_task(&self) -> bool {
        matches!(self.kind, Kind::Task { .. })
    }

    /// Returns the capabilities that the client declared, as JSON. Task records store the capabilities in this format.
    pub(crate) fn declared(&self) -> Value {
        serde_json::to_value(self.capabilities()).unwrap_or_default()
    }

    /// Returns whether the client has declared the tasks extension of MCP 2026-07-28.
    pub(crate) fn knows_tasks(&self) -> bool {
        self.revision == Revision::Rounds && self.capabilities().supports_tasks()
    }

    /// Returns whether the client has declared that it shows MCP Apps.
    pub(crate) fn shows_apps(&self) -> bool {
        let extensions = self.capabilities().extensions.as_ref();
        extensions.is_some_and(|extensions| extensions.contains_key(UI_EXTENSION))
    }

    /// Returns the name that the client program reports about itself.
    pub(crate) fn program(&self) -> Option<String> {
        self.context().and_then(RequestContext::client_info).map(|info| info.name)
    }

    pub(crate) fn session(&self) -> Option<&dyn SessionMemory> {
        self.session.as_deref().filter(|_| self.supports(Capability::Session))
    }

    /// Returns the request, if a client waits for the response.
    pub(crate) fn context(&self) -> Option<&RequestContext<RoleServer>> {
        match &self.kind {
            Kind::Remote(context) => Some(context),
            Kind::Task { .. } | Kind::None { .. } => None,
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn cancelled(&self) -> &CancellationToken {
        match &self.kind {
            Kind::Remote(context) => &context.ct,
            Kind::Task { cancelled, .. } | Kind::None { cancelled, .. } => cancelled,
        }
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        match &self.kind {
            Kind::Remote(context) => &context.extensions,
            Kind::Task { extensions, .. } | Kind::None { extensions, .. } => extensions,
        }
    }

    pub(crate) fn request_id(&self) -> String {
        match &self.kind {
            Kind::Remote(context) => context.id.to_string(),
            Kind::Task { id, .. } => id.clone(),
            Kind::None { request_id, .. } => request_id.clone(),
        }
    }

    fn capabilities(&self) -> &ClientCapabilities {
        self.capabilities.get_or_init(|| {
            Box::new(self.context().and_then(RequestContext::client_capabilities).unwrap_or_default())
        })
    }

    /// Returns `request` without parts that this client does not support. If the client does not support
    /// `sampling.tools`, the returned request describes the tools as text.
    pub(crate) fn adapt<'a>(&self, request: &'a Value) -> Cow<'a, Value> {
        let declared = self.capabilities();
        let plain =
            declares(declared, Capability::Sampling) && !declares(declared, Capability::SamplingTools);
        if !plain || !is_about_tools(request) {
            return Cow::Borrowed(request);
        }
        let Ok(read) = serde_json::from_value(request["params"].clone()) else {
            return Cow::Borrowed(request);
        };
        Cow::Owned(json!({"method": request["method"], "params": plain::without_tools(&read)}))
    }

    /// Returns the first capability that `request` needs and the client has not declared.
    pub(crate) fn lacks(&self, request: &Value) -> Option<Capability> {
        let missing = guard(&self.adapt(request), self.capabilities())?;
        Some(if self.is_sessionless() { Capability::Session } else { missing })
    }

    /// Returns `true` if the request is a 2025-11-25 request over HTTP without a session. Without a session, the server
    /// does not have the client's capabilities and cannot send requests to the client.
    fn is_sessionless(&self) -> bool {
        self.revision == Revision::Session && !self.is_of_task() && lacks_session(self.extensions())
    }

    pub(crate) fn supports(&self, capability: Capability) -> bool {
        match capability {
            Capability::Session => {
                self.revision == Revision::Session && !self.is_of_task() && !self.is_sessionless()
            }
            capability => declares(self.capabilities(), capability),
        }
    }

    /// Sends a request to the client and waits for the response. The server can send a request to the client only if
    /// the revision is [`Revision::Session`].
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the server cancels the request at the client.
    pub(crate) fn ask(&self, request: &Value) -> impl Future<Output = Result<Value, Error>> + Send + use<> {
        let mut request = self.adapt(request).into_owned();
        let sessions = self.revision == Revision::Session;
        if sessions {
            drop_structured_values(&mut request);
        }
        let context = self.context().filter(|_| sessions);
        let to = context.map(|context| (context.peer.clone(), context.id.clone()));
        let session = self.session.clone();
        async move {
            let Some((peer, origin)) = to else {
                return Err(Error::misuse(
                    "the server cannot send a request to the client: this is possible only during a call that the client sent in a session",
                ));
            };
            if let (Some(session), Some(id)) = (session, request["params"]["elicitationId"].as_str()) {
                session.elicited(id).await;
            }
            let mut request: ServerRequest = serde_json::from_value(request)?;
            associate(&mut request, origin);
            let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
            let mut withdraw = Withdraw { peer: sent.peer.clone(), id: Some(sent.id.clone()) };
            let answer = sent.await_response().await;
            withdraw.id = None;
            match answer {
                Ok(answer) => Ok(serde_json::to_value(answer)?),
                Err(ServiceError::McpError(error)) => Err(Error::new(ErrorKind::Client {
                    code: error.code.0,
                    message: error.message.into_owned(),
                })),
                Err(ServiceError::Cancelled { .. }) => Err(Error::new(ErrorKind::Cancelled)),
                Err(error) => Err(error.into()),
            }
        }
    }

    /// Records in the session whether this request has an open form at the client. `client` is the name under which the
    /// server records this client. If `client` is `None`, this request has no open form.
    pub(crate) fn watch_form(&self, client: Option<&str>) {
        if let (Some(session), Some(context)) = (&self.session, self.context()) {
            session.watch_form(&context.id.to_string(), client);
        }
    }

    /// Sends a ping, so that the session does not become idle. If an HTTP session has no traffic for a time, the server
    /// closes the session. Without pings, the answer of a slow user would arrive after the session has ended.
    ///
    /// Returns whether the client responded within the duration `within`. An error response counts as a response.
    pub(crate) async fn ping(&self, within: std::time::Duration) -> bool {
        let Some(context) = self.context() else { return false };
        let Ok(mut ping) = serde_json::from_value::<ServerRequest>(json!({"method": "ping"})) else {
            return false;
        };
        associate(&mut ping, context.id.clone());
        let answered = tokio::time::timeout(within, context.peer.send_request(ping)).await;
        matches!(answered, Ok(Ok(_) | Err(ServiceError::McpError(_))))
    }

    /// Returns whether the client requested log messages of the level `level`.
    pub(crate) fn wants(&self, level: Level) -> bool {
        let least = self.context().and_then(|context| match self.revision {
            // On 2026-07-28, each request sets its own log level.
            Revision::Rounds => context.meta.log_level(),
            Revision::Session => Some(self.session_level),
        });
        least.is_some_and(|least| level as u8 >= least as u8)
    }

    fn progress_token(&self) -> Option<ProgressToken> {
        self.context()?.meta.get_progress_token()
    }

    pub(crate) fn has_progress_token(&self) -> bool {
        // The record of a task contains the progress, so every client that reads the task can see the progress.
        self.is_of_task() || self.progress_token().is_some()
    }

    /// Sends a notification. If sending fails, this method logs the error, and the run continues.
    pub(crate) async fn send(&self, note: Note) {
        let Some(peer) = self.context().map(|context| &context.peer) else { return };
        let sent = match note {
            Note::Log { level, logger, data } => {
                let mut params = LoggingMessageNotificationParam::new(to_logging_level(level), data);
                params.logger = logger;
                peer.notify_logging_message(params).await
            }
            Note::Progress { progress, total, message } => {
                let Some(token) = self.progress_token() else { return };
                let mut params = ProgressNotificationParam::new(token, progress);
                params.total = total;
                params.message = message;
                peer.notify_progress(params).await
            }
            Note::ElicitationComplete { id } => {
                peer.send_notification(elicitation_complete(&id, Extensions::new())).await
            }
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "a notification did not reach the client");
        }
    }
}

/// Marks a server request as part of the client's request `origin`. The SDK sends a marked request on the HTTP stream
/// of `origin`. The SDK sets this mark only inside the Tokio task of the SDK's handler. A run that can become a task
/// has a separate Tokio task, so this function sets the mark.
fn associate(request: &mut ServerRequest, origin: RequestId) {
    request.extensions_mut().insert(OriginatingRequestId(origin));
}

/// A guard that cancels a request to the client when the guard is dropped. The SDK does not cancel dropped requests.
/// Without the cancellation, the client's form would stay open, and the SDK would still wait for the answer.
struct Withdraw {
    peer: Peer<RoleServer>,
    id: Option<RequestId>,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = "the tool no longer waits for the answer".to_owned();
            let params = CancelledNotificationParam::new(Some(id), Some(reason));
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
        });
    }
}

/// Returns the protocol revision of the request itself. The connection can have a different revision than the request.
/// For example, over a plain stream the SDK would send requests even to a 2026-07-28 client, which does not accept
/// requests.
pub(crate) fn revision(context: &RequestContext<RoleServer>) -> Revision {
    Revision::of(context.protocol_version().as_ref().map(ProtocolVersion::as_str))
}

/// Returns `true` if the client sent the request over streamable HTTP without a session ID.
fn lacks_session(extensions: &Extensions) -> bool {
    extensions.get::<http::request::Parts>().is_some_and(|parts| {
        let streamable = parts.extensions.get::<antiphon_transport::streamable::Streamable>().is_some();
        streamable && !parts.headers.contains_key(&antiphon_transport::streamable::SESSION)
    })
}

/// Returns whether a request belongs to a session. Requests of MCP 2026-07-28 never belong to a session.
pub(crate) fn has_session(context: &RequestContext<RoleServer>) -> bool {
    revision(context) == Revision::Session && !lacks_session(&context.extensions)
}

fn to_logging_level(level: Level) -> LoggingLevel {
    match level {
        Level::Debug => LoggingLevel::Debug,
        Level::Info => LoggingLevel::Info,
        Level::Notice => LoggingLevel::Notice,
        Level::Warning => LoggingLevel::Warning,
        Level::Error => LoggingLevel::Error,
        Level::Critical => LoggingLevel::Critical,
        Level::Alert => LoggingLevel::Alert,
        Level::Emergency => LoggingLevel::Emergency,
    }
}

/// Returns the first capability that `request` needs and that is missing in `declared`. The server does not send a
/// request to a client that lacks a capability for this request.
fn guard(request: &Value, declared: &ClientCapabilities) -> Option<Capability> {
    needs(request).into_iter().find(|capability| !declares(declared, *capability))
}

/// Returns whether a client has declared a capability. Clients do not declare the capability [`Capability::Session`].
pub(crate) fn declares(declared: &ClientCapabilities, capability: Capability) -> bool {
    let (elicitation, sampling) = (declared.elicitation.as_ref(), declared.sampling.as_ref());
    match capability {
        // `elicitation: {}` means that the client shows forms. Before MCP had elicitation modes, clients sent only this
        // empty object.
        Capability::Elicitation => {
            elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
        }
        Capability::UrlElicitation => elicitation.is_some_and(|modes| modes.url.is_some()),
        Capability::Sampling => sampling.is_some(),
        Capability::SamplingTools => sampling.is_some_and(|sampling| sampling.tools.is_some()),
        Capability::SamplingContext => sampling.is_some_and(|sampling| sampling.context.is_some()),
        Capability::Roots => declared.roots.is_some(),
        Capability::Session => false,
    }
}

/// Returns `true` if a sampling request offers tools, or if the messages of this request contain tool calls.
fn is_about_tools(request: &Value) -> bool {
    let params = &request["params"];
    let has_calls = |message: &Value| {
        let blocks = message["content"].as_array();
        blocks
            .into_iter()
            .flatten()
            .any(|block| block["type"] == "tool_use" || block["type"] == "tool_result")
    };
    request["method"] == "sampling/createMessage"
        && (params.get("tools").is_some()
            || params.get("toolChoice").is_some()
            || params["messages"].as_array().into_iter().flatten().any(has_calls))
}

/// Removes structured content from `tool_result` blocks if the structured content is not an object. Before 2026-07-28,
/// MCP allows only objects as structured content. The text of the block contains the same data as the removed
/// structured content.
fn drop_structured_values(request: &mut Value) {
    if !is_about_tools(request) {
        return;
    }
    let messages = request["params"]["messages"].as_array_mut().into_iter().flatten();
    let contents = messages.filter_map(|message| message.get_mut("content")?.as_array_mut());
    for block in contents.flatten().filter_map(Value::as_object_mut) {
        if block.get("structuredContent").is_some_and(|structured| !structured.is_object()) {
            block.remove("structuredContent");
        }
    }
}

/// Returns the capabilities that a client must have declared before the server can send `request`.
fn needs(request: &Value) -> Vec<Capability> {
    let params = &request["params"];
    match request["method"].as_str() {
        Some("elicitation/create") if params["mode"] == "url" => vec![Capability::UrlElicitation],
        Some("elicitation/create") => vec![Capability::Elicitation],
        Some("sampling/createMessage") => {
            let mut needs = vec![Capability::Sampling];
            if params.get("tools").is_some() || params.get("toolChoice").is_some() {
                needs.push(Capability::SamplingTools);
            }
            if params.get("includeContext").is_some_and(|context| context != "none") {
                needs.push(Capability::SamplingContext);
            }
            needs
        }
        Some("roots/list") => vec![Capability::Roots],
        _ => Vec::new(),
    }
}

/// Returns `true` if `answer` is a valid result of `request`.
pub(crate) fn fits(request: &Value, answer: &Value) -> bool {
    match request["method"].as_str() {
        Some("elicitation/create") => {
            matches!(answer["action"].as_str(), Some("accept" | "decline" | "cancel"))
        }
        Some("sampling/createMessage") => {
            answer["role"].is_string() && (answer["content"].is_object() || answer["content"].is_array())
        }
        Some("roots/list") => answer["roots"].is_array(),
        _ => answer.is_object(),
    }
}

/// Returns `true` if `answer` is a valid result of `request`, and contains values if the form has required fields. The
/// server uses this function if the user can answer through another channel.
pub(crate) fn fits_with_content(request: &Value, answer: &Value) -> bool {
    fits(request, answer) && !super::channels::lacks_content(request, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking(request: &Value, declared: Value) -> Option<Capability> {
        guard(request, &serde_json::from_value(declared).unwrap())
    }

    #[test]
    fn url_mode_is_guarded_before_anything_is_sent() {
        let request =
            json!({"method": "elicitation/create", "params": {"mode": "url", "url": "https://example.com"}});
        let lacks = lacking(&request, json!({"elicitation": {}}));
        assert_eq!(lacks, Some(Capability::UrlElicitation));
        let message = Error::new(ErrorKind::Unsupported(Capability::UrlElicitation)).to_string();
        assert_eq!(
            message,
            "URL elicitation mode is not supported by this client. Use form mode (default) instead. See: \
             https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation"
        );
        assert_eq!(lacking(&request, json!({"elicitation": {"url": {}}})), None);
    }

    #[test]
    fn form_mode_is_the_default() {
        let request = json!({"method": "elicitation/create", "params": {"message": "?"}});
        assert_eq!(lacking(&request, json!({"elicitation": {}})), None);
        assert_eq!(lacking(&request, json!({"elicitation": {"form": {}}})), None);
        assert_eq!(lacking(&request, json!({"elicitation": {"url": {}}})), Some(Capability::Elicitation));
        assert_eq!(lacking(&request, json!({})), Some(Capability::Elicitation));
    }

    #[test]
    fn sampling_with_tools_or_context_needs_its_sub_capability() {
        let plain = json!({"method": "sampling/createMessage", "params": {"messages": []}});
        let tools = json!({"method": "sampling/createMessage", "params": {"tools": []}});
        let context = json!({"method": "sampling/createMessage", "params": {"includeContext": "thisServer"}});
        let none = json!({"method": "sampling/createMessage", "params": {"includeContext": "none"}});
        assert_eq!(lacking(&plain, json!({"sampling": {}})), None);
        assert_eq!(lacking(&none, json!({"sampling": {}})), None);
        assert_eq!(lacking(&tools, json!({"sampling": {}})), Some(Capability::SamplingTools));
        assert_eq!(lacking(&tools, json!({"sampling": {"tools": {}}})), None);
        assert_eq!(lacking(&context, json!({"sampling": {"tools": {}}})), Some(Capability::SamplingContext));
        assert_eq!(lacking(&context, json!({"sampling": {"context": {}}})), None);
        assert_eq!(lacking(&plain, json!({})), Some(Capability::Sampling));
    }
}
