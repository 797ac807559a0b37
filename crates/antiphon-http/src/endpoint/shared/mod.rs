//! The sessions of 2025-11-25 that replicas share.
//!
//! | where | name | what |
//! |---|---|---|
//! | record | `sessions/<session>` | what a session was begun with, and what its client has set |
//! | record | `replicas/<replica>` | that the replica is alive |
//! | record | `answers/<replica>/<random>` | an answer that came to another replica than asked |
//! | record | `pieces/<random>/<n>` | a part of something larger than one value |
//! | log | `events/<session>/<segment>` | what was sent in a session, all streams together |
//! | topic | `replicas/<replica>` | there is an answer for you |
//! | topic | `sessions` | a session has ended, or its settings changed, or a call is cancelled |
//! | topic | `events/<session>` | there is more in the log |
//!
//! `<session>` is a digest of the session's id: the id lets whoever has it in, and stays out of the backend.
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

/// The sessions that this process shares with its replicas. Give it to all endpoints of a server. Cloning it clones the
/// handle.
#[derive(Clone, Debug)]
pub struct SharedSessions(Arc<Replicas>);

impl SharedSessions {
    /// Shares sessions over a backend until `stopped` is cancelled.
    pub fn new(backend: &Backend, drain: &Drain, stopped: CancellationToken) -> Self {
        Self(Replicas::new(backend, drain, stopped))
    }

    /// Removes what has expired, together with what depends on it. Call it from time to time, at least every
    /// [`shortest_life`](Self::shortest_life).
    pub async fn clean_up(&self) {
        cleanup::clean_up(&self.0).await;
    }

    /// The shortest time after which something of a session can expire.
    pub fn shortest_life(&self) -> Duration {
        self.0.shortest_life()
    }

    /// Waits until the sessions of this process are closed, for 2 seconds at most.
    pub async fn ended(&self) {
        self.0.ended().await;
    }

    pub(super) fn replicas(&self) -> &Arc<Replicas> {
        &self.0
    }
}

/// This replica among the others.
pub(super) struct Replicas {
    id: String,
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    begun: OnceCell<()>,
    /// Is cancelled when the server takes nothing new.
    draining: CancellationToken,
    stopped: CancellationToken,
    /// Is cancelled when the sessions of this replica are closed.
    ended: CancellationToken,
    /// How many parts of sessions this replica has had.
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

    /// Returns when the sessions of this replica are closed, or could not be in time.
    async fn ended(&self) {
        if self.begun.initialized() {
            let _ = tokio::time::timeout(Duration::from_secs(2), self.ended.cancelled()).await;
        }
    }

    /// Shares sessions with the other replicas. Who serves none writes nothing to the store.
    async fn ready(self: &Arc<Self>) -> antiphon_store::Result<()> {
        self.begun.get_or_try_init(|| self.begin_sessions()).await.copied()
    }

    fn register(&self, sessions: &Arc<Sessions>) {
        lock(&self.sessions).push(Arc::downgrade(sessions));
    }

    /// The sessions of every router that is still there.
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

/// How long a replica's name is.
const NAME: usize = 10;

/// A name that nobody else has, of characters that read well in an id.
fn random_name() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0_u8; NAME];
    // Without randomness there is no security either; the seal fails the same way.
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

/// Text from outside as a segment of a name.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..18])
}
