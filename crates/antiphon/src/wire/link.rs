//! One request from a client, and the way back to it.

use std::{borrow::Cow, future::Future, sync::OnceLock};

use antiphon_llm::plain;

use rmcp::{
    RoleServer,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientCapabilities, Extensions, LoggingLevel,
        LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ProtocolVersion,
        RequestId, ServerRequest,
    },
    service::{Peer, PeerRequestOptions, RequestContext, ServiceError},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::session::{SharedSettings, elicitation_complete};
use crate::{
    ctx::Level,
    error::{Capability, Error, ErrorKind},
};

/// The two ways MCP lets a server ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revision {
    /// 2025-11-25 and before: the server sends requests in a session.
    Session,
    /// 2026-07-28: the server answers that input is required.
    Rounds,
}

/// Something to tell the client beside the answer.
#[derive(Debug)]
pub(crate) enum Note {
    Log { level: Level, logger: Option<String>, data: Value },
    Progress { progress: f64, total: Option<f64>, message: Option<String> },
    ElicitationComplete { id: String },
}

/// Who is at the other end.
#[derive(Debug)]
enum Client {
    /// Boxed, because a link is moved into its run and this is most of it.
    Remote(Box<RequestContext<RoleServer>>),
    /// Nobody at this moment: it may ask for what comes of its task later.
    Task { id: String, cancelled: CancellationToken, extensions: Extensions },
    /// Nobody: the program that has the tool calls it.
    None { request_id: String, cancelled: CancellationToken, extensions: Extensions },
}

/// A request in hand.
#[derive(Debug)]
pub(crate) struct Link {
    client: Client,
    revision: Revision,
    capabilities: OnceLock<Box<ClientCapabilities>>,
    session_level: LoggingLevel,
    /// The settings of the session it belongs to, if it does.
    session: Option<SharedSettings>,
}

impl Link {
    pub(crate) fn new(context: RequestContext<RoleServer>, session_level: LoggingLevel) -> Self {
        Self {
            revision: revision(&context),
            session_level,
            session: None,
            capabilities: OnceLock::new(),
            client: Client::Remote(Box::new(context)),
        }
    }

    /// Sets the session that the request belongs to. Default: none.
    pub(super) fn with_session(mut self, session: Option<SharedSettings>) -> Self {
        self.session = session;
        self
    }

    /// A call that came from no client: nobody can be asked, nobody hears of progress.
    pub(crate) fn local(request_id: String) -> Self {
        let (cancelled, extensions) = (CancellationToken::new(), Extensions::default());
        Self {
            revision: Revision::Session,
            session_level: LoggingLevel::Emergency,
            session: None,
            capabilities: OnceLock::new(),
            client: Client::None { request_id, cancelled, extensions },
        }
    }

    /// A leg of a task: its client can be asked what it has declared, but not now.
    pub(crate) fn of_task(id: &str, capabilities: &Value, revision: Revision) -> Self {
        let declared = serde_json::from_value(capabilities.clone()).unwrap_or_default();
        let (cancelled, extensions) = (CancellationToken::new(), Extensions::default());
        Self {
            revision,
            session_level: LoggingLevel::Emergency,
            session: None,
            capabilities: OnceLock::from(Box::new(declared)),
            client: Client::Task { id: id.to_owned(), cancelled, extensions },
        }
    }

