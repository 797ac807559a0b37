//! What a server shares with its replicas beside its tasks: changes, and the removal of what has expired.
//!
//! | where | name | what |
//! |---|---|---|
//! | record | `seal/…`, `step/…` | see [`durable`](crate::durable) |
//! | topic | `changes/<audience>` | a list or a resource has changed |
//!
//! Sessions are shared by `antiphon-http`, which has a table of its own.

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

/// The sessions that a transport shares with the other replicas.
pub(super) trait Sessions: Any + Send + Sync {
    /// After how long something of theirs has expired, at the earliest.
    fn shortest_life(&self) -> Duration;

    /// Removes what of them has expired.
    fn clean_up(&self) -> Pending<'_, ()>;

    /// Returns when those of this replica are closed, or could not be in time.
    fn ended(&self) -> Pending<'_, ()>;
}

/// This replica among the others.
pub(crate) struct Replicas {
    id: String,
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    /// The topic of changes.
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

    /// The sessions that a transport shares, if one can.
    pub(super) fn sessions(&self) -> Option<&dyn Sessions> {
        self.sessions.as_deref()
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

/// The topic of changes. Replicas of different versions must agree on it.
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
