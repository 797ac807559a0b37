//! The 2025-11-25 sessions of one HTTP route. Requests of 2025-11-25 sessions can arrive at any replica.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::Ordering},
    time::Duration,
};

use http::request::Parts;
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::streamable_http_server::session::{
        RestoreOutcome, SessionId, SessionManager as _,
        local::{LocalSessionManagerError, SessionConfig},
    },
};

use tokio::time::Instant;

use super::{
    LocalSession, Replicas,
    ids::{LocalSessionId, Marked, Numbered, answered, readdress},
    lock,
    log::EventId,
    record::{SessionRecord, SessionStorage, caller, session_name},
    recorder::StreamLimits,
};
use antiphon_transport::{
    drain::Counted,
    jitter,
    session::{OfSession, SharedSession},
};

use super::super::{Application, HttpConfig};

/// The time for which a session is kept after its last use, if sessions have no idle limit.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The sessions of one HTTP route, which begin at one replica and can continue at any other replica.
pub(crate) struct Sessions {
    pub(super) app: Arc<dyn Application>,
    pub(super) replicas: Arc<Replicas>,
    /// The session parts of this replica, by session name.
    parts: RwLock<HashMap<String, Arc<LocalSession>>>,
    /// The session records that this replica has loaded to restore their sessions.
    pub(super) read: Mutex<HashMap<String, (Instant, SessionRecord)>>,
    /// The locks that let only one request at a time restore a session, because the SDK rejects concurrent
    /// restorations.
    restoring: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    config: SessionConfig,
    limits: StreamLimits,
    ttl: Duration,
}

