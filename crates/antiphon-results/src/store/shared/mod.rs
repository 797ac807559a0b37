//! Stores result sets on a backend that all replicas share.
//!
//! The store uses these keys for each result set:
//!
//! - The record `results/sets/<id>` contains the result set, and after the removal its tombstone. Only the record
//!   `results/sets/<id>` decides whether the result set exists. One conditional write replaces the result set with its
//!   tombstone. The conditional write determines which call removed the result set, and why. A crash before the
//!   conditional write leaves the result set, and a crash after the conditional write leaves the tombstone.
//! - The record `results/ends/<id>` is the alarm. When the alarm expires, a clean-up checks whether the result set has
//!   expired.
//! - The log `results/rows/<id>` contains one entry for each row.
//!
//! The record `results/newest/<digest of a caller>` contains the ID of the caller's newest result set, and expires
//! after ten minutes.
//!
//! Invariant: rows exist only while the result set, its alarm or its tombstone exists. When the last of these three
//! records is removed, the rows are removed too. So the alarm of a result set is set before the first row is written,
//! and removed after the rows are removed.
//!
//! Invariant: a result set with an expiry time has an alarm that fires no later than the expiry time. So the alarm is
//! set before the result set is written. If a result set is extended, its alarm does not change. The alarm then fires
//! too early, and the clean-up sets the alarm again. If a crash or a wrong clock loses the alarm, the backend removes
//! the record one week after the expiry time of the result set.

mod again;
mod alarm;
mod clock;
mod lane;
mod newest;
mod record;
mod rows;

use std::{collections::HashMap, error::Error as StdError, sync::Arc, sync::Mutex, time::Duration};

use antiphon_store::{Backend, Revision, Store};
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use self::{
    again::{Attempts, random_name},
    clock::StoreClock,
    lane::Lanes,
    record::{Buried, Id, Kept, backstop, check_size},
};
use super::{Removal, Resource, ResourceStore, ResourceUpdate, TombstoneEntry};
use crate::{
    error::{DualResponseError, Result},
    rows::Rows,
};

/// The default lifetime of a tombstone.
const TOMBSTONES: Duration = Duration::from_secs(24 * 60 * 60);

/// A store of result sets that all replicas share, on PostgreSQL, Redis or NATS, through [`antiphon_store`].
///
/// - Updates of one result set that arrive during a write are written together, so that many reads cost few writes.
///   Each call to update a result set returns after its update is written.
/// - An update that has started completes even if its caller is cancelled.
/// - A resource has at most half a megabyte, and a row has at most half a megabyte. Only the backend limits the number
///   of rows in a result set.
/// - All records are under `results/` in the backend's space. Do not store other data under `results/`.
///
/// Clones of a `SharedStore` use the same backend. A `SharedStore` requires a Tokio runtime.
///
/// ```
/// use antiphon_results::store::{Resource, ResourceStore, SharedStore};
/// use antiphon_store::{Memory, QueueConfig};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> antiphon_results::Result<()> {
/// let store = SharedStore::new(Memory::default().backend(QueueConfig::default()));
/// let set = Resource::new("rs_1", "Colleges", chrono::Utc::now(), Duration::from_secs(900));
/// store.save(set.clone()).await?;
/// assert_eq!(store.get("rs_1").await?, Some(set));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SharedStore {
    shared: Arc<Shared>,
    tombstones: Duration,
}

#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    lanes: Lanes,
    /// Alarms of the result sets that the last clean-up found. If one of the result sets from the last clean-up is
    /// removed, its alarm is also removed.
    claimed: Mutex<HashMap<String, Revision>>,
    clock: StoreClock,
}

impl SharedStore {
    /// Creates a store on this backend. The store retries failed calls with
    /// [`Backend::retrying`](antiphon_store::Backend::retrying), so do not pass a backend that already retries.
    pub fn new(backend: Backend) -> Self {
        let shared = Shared {
            store: backend.retrying().store,
            lanes: Lanes::default(),
            claimed: Mutex::default(),
            clock: StoreClock::default(),
        };
        Self { shared: Arc::new(shared), tombstones: TOMBSTONES }
    }

    /// Sets how long the store keeps the tombstone of a removed result set. Default: 24 hours.
    #[must_use]
    pub fn with_tombstones(mut self, tombstones: Duration) -> Self {
        self.tombstones = tombstones;
        self
    }
}

impl Shared {
    async fn read(&self, id: Id<'_>) -> Result<Option<(Kept, Revision)>> {
        self.store.get(&id.set()).await.map_err(storage)?.as_ref().map(Kept::read).transpose()
    }

    async fn set(&self, id: Id<'_>) -> Result<Option<Resource>> {
        match self.read(id).await? {
            Some((Kept::Set(set), _)) => Ok(Some(set.resource)),
            _ => Ok(None),
        }
    }

