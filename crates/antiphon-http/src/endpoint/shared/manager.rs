//! Implementations of the SDK's interfaces for session managers and session stores.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::Stream;
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, InitializedNotification,
        ServerJsonRpcMessage,
    },
    transport::streamable_http_server::session::{
        RestoreOutcome, ServerSseMessage, SessionId, SessionManager, SessionRestoreMarker, SessionState,
        SessionStore, SessionStoreError,
    },
};
use tokio::time::Instant;

use super::{
    ids::{Marked, answered},
    lock,
    log::EventId,
    news::News,
    record::{SessionRecord, caller, session_name},
    sessions::{Failure, Sessions},
};
use antiphon_transport::{
    jitter,
    session::{Elicitations, OfSession, SharedSession},
};

use super::super::{
    local::{Events, primed},
    principal_of,
};

/// The time for which a loaded session record stays in memory. The SDK needs the record to restore the session.
const RESTORED: Duration = Duration::from_secs(10);

impl SessionManager for Sessions {
    type Error = Failure;
    type Transport = Marked;

    async fn create_session(&self) -> Result<(SessionId, Marked), Failure> {
        // The ID has 200 random bits, because the ID grants access to the session.
        let id: SessionId = std::iter::repeat_with(super::random_name).take(4).collect::<String>().into();
        Ok((Arc::clone(&id), self.open(id, None).await?))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Failure> {
        let part = self.find(id)?;
        let place = &part.log.place;
        let begun = match &message {
            ClientJsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::InitializeRequest(request)
                    if request.extensions.get::<SessionRestoreMarker>().is_none() =>
                {
                    let principal = principal_of(&*self.app, &request.extensions);
                    Some(SessionRecord {
                        params: request.params.clone(),
                        caller: caller(&place.name, principal.as_deref()),
                        level: None,
                        subscriptions: std::collections::BTreeMap::new(),
                        elicitations: Elicitations::new(),
                        groups: std::collections::BTreeSet::new(),
                        heard: false,
                        segment: 0,
                    })
                }
                _ => None,
            },
            _ => None,
        };
        let response = part.local.initialize_session(id, message).await?;
        if let Some(record) = begun
            && matches!(response, ServerJsonRpcMessage::Response(_))
        {
            place.create(&record).await?;
            part.began(record);
            let initialized = ClientNotification::InitializedNotification(InitializedNotification::default());
            self.initialized(&part, ClientJsonRpcMessage::notification(initialized)).await?;
        }
        Ok(response)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Failure> {
        Ok(self.part(&session_name(id)).is_some())
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Failure> {
        if let Some(part) = self.part(&session_name(id)) {
            self.close(&part).await;
        }
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failure> {
        let part = self.find(id)?;
        part.log.place.touch();
        message.insert_extension(OfSession(Arc::clone(&part) as Arc<dyn SharedSession>));
        // The stream is boxed, because the type of the stream borrows from the session part. The value of the stream
        // does not borrow from the session part.
        let events: Events = Box::pin(part.local.create_stream(id, message).await?);
        Ok(primed(events, part.primes()))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Failure> {
        let part = self.find(id)?;
        part.log.place.touch();
        let name = &part.log.place.name;
        if matches!(message, ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_)) {
            match answered(&message) {
                Some(asked) if asked.part.replica == self.replicas.id => self.answer(&part, message).await,
                Some(asked) => self.replicas.forward(name, &asked, &message).await?,
                None => tracing::debug!(
                    "a client's answer was dropped: its ID does not belong to a question of this server"
                ),
            }
            return Ok(());
        }
        let ClientJsonRpcMessage::Notification(notification) = &message else { return Ok(()) };
        match &notification.notification {
            ClientNotification::InitializedNotification(_) => self.initialized(&part, message).await,
            ClientNotification::CancelledNotification(cancelled) => {
                let request = cancelled.params.request_id.clone();
                part.local.accept_message(id, message).await?;
                let Some(request) = request else { return Ok(()) };
                Ok(self.replicas.tell(&News::Cancelled { session: name.clone(), request }).await?)
            }
            _ => Ok(part.local.accept_message(id, message).await?),
        }
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failure> {
        Ok(self.find(id)?.listen(jitter::reconnect()).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failure> {
        let part = self.find(id)?;
        let last: EventId = last.parse().map_err(|()| Failure::Unknown)?;
        part.resume(last, &self.app.lists()).await?.ok_or(Failure::Unknown)
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Marked>, Failure> {
        let name = session_name(&id);
        let read = lock(&self.read).remove(&name);
        let record = match read {
            Some((_, record)) => record,
            None => self.place(name).load().await?.ok_or(Failure::Unknown)?,
        };
        Ok(RestoreOutcome::Restored(self.open(id, Some(record)).await?))
    }
}

#[async_trait]
impl SessionStore for Sessions {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let name = session_name(id);
        let Some(record) = self.place(name.clone()).load().await? else { return Ok(None) };
        let state = SessionState::new(record.params.clone());
        let mut read = lock(&self.read);
        // If a client disconnects before its session is restored, the loaded record is not used. The server removes
        // unused records here.
        read.retain(|_, (at, _)| at.elapsed() < RESTORED);
        read.insert(name, (Instant::now(), record));
        Ok(Some(state))
    }

    async fn store(&self, _: &str, _: &SessionState) -> Result<(), SessionStoreError> {
        // `initialize_session` has already stored more data than this state contains.
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        Ok(self.replicas.end(&self.place(session_name(id))).await?)
    }
}
