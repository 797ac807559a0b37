//! The state that all clones of a handle share, and the cache of opened snapshots.

mod clock;
mod footer;
mod known;
mod opened;
pub(crate) mod usage;

use std::sync::Arc;

use moka::future::Cache;
use tokio::sync::RwLock;

use self::{clock::StoreClock, usage::SharedUsage};
pub(crate) use self::{
    known::Known,
    opened::{Opened, Stored, StoredManifest, digest},
};
use crate::{
    config::SnapshotConfig,
    error::{Error, Result},
    store::Store,
};

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) config: SnapshotConfig,
    /// The cache of opened snapshots and views. The cache key is the folder of the snapshot or view.
    pub(crate) cache: Cache<String, Arc<Opened>>,
    /// The lock for intents. The exclusive lock is held while an intent is compared and deleted, because object stores
    /// have no conditional deletion. A new intent is written under the shared lock. The lock for intents does not
    /// apply to other processes. So a new writer in another process can lose its intent, and then gets an error.
    pub(crate) intents: RwLock<()>,
    usage: SharedUsage,
    clock: StoreClock,
    #[cfg(feature = "sql")]
    pub(crate) engine: crate::engine::Engine,
}

impl Inner {
    #[cfg_attr(
        not(feature = "sql"),
        expect(clippy::unnecessary_wraps, reason = "with the engine it can fail")
    )]
    pub(crate) fn new(store: Store, config: SnapshotConfig) -> Result<Self> {
        let weight = |_: &String, opened: &Arc<Opened>| u32::try_from(opened.weight()).unwrap_or(u32::MAX);
        let cache = Cache::builder()
            .max_capacity(config.cache_bytes)
            .weigher(weight)
            .time_to_idle(config.cache_idle)
            .build();
        Ok(Self {
            #[cfg(feature = "sql")]
            engine: crate::engine::Engine::new(&config)?,
            store,
            config,
            cache,
            intents: RwLock::new(()),
            usage: SharedUsage::default(),
            clock: StoreClock::default(),
        })
    }
}

/// Runs blocking work on tokio's blocking threads, and converts a panic into an error.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Broken(error.into()))?
}
