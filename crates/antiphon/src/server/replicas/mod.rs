//! The work that replicas share, in addition to tasks: they announce changes to each other, and remove expired records.
//!
//! | kind | name | content |
//! |---|---|---|
//! | record | `seal/…`, `step/…` | see [`durable`](crate::durable) |
//! | record | `groups/…` | see `run/groups.rs` |
//! | topic | `changes/<audience>` | a notification that a list or a resource has changed |
//!
//! The crate `antiphon-http` stores the sessions that replicas share. The documentation of `antiphon-http` contains a
//! table of the session records.

mod announce;
mod cleanup;

use std::{
    any::Any,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use antiphon_store::{Backend, Bus, Store};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, broadcast};
use tokio_util::sync::CancellationToken;

use self::announce::Outbox;
use crate::{
    base::random_id,
    changes::{Announce, Change, ChangeNotice},
    run::Pending,
};

/// The HTTP sessions, which a transport shares with the other replicas.
pub(super) trait Sessions: Any + Send + Sync {
    /// Returns the shortest lifetime of the session records.
    fn shortest_life(&self) -> Duration;

    /// Removes expired session records.
    fn clean_up(&self) -> Pending<'_, ()>;

    /// Waits until this replica has closed all its sessions, or until a timeout.
    fn ended(&self) -> Pending<'_, ()>;
}

/// The connection of this replica to the other replicas.
pub(crate) struct Replicas {
    id: String,
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    /// The topic on which changes are announced.
    topic: String,
    told: broadcast::Sender<ChangeNotice>,
    outbox: Outbox,
    begun: OnceCell<()>,
    beginning: AtomicBool,
    stopped: CancellationToken,
    sessions: Option<Box<dyn Sessions>>,
}

impl Replicas {
    pub(super) fn new(
        backend: &Backend,
        audience: &str,
        told: broadcast::Sender<ChangeNotice>,
        stopped: CancellationToken,
        sessions: Option<Box<dyn Sessions>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: random_id(),
            store: Arc::clone(&backend.store),
            bus: Arc::clone(&backend.bus),
            topic: topic(audience),
            told,
            outbox: Outbox::default(),
            begun: OnceCell::new(),
            beginning: AtomicBool::new(false),
            stopped,
            sessions,
        })
    }

    /// Returns the HTTP sessions, or `None` if no transport shares sessions with other replicas.
    pub(super) fn sessions(&self) -> Option<&dyn Sessions> {
        self.sessions.as_deref()
    }

    /// Starts to receive announcements from the other replicas, if a Tokio runtime is available.
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
                    tracing::warn!(%error, "the subscription to changes of the other replicas failed");
                }
                replicas.beginning.store(false, Ordering::Release);
            });
        }
    }

    /// Starts to receive announcements from the other replicas. After this method returns, this replica receives all
    /// later announcements.
    pub(super) async fn ready(self: &Arc<Self>) -> antiphon_store::Result<()> {
        let begin = async || {
            self.begin_changes(self.subscribe_changes().await?);
            tokio::spawn(cleanup::clean_up(Arc::clone(self)));
            Ok(())
        };
        self.begun.get_or_try_init(begin).await.copied()
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

/// Returns the topic on which changes are announced. Replicas of different versions must use the same topic.
fn topic(audience: &str) -> String {
    let mut hash = Sha256::new();
    hash.update((audience.len() as u64).to_le_bytes());
    hash.update(audience);
    format!("changes/{}", URL_SAFE_NO_PAD.encode(&hash.finalize()[..18]))
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("id", &self.id).finish_non_exhaustive()
    }
}