    /// Writes a result set, and replaces any existing record of this result set.
    async fn put(&self, id: Id<'_>, resource: Resource) -> Result<()> {
        let key = id.set();
        let ttl = backstop(&resource, self.now());
        let value = Kept::new(resource).write()?;
        let mut attempts = Attempts::default();
        let mut written = self.store.create(&key, value.clone(), ttl).await;
        while let Err(error) = written {
            attempts.again(error).await?;
            written = match self.store.get(&key).await.map_err(storage)? {
                Some(record) => self.store.update(&key, value.clone(), ttl, record.revision).await,
                None => self.store.create(&key, value.clone(), ttl).await,
            };
        }
        Ok(())
    }

    /// Replaces a result set with a tombstone, and returns whether this call made the replacement.
    async fn bury(&self, id: Id<'_>, removal: Removal, ttl: Duration) -> Result<bool> {
        let by = random_name();
        let mut attempts = Attempts::default();
        loop {
            let (set, revision) = match self.read(id).await? {
                Some((Kept::Set(set), revision)) => (set, revision),
                // If the response to the write of this call was lost, the tombstone can be from this call.
                Some((Kept::Gone(gone), _)) => return Ok(gone.by == by),
                None => return Ok(false),
            };
            if let Removal::Expired { at } = removal
                && !set.resource.is_expired(at)
            {
                return Ok(false);
            }
            let gone = TombstoneEntry { tombstone: removal.into(), owner: set.resource.owner };
            let buried = Kept::Gone(Buried { gone, by: by.clone() }).write()?;
            match self.store.update(&id.set(), buried, Some(ttl), revision).await {
                Ok(_) => return Ok(true),
                Err(error) => attempts.again(error).await?,
            }
        }
    }
}

#[async_trait]
impl ResourceStore for SharedStore {
    async fn save(&self, resource: Resource) -> Result<String> {
        let name = resource.id.clone();
        let id = Id::made(&name)?;
        check_size(&resource)?;
        match resource.expires_at {
            None => self.shared.put(id, resource).await?,
            Some(end) => {
                let alarm = self.shared.wake_by(id, end).await?;
                self.shared.put(id, resource).await?;
                self.shared.wake_again(id, end, alarm).await?;
            }
        }
        Ok(name)
    }

    async fn get(&self, id: &str) -> Result<Option<Resource>> {
        match Id::new(id) {
            Some(id) => self.shared.set(id).await,
            None => Ok(None),
        }
    }

    async fn update(&self, id: &str, update: ResourceUpdate) -> Result<Option<Resource>> {
        let Some(id) = Id::new(id) else { return Ok(None) };
        let Some(Some(end)) = update.expires_at else { return self.shared.change(id, update).await };
        // Only an existing set gets an alarm.
        if self.shared.set(id).await?.is_none() {
            return Ok(None);
        }
        let alarm = self.shared.wake_by(id, end).await?;
        let changed = self.shared.change(id, update).await?;
        if changed.is_some() {
            self.shared.wake_again(id, end, alarm).await?;
        }
        Ok(changed)
    }

    async fn delete(&self, id: &str, removal: Removal) -> Result<bool> {
        let Some(id) = Id::new(id) else { return Ok(false) };
        let gone = self.shared.bury(id, removal, self.tombstones).await?;
        if gone && let Err(error) = self.shared.clear(id).await {
            // The set is removed. The alarm or the tombstone of the set later causes the removal of the remaining
            // records.
            tracing::warn!(
                error = &error as &dyn StdError,
                "the rows of a removed result set could not be deleted yet; a later clean-up deletes them"
            );
        }
        Ok(gone)
    }

    async fn find_expired(&self, at: DateTime<Utc>) -> Result<Vec<String>> {
        self.shared.find_expired(at).await
    }

    async fn tombstone(&self, id: &str) -> Result<Option<TombstoneEntry>> {
        let Some(id) = Id::new(id) else { return Ok(None) };
        match self.shared.read(id).await? {
            Some((Kept::Gone(buried), _)) => Ok(Some(buried.gone)),
            _ => Ok(None),
        }
    }

    async fn put_rows(&self, id: &str, rows: Rows) -> Result<()> {
        self.shared.put_rows(Id::made(id)?, &rows).await
    }

    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Rows> {
        match Id::new(id) {
            Some(id) => self.shared.rows(id, offset, limit).await,
            None => Ok(Rows::new()),
        }
    }

    async fn set_newest(&self, caller: &str, id: &str) -> Result<()> {
        self.shared.set_newest(caller, Id::made(id)?).await
    }

    async fn newest(&self, caller: &str) -> Result<Option<String>> {
        self.shared.newest(caller).await
    }

    async fn clock_difference(&self) -> TimeDelta {
        self.shared.clock_difference().await
    }

    fn is_shared(&self) -> bool {
        true
    }

    /// Does nothing, because the backend closes its connections when the last handle to the backend is dropped.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

fn storage(error: impl Into<crate::error::BoxError>) -> DualResponseError {
    DualResponseError::Storage(error.into())
}
