//! One request from a client, and the way back to it.

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

/// Remembers what the session was sent that a request belongs to.
pub(crate) trait SessionMemory: Send + Sync + fmt::Debug {
    /// Remembers that the session is sent the URL elicitation `id`, so that it can be told of its completion. Call it
    /// before the elicitation is sent.
    fn elicited<'a>(&'a self, id: &'a str) -> Pending<'a, ()>;
}

/// Who is at the other end.
#[derive(Debug)]
enum Kind {
    /// Boxed, because a client is moved into its run and this is most of it.
    Remote(Box<RequestContext<RoleServer>>),
    /// Nobody at this moment: it may ask for what comes of its task later.
    Task { id: String, cancelled: CancellationToken, extensions: Extensions },
    /// Nobody: the program that has the tool calls it.
    None { request_id: String, cancelled: CancellationToken, extensions: Extensions },
}

/// A request in hand.
#[derive(Debug)]
pub(crate) struct Client {
    kind: Kind,
    revision: Revision,
    capabilities: OnceLock<Box<ClientCapabilities>>,
    session_level: LoggingLevel,
    /// The settings of the session it belongs to, if it does.
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

    /// A call that came from no client: nobody can be asked, nobody hears of progress.
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

    /// A leg of a task: its client can be asked what it has declared, but not now.
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

    /// Whether a client can be sent notes now.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.kind, Kind::Remote(_))
    }

    pub(crate) fn is_of_task(&self) -> bool {
        matches!(self.kind, Kind::Task { .. })
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
