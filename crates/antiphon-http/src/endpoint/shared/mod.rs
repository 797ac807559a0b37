//! The MCP 2025-11-25 sessions that replicas share, and the data in the backend:
//!
//! | kind | name | content |
//! |---|---|---|
//! | record | `sessions/<session>` | the parameters and the settings of a session |
//! | record | `replicas/<replica>` | the heartbeat of a replica |
//! | record | `answers/<replica>/<random>` | an answer that did not arrive at the replica that sent the question |
//! | record | `pieces/<random>/<n>` | a part of a value that is too large for one record |
//! | log | `events/<session>/<segment>` | the messages that were sent in a session, from all streams |
//! | topic | `replicas/<replica>` | a notification that an answer waits for this replica |
//! | topic | `sessions` | a notification that a session has ended, its settings have changed, its client listens at another replica, or a call is cancelled |
//! | topic | `events/<session>` | a notification that the log has new entries |
//!
//! `<session>` is a digest of the session ID. The backend does not contain the session ID itself, because the ID
//! grants access to the session.
#![expect(deprecated, reason = "logging is deprecated in 2026-07-28 and served until it is removed")]

mod alive;
mod cleanup;
mod forward;
mod ids;
mod local_session;
mod log;
mod manager;
mod message;
mod news;
mod record;
mod recorder;
mod sessions;
mod stream;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicU64},
    time::Duration,
};

use antiphon_store::{Backend, Bus, Store};
use antiphon_transport::drain::Drain;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use self::local_session::LocalSession;
pub(super) use self::sessions::Sessions;

/// The MCP 2025-11-25 sessions that this process shares with other replicas. Use the same `SharedSessions` for all
/// endpoints of a server. Each clone of a `SharedSessions` is a handle to the same sessions.
#[derive(Clone, Debug)]
pub struct SharedSessions(Arc<Replicas>);

impl SharedSessions {
    /// Shares sessions with other replicas over `backend`, until the token `stopped` is cancelled.
    pub fn new(backend: &Backend, drain: &Drain, stopped: CancellationToken) -> Self {
        Self(Replicas::new(backend, drain, stopped))
    }

    /// Removes expired session records and their data from the backend. Call `clean_up` periodically. The interval
    /// between two calls must not be longer than [`shortest_life`](Self::shortest_life).
    pub async fn clean_up(&self) {
        cleanup::clean_up(&self.0).await;
    }

    /// Returns the shortest lifetime of the records that this process writes.
    pub fn shortest_life(&self) -> Duration {
        self.0.shortest_life()
    }

    /// Waits until all sessions in this process are closed. `ended` waits for at most 2 seconds.
    pub async fn ended(&self) {
        self.0.ended().await;
    }

    pub(super) fn replicas(&self) -> &Arc<Replicas> {
        &self.0
    }
}

/// The connection of this replica to the other replicas.
pub(super) struct Replicas {
    id: String,
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    begun: OnceCell<()>,
    /// The token that is cancelled when the server stops accepting requests.
    draining: CancellationToken,
    stopped: CancellationToken,
    /// The token that is cancelled when all sessions of this replica are closed.
    ended: CancellationToken,
    /// The number of session parts that this replica has created.
    parts: AtomicU64,
    sessions: Mutex<Vec<Weak<Sessions>>>,
}

impl Replicas {
    fn new(backend: &Backend, drain: &Drain, stopped: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            id: random_name(),
            store: Arc::clone(&backend.store),
            bus: Arc::clone(&backend.bus),
            begun: OnceCell::new(),
            draining: drain.draining.clone(),
            stopped,
            ended: CancellationToken::new(),
            parts: AtomicU64::new(0),
            sessions: Mutex::default(),
        })
    }

    /// Waits until all sessions of this replica are closed, or until a timeout.
    async fn ended(&self) {
        if self.begun.initialized() {
            let _ = tokio::time::timeout(Duration::from_secs(2), self.ended.cancelled()).await;
        }
    }

    /// Starts to share sessions with the other replicas. Before the first call of `ready`, the replica writes nothing
    /// to the store.
    async fn ready(self: &Arc<Self>) -> antiphon_store::Result<()> {
        self.begun.get_or_try_init(|| self.begin_sessions()).await.copied()
    }

    fn register(&self, sessions: &Arc<Sessions>) {
        lock(&self.sessions).push(Arc::downgrade(sessions));
    }

    /// Returns the sessions of every router that still exists.
    fn sessions(&self) -> Vec<Arc<Sessions>> {
        let mut sessions = lock(&self.sessions);
        sessions.retain(|router| router.strong_count() > 0);
        sessions.iter().filter_map(Weak::upgrade).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The length of a replica's name, in characters.
const NAME: usize = 10;

/// Returns a unique random name for a replica or a listener. The name contains only characters that are easy to
/// distinguish.
fn random_name() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0_u8; NAME];
    // If the system has no random numbers, the server cannot be secure. The encryption of sealed states panics in this
    // case too.
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

/// Returns a digest of `parts`, which can come from a client. The digest is always a valid segment of a name in the
/// store.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..18])
}
