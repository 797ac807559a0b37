//! Sessions in the memory of this process, each of whoever began it.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
};

use futures_util::Stream;
use http::request::Parts;
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage},
    transport::{
        WorkerTransport,
        streamable_http_server::session::{
            ServerSseMessage, SessionId, SessionManager,
            local::{LocalSessionManager, LocalSessionManagerError, LocalSessionWorker, SessionConfig},
        },
    },
};

use super::{HttpConfig, Shared};

type Events = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;
type Result<T> = std::result::Result<T, LocalSessionManagerError>;

/// The SDK's sessions, and whose they are.
pub(super) struct LocalSessions {
    shared: Arc<Shared>,
    sessions: LocalSessionManager,
    /// Who began each, if anybody knows.
    owners: RwLock<HashMap<SessionId, Option<String>>>,
}

impl LocalSessions {
    pub(super) fn new(shared: Arc<Shared>, config: &HttpConfig) -> Self {
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = config.session_idle;
        let mut sessions = LocalSessionManager::default();
        sessions.session_config = session_config;
        Self { shared, sessions, owners: RwLock::default() }
    }

    /// How many there are.
    pub(super) async fn count(&self) -> usize {
        self.sessions.sessions.read().await.len()
    }

    /// Whether whoever sent `parts` may use the session. Nobody else is told that there is one.
    pub(super) fn admits(&self, id: &str, parts: &Parts) -> bool {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners.get(id).is_some_and(|owner| *owner == self.shared.principal_of(parts))
    }
}

impl SessionManager for LocalSessions {
    type Error = LocalSessionManagerError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport)> {
        self.sessions.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage> {
        if let ClientJsonRpcMessage::Request(request) = &message
            && let ClientRequest::InitializeRequest(request) = &request.request
        {
            let owner = self.shared.principal(&request.extensions);
            self.owners.write().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(id), owner);
        }
        self.sessions.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool> {
        self.sessions.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<()> {
        // The SDK closes every session in the end, whatever ended it.
        self.owners.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        self.sessions.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        // Boxed here and below, because it does not borrow from the sessions and its type says that it does.
        let events: Events = Box::pin(self.sessions.create_stream(id, message).await?);
        Ok(events)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<()> {
        self.sessions.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        let events: Events = Box::pin(self.sessions.create_standalone_stream(id).await?);
        Ok(events)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        let events: Events = Box::pin(self.sessions.resume(id, last).await?);
        Ok(events)
    }
}
