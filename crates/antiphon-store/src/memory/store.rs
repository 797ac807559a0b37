use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    error::{Error, Result},
    name,
    store::{Cursor, Page, Record, Revision, Store, check_entries, check_value},
};

/// A [`Store`] in the memory of this process. Clones of a `MemoryStore` share the data.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<String, Kept>,
    /// The keys of the records, ordered by the time from which a record can be claimed. Invariant: the set contains
    /// `(kept.due, key)` for every record with a `due`.
    due: BTreeSet<(Instant, String)>,
    logs: BTreeMap<String, Vec<Bytes>>,
    revision: u64,
}

#[derive(Debug)]
struct Kept {
    value: Bytes,
    revision: Revision,
    expires: Option<Instant>,
    /// The time at which the record, or the claim on the record, expires.
    due: Option<Instant>,
}

impl Kept {
    fn is_live(&self) -> bool {
        self.expires.is_none_or(|expires| Instant::now() < expires)
    }
}

impl State {
    fn live(&self, key: &str) -> Option<&Kept> {
        self.records.get(key).filter(|kept| kept.is_live())
    }

    fn write(&mut self, key: &str, value: Bytes, ttl: Option<Duration>) -> Revision {
        self.remove(key);
        self.revision += 1;
        let revision = Revision(self.revision);
        // If the time is too far in the future for an `Instant`, the record never expires.
        let expires = ttl.and_then(|ttl| Instant::now().checked_add(ttl));
        if let Some(due) = expires {
            self.due.insert((due, key.to_owned()));
        }
        self.records.insert(key.to_owned(), Kept { value, revision, expires, due: expires });
        revision
    }

    /// Returns the expired and unclaimed records under `prefix`.
    fn due(&self, prefix: &str, limit: usize) -> Vec<(Instant, String)> {
        let now = Instant::now();
        let due = self.due.iter().take_while(|(due, _)| *due <= now);
        due.filter(|(_, key)| key.starts_with(prefix)).take(limit).cloned().collect()
    }

    fn remove(&mut self, key: &str) {
        if let Some(due) = self.records.remove(key).and_then(|kept| kept.due) {
            self.due.remove(&(due, key.to_owned()));
        }
    }
}

impl MemoryStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn conflict(key: &str) -> Error {
    Error::Conflict { key: key.to_owned() }
}

#[async_trait]
impl Store for MemoryStore {
    fn is_shared(&self) -> bool {
        false
    }

    async fn get(&self, key: &str) -> Result<Option<Record>> {
        name::check(key)?;
        Ok(self.state().live(key).map(|kept| Record::new(key, kept.value.clone(), kept.revision)))
    }

    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        name::check(key)?;
        check_value(value.len())?;
        let mut state = self.state();
        if state.live(key).is_some() { Err(conflict(key)) } else { Ok(state.write(key, value, ttl)) }
    }

    async fn update(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        revision: Revision,
    ) -> Result<Revision> {
        name::check(key)?;
        check_value(value.len())?;
        let mut state = self.state();
        match state.live(key) {
            Some(kept) if kept.revision == revision => Ok(state.write(key, value, ttl)),
            _ => Err(conflict(key)),
        }
    }

    async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
        name::check(key)?;
        let mut state = self.state();
        match state.records.get(key) {
            Some(kept) if kept.revision == revision => {
                state.remove(key);
                Ok(())
            }
            _ => Err(conflict(key)),
        }
    }

    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
        name::check_prefix(prefix)?;
        let state = self.state();
        let start = match after {
            Some(cursor) => Bound::Excluded(cursor.0.as_str()),
            None => Bound::Included(prefix),
        };
        let mut items = Vec::new();
        let mut next = None;
        for (key, kept) in state.records.range::<str, _>((start, Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            if !kept.is_live() {
                continue;
            }
            if items.len() == limit {
                next = items.last().map(|last: &Record| Cursor(last.key.clone()));
                break;
            }
            items.push(Record::new(key, kept.value.clone(), kept.revision));
        }
        Ok(Page { items, next })
    }

    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        name::check_prefix(prefix)?;
        let mut state = self.state();
        let due = state.due(prefix, limit);
        let lapses = Instant::now() + lease;
        let mut claimed = Vec::with_capacity(due.len());
        for (due, key) in due {
            state.due.remove(&(due, key.clone()));
            state.due.insert((lapses, key.clone()));
            let kept = state.records.get_mut(&key).expect("a due record exists");
            kept.due = Some(lapses);
            claimed.push(Record::new(key, kept.value.clone(), kept.revision));
        }
        Ok(claimed)
    }

    async fn remove_expired(&self, prefix: &str, limit: usize) -> Result<usize> {
        name::check_prefix(prefix)?;
        let mut state = self.state();
        let due = state.due(prefix, limit);
        for (_, key) in &due {
            state.remove(key);
        }
        Ok(due.len())
    }

    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
        name::check(log)?;
        check_entries(&entries)?;
        let mut state = self.state();
        let found = state.logs.get(log).map_or(0, Vec::len) as u64;
        if found != at {
            return Err(Error::LogConflict { log: log.to_owned(), expected: at, found });
        }
        if !entries.is_empty() {
            state.logs.entry(log.to_owned()).or_default().extend(entries.iter().cloned());
        }
        Ok(found + entries.len() as u64)
    }

    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        name::check(log)?;
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let state = self.state();
        let entries = state.logs.get(log).map_or(&[][..], Vec::as_slice);
        Ok(entries.iter().skip(from).take(limit).cloned().collect())
    }

    async fn delete_log(&self, log: &str) -> Result<()> {
        name::check(log)?;
        self.state().logs.remove(log);
        Ok(())
    }
}
