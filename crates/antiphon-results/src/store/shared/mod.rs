//! Result sets on a store that replicas share.
//!
//! What there is of a result set:
//!
//! - `results/sets/<id>`, a record: the set, and after it what became of it. It is the authority. The one
//!   conditional write that replaces the set by its tombstone decides who has removed it and why; a crash
//!   before it leaves a live set, one after it a remembered one.
//! - `results/ends/<id>`, a record that expires: the alarm. It only wakes; whoever hears it looks at the set.
//! - `results/rows/<id>`, a log: an entry a row.
//!
//! Invariant: rows are there only while a set, an alarm or a tombstone is, and each of the three takes the
//! rows along when it goes. So the alarm is set before the first row, and removed after the last.
//!
//! Invariant: a set that ends has an alarm that goes off no later. So the alarm is set before the set is
//! written, and whoever makes a set end later leaves the alarm: it goes off early, and is set anew. Where a
//! crash or a clock has lost the alarm, the record of the set expires a week after the set.

mod again;
mod alarm;
mod lane;
mod record;
mod rows;

use std::{collections::HashMap, error::Error as StdError, sync::Arc, sync::Mutex, time::Duration};

use antiphon_store::{Backend, Revision, Store};
use async_trait::async_trait;
use chrono::{DateTime, Utc};

use self::{
    again::{Attempts, random_name},
    lane::Lanes,
    record::{Buried, Id, Kept, backstop, check_size},
};
use super::{Removal, Resource, ResourceStore, ResourceUpdate, TombstoneEntry};
use crate::{
    error::{DualResponseError, Result},
    rows::Rows,
};

/// How long it is remembered what became of a set, if nobody says.
const TOMBSTONES: Duration = Duration::from_secs(24 * 60 * 60);

/// Keeps result sets where all replicas see them: on PostgreSQL, Redis or NATS, by way of
/// [`antiphon_store`].
///
/// - Updates of one set that come while another is being written are written together, so that many reads
///   of one set cost few writes. Each caller is answered when what it changed is written.
/// - An update that has begun is made, even if the caller goes away.
/// - A resource has up to half a megabyte, and so has a row; the rows of a set may be as many as there is
///   room for.
/// - Everything is under `results/` in the backend's space; nothing else may be there.
///
/// Clones share the store. It needs a tokio runtime.
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
    /// The alarms of what the last clean-up was told of: whoever removes it can remove them, too.
    claimed: Mutex<HashMap<String, Revision>>,
}

impl SharedStore {
    /// Keeps result sets in this backend. Failed calls are retried ([`Backend::retrying`](antiphon_store::Backend::retrying)). Do not do that yourself.
    pub fn new(backend: Backend) -> Self {
        let shared =
            Shared { store: backend.retrying().store, lanes: Lanes::default(), claimed: Mutex::default() };
        Self { shared: Arc::new(shared), tombstones: TOMBSTONES }
    }

    /// Sets for how long it is remembered what became of a set. Default: 24 hours.
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

    /// Writes a set, whatever is there.
    async fn put(&self, id: Id<'_>, resource: Resource) -> Result<()> {
        let key = id.set();
        let ttl = backstop(&resource);
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

    /// Puts a tombstone in the place of a set, and says whether it was this call that did.
    async fn bury(&self, id: Id<'_>, removal: Removal, ttl: Duration) -> Result<bool> {
        let by = random_name();
        let mut attempts = Attempts::default();
        loop {
            let (set, revision) = match self.read(id).await? {
                Some((Kept::Set(set), revision)) => (set, revision),
                // Ours, if an answer was lost.
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
        // Only what is there gets an alarm.
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
            // It is gone, whatever is left of it: the alarm or the tombstone takes that along.
            tracing::warn!(
                error = &error as &dyn StdError,
                "the rows of a removed result set are still there"
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

    fn is_shared(&self) -> bool {
        true
    }

    /// Does nothing: the connections are the backend's, and go with the last handle on it.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

fn storage(error: impl Into<crate::error::BoxError>) -> DualResponseError {
    DualResponseError::Storage(error.into())
}
