use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use super::{Removal, Resource, ResourceStore, ResourceUpdate, TombstoneEntry};
use crate::{error::Result, rows::Rows};

/// Maximum number of tombstones that the store keeps.
const REMEMBERED: usize = 10_000;

/// Time for which an expired resource is reserved for the caller that found it.
const CLAIM: TimeDelta = TimeDelta::minutes(1);

/// Maximum number of expired resources that one call of `find_expired` returns.
const BATCH: usize = 256;

/// Maximum time between the call that stores rows and the call that saves the resource of these rows.
const MAKING: Duration = Duration::from_secs(60 * 60);

/// A store of result sets in the memory of this process, for development and for a server without replicas.
#[derive(Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    kept: HashMap<String, Kept>,
    gone: HashMap<String, TombstoneEntry>,
    /// IDs in `gone`, the oldest first.
    order: VecDeque<String>,
}

struct Kept {
    /// Metadata of the result set, or `None` while only the rows are stored.
    resource: Option<Resource>,
    rows: Arc<Rows>,
    claimed_until: Option<DateTime<Utc>>,
    /// Time of the first write for this result set.
    since: Instant,
}

impl Default for Kept {
    fn default() -> Self {
        Self { resource: None, rows: Arc::default(), claimed_until: None, since: Instant::now() }
    }
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn remember(&mut self, id: &str, gone: TombstoneEntry) {
        if self.gone.insert(id.to_owned(), gone).is_none() {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.gone.remove(&oldest);
        }
    }
}

#[async_trait]
impl ResourceStore for MemoryStore {
    async fn save(&self, resource: Resource) -> Result<String> {
        let id = resource.id.clone();
        self.inner().kept.entry(id.clone()).or_default().resource = Some(resource);
        Ok(id)
    }

    async fn get(&self, id: &str) -> Result<Option<Resource>> {
        Ok(self.inner().kept.get(id).and_then(|kept| kept.resource.clone()))
    }

    async fn update(&self, id: &str, update: ResourceUpdate) -> Result<Option<Resource>> {
        let mut inner = self.inner();
        let Some(resource) = inner.kept.get_mut(id).and_then(|kept| kept.resource.as_mut()) else {
            return Ok(None);
        };
        Ok(update.apply(resource).then(|| resource.clone()))
    }

    async fn delete(&self, id: &str, removal: Removal) -> Result<bool> {
        let mut inner = self.inner();
        let Some(resource) = inner.kept.get(id).and_then(|kept| kept.resource.as_ref()) else {
            return Ok(false);
        };
        if let Removal::Expired { at } = removal
            && !resource.is_expired(at)
        {
            return Ok(false);
        }
        let gone = TombstoneEntry { tombstone: removal.into(), owner: resource.owner.clone() };
        inner.kept.remove(id);
        inner.remember(id, gone);
        Ok(true)
    }

    async fn find_expired(&self, at: DateTime<Utc>) -> Result<Vec<String>> {
        let mut inner = self.inner();
        // The call that stored these rows ended without saving their resource.
        inner.kept.retain(|_, kept| kept.resource.is_some() || kept.since.elapsed() < MAKING);
        let expired = inner.kept.iter_mut().filter(|(_, kept)| {
            kept.resource.as_ref().is_some_and(|resource| resource.is_expired(at))
                && kept.claimed_until.is_none_or(|end| end <= at)
        });
        Ok(expired
            .take(BATCH)
            .map(|(id, kept)| {
                kept.claimed_until = Some(at + CLAIM);
                id.clone()
            })
            .collect())
    }

    async fn tombstone(&self, id: &str) -> Result<Option<TombstoneEntry>> {
        let inner = self.inner();
        let is_there = inner.kept.get(id).is_some_and(|kept| kept.resource.is_some());
        Ok(inner.gone.get(id).cloned().filter(|_| !is_there))
    }

    async fn put_rows(&self, id: &str, rows: Rows) -> Result<()> {
        self.inner().kept.entry(id.to_owned()).or_default().rows = Arc::new(rows);
        Ok(())
    }

    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Rows> {
        // The lock is not held during the copy, so that other calls can run.
        let Some(rows) = self.inner().kept.get(id).map(|kept| Arc::clone(&kept.rows)) else {
            return Ok(Rows::new());
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(rows.slice(offset, limit))
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("kept", &self.inner().kept.len()).finish_non_exhaustive()
    }
}
