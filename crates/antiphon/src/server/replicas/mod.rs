//! What a server shares with its replicas: changes, and the sessions of 2025-11-25.
//!
//! | where | name | what |
//! |---|---|---|
//! | record | `sessions/<session>` | what a session was begun with, and what its client has set |
//! | record | `replicas/<replica>` | that the replica is alive |
//! | record | `answers/<replica>/<random>` | an answer that came to another replica than asked |
//! | record | `seal/…`, `step/…` | see [`keep`](crate::keep) |
//! | record | `pieces/<random>/<n>` | a part of something larger than one value |
//! | log | `events/<session>/<segment>` | what was sent in a session, all streams together |
//! | topic | `replicas/<replica>` | there is an answer for you |
//! | topic | `sessions` | a session has ended, or its settings changed, or a call is cancelled |
//! | topic | `events/<session>` | there is more in the log |
//! | topic | `changes/<audience>` | a list or a resource has changed |
//!
//! `<session>` is a digest of the session's id: the id lets whoever has it in, and stays out of the backend.

#[cfg(feature = "http")]
mod alive;
mod announce;
mod cleanup;
#[cfg(feature = "http")]
mod forward;
#[cfg(feature = "http")]
mod ids;
#[cfg(feature = "http")]
mod log;
#[cfg(feature = "http")]
mod manager;
#[cfg(feature = "http")]
mod message;
#[cfg(feature = "http")]
mod news;
#[cfg(feature = "http")]
mod part;
#[cfg(feature = "http")]
mod record;
#[cfg(feature = "http")]
mod recorder;
#[cfg(feature = "http")]
mod sessions;
#[cfg(feature = "http")]
mod stream;
#[cfg(all(test, feature = "http"))]
mod tests;

#[cfg(feature = "http")]
use std::sync::{Mutex, Weak};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use antiphon_store::{Backend, Bus, Store};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, broadcast};
use tokio_util::sync::CancellationToken;

use self::announce::Outbox;
#[cfg(feature = "http")]
pub(crate) use self::part::Part;
#[cfg(feature = "http")]
pub(super) use self::sessions::Sessions;
use super::Drain;
#[cfg(feature = "http")]
use crate::base::lock;
use crate::changes::{Announce, Change, Told};

/// This replica among the others.
pub(crate) struct Replicas {
    id: String,
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    /// The topic of changes.
    topic: String,
    told: broadcast::Sender<Told>,
    outbox: Outbox,
    begun: OnceCell<()>,
    beginning: AtomicBool,
    #[cfg(feature = "http")]
    shares_sessions: OnceCell<()>,
    /// Is cancelled when the server takes nothing new.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has streams"))]
    draining: CancellationToken,
    stopped: CancellationToken,
    /// Is cancelled when the sessions of this replica are closed.
    #[cfg(feature = "http")]
    ended: CancellationToken,
    /// How many parts of sessions this replica has had.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has sessions"))]
    parts: AtomicU64,
    #[cfg(feature = "http")]
    sessions: Mutex<Vec<Weak<Sessions>>>,
}

impl Replicas {
    pub(super) fn new(
        backend: Backend,
        audience: &str,
        told: broadcast::Sender<Told>,
        drain: &Drain,
        stopped: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: random_name(),
            store: backend.store,
            bus: backend.bus,
            topic: format!("changes/{}", digest(&[audience])),
            told,
            outbox: Outbox::default(),
            begun: OnceCell::new(),
            beginning: AtomicBool::new(false),
            #[cfg(feature = "http")]
            shares_sessions: OnceCell::new(),
            draining: drain.draining.clone(),
            stopped,
            #[cfg(feature = "http")]
            ended: CancellationToken::new(),
            parts: AtomicU64::new(0),
            #[cfg(feature = "http")]
            sessions: Mutex::default(),
        })
    }

    /// Begins to listen to the other replicas, if there is a runtime to do it in.
    pub(crate) fn begin(self: &Arc<Self>) {
        if self.begun.initialized() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && !self.beginning.swap(true, Ordering::AcqRel)
        {
            let replicas = Arc::clone(self);
            runtime.spawn(async move {
                if let Err(error) = replicas.ready().await {
                    tracing::warn!(%error, "the other replicas cannot be listened to");
                }
                replicas.beginning.store(false, Ordering::Release);
            });
        }
    }

    /// Listens to the other replicas: no change they tell of from now on is missed.
    async fn ready(self: &Arc<Self>) -> antiphon_store::Result<()> {
        let begin = async || {
            self.begin_changes(self.subscribe_changes().await?);
            tokio::spawn(cleanup::clean_up(Arc::clone(self)));
            Ok(())
        };
        self.begun.get_or_try_init(begin).await.copied()
    }

    /// Returns when the sessions of this replica are closed, or could not be in time.
    #[cfg(feature = "http")]
    pub(super) async fn ended(&self) {
        if self.shares_sessions.initialized() {
            let _ = tokio::time::timeout(std::time::Duration::from_secs(2), self.ended.cancelled()).await;
        }
    }

    /// Shares sessions with the other replicas. Who serves none writes nothing to the store.
    #[cfg(feature = "http")]
    async fn ready_for_sessions(self: &Arc<Self>) -> antiphon_store::Result<()> {
        self.ready().await?;
        self.shares_sessions.get_or_try_init(|| self.begin_sessions()).await.copied()
    }

    #[cfg(feature = "http")]
    fn register(&self, sessions: &Arc<Sessions>) {
        lock(&self.sessions).push(Arc::downgrade(sessions));
    }

    /// The sessions of every router that is still there.
    #[cfg(feature = "http")]
    fn sessions(&self) -> Vec<Arc<Sessions>> {
        let mut sessions = lock(&self.sessions);
        sessions.retain(|router| router.strong_count() > 0);
        sessions.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Announce for Replicas {
    fn announce(self: Arc<Self>, change: Change) {
        self.outbox.put(change);
        Self::begin(&self);
    }

    fn begin(self: Arc<Self>) {
        Self::begin(&self);
    }
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