    /// Whether a client can be sent notes now.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.client, Client::Remote(_))
    }

    pub(crate) fn is_of_task(&self) -> bool {
        matches!(self.client, Client::Task { .. })
    }

    /// What the client has declared, as it is kept.
    pub(crate) fn declared(&self) -> Value {
        serde_json::to_value(self.capabilities()).unwrap_or_default()
    }

    /// Whether the client has declared that it knows tasks, as 2026-07-28 has them.
    pub(crate) fn knows_tasks(&self) -> bool {
        self.revision == Revision::Rounds && self.capabilities().supports_tasks()
    }

    fn context(&self) -> Option<&RequestContext<RoleServer>> {
        match &self.client {
            Client::Remote(context) => Some(context),
            Client::Task { .. } | Client::None { .. } => None,
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn cancelled(&self) -> &CancellationToken {
        match &self.client {
            Client::Remote(context) => &context.ct,
            Client::Task { cancelled, .. } | Client::None { cancelled, .. } => cancelled,
        }
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        match &self.client {
            Client::Remote(context) => &context.extensions,
            Client::Task { extensions, .. } | Client::None { extensions, .. } => extensions,
        }
    }

    pub(crate) fn request_id(&self) -> String {
        match &self.client {
            Client::Remote(context) => context.id.to_string(),
            Client::Task { id, .. } => id.clone(),
            Client::None { request_id, .. } => request_id.clone(),
        }
    }

    fn capabilities(&self) -> &ClientCapabilities {
        self.capabilities.get_or_init(|| {
            Box::new(self.context().and_then(RequestContext::client_capabilities).unwrap_or_default())
        })
    }

    /// `request` as this client can read it: one without `sampling.tools` is told of tools in words.
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

    /// The capability `request` needs and the client lacks.
    pub(crate) fn lacks(&self, request: &Value) -> Option<Capability> {
        let missing = guard(&self.adapt(request), self.capabilities())?;
        Some(if self.is_sessionless() { Capability::Session } else { missing })
    }

    /// A 2025-11-25 request over HTTP that belongs to no session: nothing sent to its peer would
    /// ever arrive, and its capabilities are unknown.
    #[cfg(feature = "http")]
    fn is_sessionless(&self) -> bool {
        let parts = self.extensions().get::<http::request::Parts>();
        self.revision == Revision::Session
            && !self.is_of_task()
            && parts.is_some_and(|parts| {
                let streamable = parts.extensions.get::<crate::server::Streamable>().is_some();
                streamable && !parts.headers.contains_key(&crate::server::headers::SESSION)
            })
    }

    #[cfg(not(feature = "http"))]
    #[expect(clippy::unused_self, reason = "the same signature with and without the feature")]
    fn is_sessionless(&self) -> bool {
        false
    }

    pub(crate) fn supports(&self, capability: Capability) -> bool {
        match capability {
            Capability::Session => {
                self.revision == Revision::Session && !self.is_of_task() && !self.is_sessionless()
            }
            capability => declares(self.capabilities(), capability),
        }
    }

    /// Sends a request to the client and waits for the answer. Only on [`Revision::Session`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it tells the client that the request is cancelled.
    pub(crate) fn ask(&self, request: &Value) -> impl Future<Output = Result<Value, Error>> + Send + use<> {
        let mut request = self.adapt(request).into_owned();
        let sessions = self.revision == Revision::Session;
        if sessions {
            drop_structured_values(&mut request);
        }
        let peer = self.context().filter(|_| sessions).map(|context| context.peer.clone());
        let session = self.session.clone();
        async move {
            let Some(peer) = peer else {
                return Err(Error::misuse("a request is sent in a session and nowhere else"));
            };
            if let (Some(session), Some(id)) = (session, request["params"]["elicitationId"].as_str()) {
                Box::pin(session.elicited(id)).await;
            }
            let request: ServerRequest = serde_json::from_value(request)?;
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

    /// Shows a session that it is still in use. An HTTP session that nothing passes through for its
    /// idle limit is closed, and a person who thinks for that long would find nobody waiting.
    ///
    /// Says whether it was answered within that time, be it with an error.
    pub(crate) async fn ping(&self, within: std::time::Duration) -> bool {
        let Some(peer) = self.context().map(|context| context.peer.clone()) else { return false };
        let Ok(ping) = serde_json::from_value::<ServerRequest>(json!({"method": "ping"})) else {
            return false;
        };
        let answered = tokio::time::timeout(within, peer.send_request(ping)).await;
        matches!(answered, Ok(Ok(_) | Err(ServiceError::McpError(_))))
    }

    /// Whether the client wants to hear of a log message of this level.
    pub(crate) fn wants(&self, level: Level) -> bool {
        let least = self.context().and_then(|context| match self.revision {
            // On 2026-07-28, only what this very request asks for.
            Revision::Rounds => context.meta.log_level(),
            Revision::Session => Some(self.session_level),
        });
        least.is_some_and(|least| level as u8 >= least as u8)
    }

    fn progress_token(&self) -> Option<ProgressToken> {
        self.context()?.meta.get_progress_token()
    }

    pub(crate) fn has_progress_token(&self) -> bool {
        // Of a task, it is how far it has come: whoever looks is told.
        self.is_of_task() || self.progress_token().is_some()
    }

    /// Sends a note, or drops it: what it tells of goes on either way.
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

/// Tells the client, dropped, that a request is no longer waited for. The SDK does not: a model would
/// go on, a form stay open, and the SDK keep waiting.
struct Withdraw {
    peer: Peer<RoleServer>,
    id: Option<RequestId>,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = "the tool no longer waits for it".to_owned();
            let params = CancelledNotificationParam::new(Some(id), Some(reason));
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
        });
    }
}

/// Decided by the request's own version, never by the connection's: over a plain stream a
/// 2026-07-28 client has no session state, and the SDK would let a request through to it.
pub(super) fn revision(context: &RequestContext<RoleServer>) -> Revision {
    match context.protocol_version() {
        Some(version) if version >= ProtocolVersion::V_2026_07_28 => Revision::Rounds,
        _ => Revision::Session,
    }
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

/// The capability `request` needs and a client that declares `declared` lacks: what keeps a request
/// from ever being written.
fn guard(request: &Value, declared: &ClientCapabilities) -> Option<Capability> {
    needs(request).into_iter().find(|capability| !declares(declared, *capability))
}

fn declares(declared: &ClientCapabilities, capability: Capability) -> bool {
    let (elicitation, sampling) = (declared.elicitation.as_ref(), declared.sampling.as_ref());
    match capability {
        // `elicitation: {}` means forms; so it has been since before there were modes.
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

/// Whether a request to a model offers tools, or tells of calls in its history.
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

/// Before 2026-07-28, the structured content of a `tool_result` is an object or nothing. Its text says the same.
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

/// What a client must have declared before `request` may be sent to it.
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

/// Whether `answer` has the shape of a result of `request`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};

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
