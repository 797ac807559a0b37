//! Sessions in the memory of this process. Each session belongs to the caller that opened it.

use std::{
    collections::HashMap,
    future::ready,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
};

use futures_util::{Stream, StreamExt as _, stream};
use http::request::Parts;
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ProtocolVersion, ServerJsonRpcMessage},
    transport::{
        WorkerTransport,
        streamable_http_server::session::{
            ServerSseMessage, SessionId, SessionManager,
            local::{LocalSessionManager, LocalSessionManagerError, LocalSessionWorker, SessionConfig},
        },
    },
};

use antiphon_transport::drain::Counted;

use super::{Application, HttpConfig, principal_of};
use antiphon_transport::{jitter, revision::SESSION};

pub(super) type Events = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;
type Result<T> = std::result::Result<T, LocalSessionManagerError>;

/// The sessions of the SDK, with the owner of each session.
pub(super) struct LocalSessions {
    app: Arc<dyn Application>,
    sessions: LocalSessionManager,
    begun: RwLock<HashMap<SessionId, SessionStart>>,
}

/// The information that is recorded when a session begins.
#[derive(Clone, Debug)]
struct SessionStart {
    /// The principal that opened the session, if the principal is known.
    owner: Option<String>,
    /// Whether the streams of the session begin with an event without data.
    primes: bool,
}

/// Returns whether the streams of a session begin with an event without data. `version` is the protocol revision of
/// the session. 2025-11-25 is the first revision with events without data. Clients of older revisions fail, because
/// they parse an event without data as a message.
pub(super) fn primes(version: &ProtocolVersion) -> bool {
    version.as_str() >= SESSION
}

/// Removes the events without data from a stream if `primes` is false.
pub(super) fn primed(events: Events, primes: bool) -> Events {
    if primes { events } else { Box::pin(events.filter(|event| ready(event.message.is_some()))) }
}

impl LocalSessions {
    pub(super) fn new(app: Arc<dyn Application>, config: &HttpConfig) -> Self {
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = config.session_idle;
        let mut sessions = LocalSessionManager::default();
        sessions.session_config = session_config;
        Self { app, sessions, begun: RwLock::default() }
    }

    /// Returns the number of sessions in this process.
    pub(super) async fn count(&self) -> usize {
        self.sessions.sessions.read().await.len()
    }

    /// Returns whether the event ID `last` belongs to the stream of a request. The stream of a request ends with the
    /// response to the request.
    pub(super) fn holds(last: &str) -> bool {
        last.contains('/')
    }

    /// Returns whether the sender of the request `parts` can use the session `id`. Callers that cannot use a session
    /// get the same response as for an unknown session.
    pub(super) fn admits(&self, id: &str, parts: &Parts) -> bool {
        let begun = self.begun.read().unwrap_or_else(PoisonError::into_inner);
        begun.get(id).is_some_and(|begun| begun.owner == self.app.principal(parts))
    }

    fn primes(&self, id: &str) -> bool {
        let begun = self.begun.read().unwrap_or_else(PoisonError::into_inner);
        begun.get(id).is_none_or(|begun| begun.primes)
    }
}

impl SessionManager for LocalSessions {
    type Error = LocalSessionManagerError;
    type Transport = Counted<WorkerTransport<LocalSessionWorker>>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport)> {
        let (id, transport) = self.sessions.create_session().await?;
        Ok((id, Counted::session(transport, self.app.drain())))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage> {
        if let ClientJsonRpcMessage::Request(request) = &message
            && let ClientRequest::InitializeRequest(request) = &request.request
        {
            let owner = principal_of(&*self.app, &request.extensions);
            let begun = SessionStart { owner, primes: primes(&request.params.protocol_version) };
            self.begun.write().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(id), begun);
        }
        self.sessions.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool> {
        self.sessions.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<()> {
        // The SDK calls this method for every session that ends, for any reason.
        self.begun.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        self.sessions.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        // The stream is boxed here and below, because the type of the stream borrows from the sessions. The value of
        // the stream does not borrow from the sessions.
        let events: Events = Box::pin(self.sessions.create_stream(id, message).await?);
        Ok(primed(events, self.primes(id)))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<()> {
        self.sessions.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        // The SDK would also begin this stream with an empty event, but with the same retry time for all clients.
        let first = stream::iter([ServerSseMessage::priming("0", jitter::reconnect())]);
        let events: Events = Box::pin(first.chain(self.sessions.create_standalone_stream(id).await?));
        Ok(primed(events, self.primes(id)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        let events = self.sessions.resume(id, last.clone()).await?;
        // When a client resumes a stream, the SDK first sends the last event that the client has already received. If
        // this event were a question, the client would ask the user twice. So the event is skipped. An event with the
        // ID `0` is not skipped, because this event can be new. The event that begins a stream has the ID `0`, and the
        // first message without a request also has the ID `0`.
        let is_known = move |event: &ServerSseMessage| last != "0" && event.event_id.as_ref() == Some(&last);
        let events: Events = Box::pin(events.skip_while(move |event| ready(is_known(event))));
        Ok(primed(events, self.primes(id)))
    }
}
