//! One request from a client, and the connection back to that client.

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
        CancelledNotification, CancelledNotificationParam, ClientCapabilities, Extensions, LoggingLevel,
        LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ProtocolVersion,
        RequestId, ServerRequest,
    },
    service::{Peer, PeerRequestOptions, RequestContext, ServiceError},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Pending;
use crate::{
    error::{Capability, Error, ErrorKind},
    protocol::{
        Level, Note, Revision, declares, drop_structured_values, elicitation_complete, guard, is_about_tools,
    },
};

/// The session of a request, and the elicitations that were sent in it.
pub(crate) trait SessionMemory: Send + Sync + fmt::Debug {
    /// Records that the URL elicitation `id` is sent in this session, so that the session can receive the
    /// completion notification. Call it before you send the elicitation.
    fn elicited<'a>(&'a self, id: &'a str) -> Pending<'a, ()>;
}

/// The origin of a request.
#[derive(Debug)]
enum Kind {
    /// A client that waits for the response. Boxed, because a client is moved into its run and this is its
    /// largest part.
    Remote(Box<RequestContext<RoleServer>>),
    /// No connected client. The client can request the result of its task later.
    Task { id: String, cancelled: CancellationToken, extensions: Extensions },
    /// No client. The program that owns the tool calls it.
    None { request_id: String, cancelled: CancellationToken, extensions: Extensions },
}

/// The request that a run answers.
#[derive(Debug)]
pub(crate) struct Client {
    kind: Kind,
    revision: Revision,
    capabilities: OnceLock<Box<ClientCapabilities>>,
    session_level: LoggingLevel,
    /// The session that the request belongs to, if any.
    session: Option<Arc<dyn SessionMemory>>,
}

impl Client {
    pub(crate) fn new(context: RequestContext<RoleServer>, session_level: LoggingLevel) -> Self {
        Self {
            revision: revision(&context),
            session_level,
            session: None,
            capabilities: OnceLock::new(),
            kind: Kind::Remote(Box::new(context)),
        }
    }

    /// Sets the session that the request belongs to. Default: none.
    pub(crate) fn with_session(mut self, session: Option<Arc<dyn SessionMemory>>) -> Self {
        self.session = session;
        self
    }

    /// Creates the client of a call that the program itself makes. It cannot answer questions and receives no
    /// progress.
    pub(crate) fn local(request_id: String) -> Self {
        let (cancelled, extensions) = (CancellationToken::new(), Extensions::default());
        Self {
            revision: Revision::Session,
            session_level: LoggingLevel::Emergency,
            session: None,
            capabilities: OnceLock::new(),
            kind: Kind::None { request_id, cancelled, extensions },
        }
    }

    /// Creates the client of a leg of a task. Questions respect the capabilities it declared, but it is not
    /// connected now.
    pub(crate) fn of_task(id: &str, capabilities: &Value, revision: Revision) -> Self {
        let declared = serde_json::from_value(capabilities.clone()).unwrap_or_default();
        let (cancelled, extensions) = (CancellationToken::new(), Extensions::default());
        Self {
            revision,
            session_level: LoggingLevel::Emergency,
            session: None,
            capabilities: OnceLock::from(Box::new(declared)),
            kind: Kind::Task { id: id.to_owned(), cancelled, extensions },
        }
    }

    /// Returns whether notifications can be sent to a client now.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.kind, Kind::Remote(_))
    }

    pub(crate) fn is_of_task(&self) -> bool {
        matches!(self.kind, Kind::Task { .. })
    }

    /// Returns the client's declared capabilities as JSON, as they are stored.
    pub(crate) fn declared(&self) -> Value {
        serde_json::to_value(self.capabilities()).unwrap_or_default()
    }

    /// Returns whether the client has declared the tasks extension of MCP 2026-07-28.
    pub(crate) fn knows_tasks(&self) -> bool {
        self.revision == Revision::Rounds && self.capabilities().supports_tasks()
    }

    fn context(&self) -> Option<&RequestContext<RoleServer>> {
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

    /// Returns `request` in a form that this client can read. For a client without `sampling.tools`, it
    /// describes tools in text.
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

    /// Returns the capability that `request` needs and the client lacks.
    pub(crate) fn lacks(&self, request: &Value) -> Option<Capability> {
        let missing = guard(&self.adapt(request), self.capabilities())?;
        Some(if self.is_sessionless() { Capability::Session } else { missing })
    }

    /// Returns whether this is a 2025-11-25 request over HTTP without a session. Requests to its peer would
    /// never arrive, and its capabilities are unknown.
    fn is_sessionless(&self) -> bool {
        let parts = self.extensions().get::<http::request::Parts>();
        self.revision == Revision::Session
            && !self.is_of_task()
            && parts.is_some_and(|parts| {
                let streamable =
                    parts.extensions.get::<antiphon_transport::streamable::Streamable>().is_some();
                streamable && !parts.headers.contains_key(&antiphon_transport::headers::SESSION)
            })
    }

    pub(crate) fn supports(&self, capability: Capability) -> bool {
        match capability {
            Capability::Session => {
                self.revision == Revision::Session && !self.is_of_task() && !self.is_sessionless()
            }
            capability => declares(self.capabilities(), capability),
        }
    }

    /// Sends a request to the client and waits for the response. Works only on [`Revision::Session`].
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the client receives a cancellation of the request.
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
                return Err(Error::misuse(
                    "the server cannot send a request to the client outside a session",
                ));
            };
            if let (Some(session), Some(id)) = (session, request["params"]["elicitationId"].as_str()) {
                session.elicited(id).await;
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

    /// Sends a ping, so that the session does not become idle. The server closes an HTTP session without
    /// traffic after its idle limit, and a slow user's answer would then arrive too late.
    ///
    /// Returns whether the client responded within the given time. An error response counts.
    pub(crate) async fn ping(&self, within: std::time::Duration) -> bool {
        let Some(peer) = self.context().map(|context| context.peer.clone()) else { return false };
        let Ok(ping) = serde_json::from_value::<ServerRequest>(json!({"method": "ping"})) else {
            return false;
        };
        let answered = tokio::time::timeout(within, peer.send_request(ping)).await;
        matches!(answered, Ok(Ok(_) | Err(ServiceError::McpError(_))))
    }

    /// Returns whether the client requested log messages of this level.
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
        // A task stores its progress in its record, for every client that reads the task.
        self.is_of_task() || self.progress_token().is_some()
    }

    /// Sends a notification. An error is logged and does not stop the run.
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

/// Cancels a request at the client when dropped. The SDK does not do that: the model would keep working, the
/// form would stay open, and the SDK would keep waiting.
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

/// Returns the protocol revision of the request itself, not of the connection. Over a plain stream, a
/// 2026-07-28 client has no session state, and the SDK would not reject a request to it.
pub(crate) fn revision(context: &RequestContext<RoleServer>) -> Revision {
    Revision::of(context.protocol_version().as_ref().map(ProtocolVersion::as_str))
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