impl Sessions {
    pub(crate) fn new(app: Arc<dyn Application>, replicas: &Arc<Replicas>, config: &HttpConfig) -> Arc<Self> {
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = config.session_idle;
        let sessions = Arc::new(Self {
            app,
            replicas: Arc::clone(replicas),
            parts: RwLock::default(),
            read: Mutex::default(),
            restoring: Mutex::default(),
            config: session_config,
            limits: StreamLimits { events: config.stream_events, bytes: config.stream_bytes },
            // The TTL of the record is renewed after a third of the TTL. With a TTL of 1.5 times the idle limit, the
            // record exists at least for the idle limit.
            ttl: config.session_idle.unwrap_or(DAY) * 3 / 2,
        });
        replicas.register(&sessions);
        sessions
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn part(&self, name: &str) -> Option<Arc<LocalSession>> {
        self.parts.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn parts(&self) -> Vec<Arc<LocalSession>> {
        self.parts.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Returns the number of sessions that have a part at this replica.
    pub(crate) fn count(&self) -> usize {
        self.parts.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(super) fn find(&self, id: &SessionId) -> Result<Arc<LocalSession>, Failure> {
        self.part(&session_name(id)).ok_or(Failure::Unknown)
    }

    pub(super) fn place(&self, name: String) -> SessionStorage {
        SessionStorage::new(Arc::clone(&self.replicas), name, self.ttl)
    }

    /// Opens this replica's part of a session. The session may have begun at another replica.
    pub(super) async fn open(&self, id: SessionId, record: Option<SessionRecord>) -> Result<Marked, Failure> {
        let number = self.replicas.parts.fetch_add(1, Ordering::Relaxed);
        let part = LocalSessionId { replica: self.replicas.id.clone(), number };
        let place = self.place(session_name(&id));
        let name = place.name.clone();
        let mut config = self.config.clone();
        config.sse_retry = Some(jitter::reconnect());
        let opened = Arc::new(LocalSession::new(
            part.clone(),
            Arc::clone(&id),
            place,
            record.as_ref(),
            config,
            self.limits,
        ));
        let RestoreOutcome::Restored(inner) = opened.local.restore_session(id).await? else {
            return Err(Failure::Unknown);
        };
        self.parts.write().unwrap_or_else(PoisonError::into_inner).insert(name, opened);
        Ok(Marked { inner: Counted::session(inner, self.app.drain()), part })
    }

    /// Closes this replica's part of a session.
    pub(super) async fn close(&self, part: &Arc<LocalSession>) {
        let name = &part.log.place.name;
        {
            let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
            if parts.get(name).is_some_and(|open| Arc::ptr_eq(open, part)) {
                parts.remove(name);
            }
        }
        part.close().await;
    }

    /// Delivers an answer to the session part that sent the question. If the session part `part` did not send the
    /// question, the answer is dropped.
    pub(super) async fn answer(&self, part: &LocalSession, mut message: ClientJsonRpcMessage) {
        let Some(asked) = answered(&message).filter(|asked| asked.part == part.id) else {
            tracing::info!(
                "a client's answer was dropped: its ID does not belong to a question of its session"
            );
            return;
        };
        readdress(&mut message, asked.number);
        if let Err(error) = part.local.accept_message(&part.session, message).await {
            tracing::info!(%error, "a client's answer was dropped: the session did not accept it");
        }
    }

    /// Returns whether the sender of the request `parts` can use the session `id`. Callers that cannot use a session
    /// get the same response as for an unknown session.
    pub(crate) async fn admits(&self, id: &str, parts: &Parts) -> antiphon_store::Result<bool> {
        let name = session_name(id);
        let from = caller(&name, self.app.principal(parts).as_deref());
        let of = match self.part(&name) {
            Some(part) => part.caller().cloned(),
            None => match self.place(name).load().await? {
                Some(record) => record.caller,
                None => return Ok(false),
            },
        };
        Ok(of == from)
    }

    /// Returns a guard for the first request of a session at this replica. While the first request holds the guard,
    /// other requests of the same session wait. Requests of other sessions do not wait.
    pub(crate) async fn restoring(&self, id: &str) -> Option<Restoring<'_>> {
        let name = session_name(id);
        if self.part(&name).is_some() {
            return None;
        }
        let turn = Arc::clone(lock(&self.restoring).entry(name.clone()).or_default());
        let mut restoring = Restoring { sessions: self, name, held: None, turn: Arc::clone(&turn) };
        restoring.held = Some(turn.lock_owned().await);
        // If another request has restored the session during the wait, this request does not need the guard.
        self.part(&restoring.name).is_none().then_some(restoring)
    }

    #[cfg(test)]
    pub(super) fn restorations(&self) -> usize {
        lock(&self.restoring).len()
    }

    /// Returns whether the event ID `last` belongs to the stream of a request that this replica runs.
    pub(crate) fn holds(&self, last: &str) -> bool {
        let request = last.parse().ok().and_then(|last: EventId| last.stream.parse::<Numbered>().ok());
        request.is_some_and(|request| request.part.replica == self.replicas.id)
    }

    /// Starts to share sessions with the other replicas, and to receive their change notifications.
    pub(crate) async fn ready(&self) -> antiphon_store::Result<()> {
        self.app.hear_changes().await?;
        self.replicas.ready().await
    }

    pub(super) async fn initialized(
        &self,
        part: &Arc<LocalSession>,
        mut message: ClientJsonRpcMessage,
    ) -> Result<(), Failure> {
        // The client sends `notifications/initialized` to only one replica. But every part of the session must receive
        // this notification exactly once.
        if part.begins() {
            message.insert_extension(OfSession(Arc::clone(part) as Arc<dyn SharedSession>));
            part.local.accept_message(&part.session, message).await?;
        }
        Ok(())
    }
}

/// The exclusive right of one request to restore a session.
pub(crate) struct Restoring<'a> {
    sessions: &'a Sessions,
    name: String,
    held: Option<tokio::sync::OwnedMutexGuard<()>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Drop for Restoring<'_> {
    fn drop(&mut self) {
        self.held = None;
        let mut restoring = lock(&self.sessions.restoring);
        // If only two references remain (in the map and in this guard), no other request waits.
        if Arc::strong_count(&self.turn) == 2 {
            restoring.remove(&self.name);
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("replicas", &self.replicas).finish_non_exhaustive()
    }
}

/// The error of a session operation, in the form that the SDK requires.
#[derive(Debug)]
pub(crate) enum Failure {
    Unknown,
    Local(LocalSessionManagerError),
    Store(antiphon_store::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such session or stream"),
            Self::Local(_) => f.write_str("the session failed"),
            Self::Store(_) => f.write_str("the backend that replicas share cannot be reached"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unknown => None,
            Self::Local(error) => Some(error),
            Self::Store(error) => Some(error),
        }
    }
}

impl From<LocalSessionManagerError> for Failure {
    fn from(error: LocalSessionManagerError) -> Self {
        Self::Local(error)
    }
}

impl From<antiphon_store::Error> for Failure {
    fn from(error: antiphon_store::Error) -> Self {
        Self::Store(error)
    }
}
