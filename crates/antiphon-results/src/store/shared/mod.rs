//! Result sets in a store that replicas share.
//!
//! Keys of a result set:
//!
//! - `results/sets/<id>`, a record: the set, and later its tombstone. This record is authoritative. One conditional
//!   write replaces the set with its tombstone. This write determines which call removed the set, and why. A crash
//!   before this write leaves the set, and a crash after this write leaves the tombstone.
//! - `results/ends/<id>`, a record that expires: the alarm. The alarm only triggers a check of the set.
//! - `results/rows/<id>`, a log with one entry for each row.
//!
//! `results/newest/<digest of a caller>` is a record that expires: the ID of the caller's newest set.
//!
//! Invariant: rows exist only while a set, an alarm or a tombstone exists, and the last of the three removes the rows.
//! So the alarm is set before the first row is written, and removed after the rows are removed.
//!
//! Invariant: a set with an expiry time has an alarm that fires no later than the expiry time. So the alarm is set
//! before the set is written. If a set is extended, the alarm stays, fires early, and is set again. If a crash or a
//! wrong clock loses the alarm, the record of the set expires one week after the set.

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
/// - Updates of one set that arrive during a write are written together, so that many reads of one set cost few
///   writes. Each call returns after its update is written.
/// - After an update has started, it completes even if its caller is cancelled.
/// - The maximum size of a resource is half a megabyte, and so is the maximum size of a row. Only the backend limits
///   the number of rows.
/// - All records are under `results/` in the backend's space. Do not store other data under `results/`.
///
/// Clones share the store. The store requires a tokio runtime.
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
    /// Alarms of the sets that the last clean-up found. If one of these sets is removed, its alarm is removed too.
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

    /// Sets how long the store keeps the tombstone of a removed set. Default: 24 hours.
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

    /// Writes a set, and replaces any existing record.
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

    /// Replaces a set with a tombstone, and returns whether this call made the replacement.
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
            // The set is removed. Its alarm or its tombstone removes the remaining records later.
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

    /// Does nothing. The backend owns the connections, and closes them when its last handle is dropped.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

fn storage(error: impl Into<crate::error::BoxError>) -> DualResponseError {
    DualResponseError::Storage(error.into())
}
