//! A store with a fault.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Mutex,
    time::{Duration, SystemTime},
};

use antiphon_store::{
    Cursor, ENTRY_COST, Error, MAX_VALUE, MemoryStore, Page, Record, Result, Revision, Store,
};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::{task::yield_now, time::sleep};

use super::{
    backend::{Broken, lock},
    fault::Fault,
};

/// What faults remember of a store.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// What was read or written last under a key.
    seen: Mutex<HashMap<String, Record>>,
    /// How long a key was first to live.
    ttls: Mutex<HashMap<String, Option<Duration>>>,
    /// Which revisions were claimed.
    claimed: Mutex<HashSet<u64>>,
    /// The records that are claimed.
    held: Mutex<Vec<Record>>,
    /// How many places were used up by logs that have been deleted.
    places: Mutex<HashMap<String, u64>>,
}

/// Long enough for whoever races to have looked, too.
const BETWEEN: Duration = Duration::from_millis(1);

impl Broken {
    fn store(&self) -> MemoryStore {
        self.space.memory.store()
    }

    /// Writes whatever is there.
    async fn put(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        match self.store().get(key).await? {
            Some(record) => self.store().update(key, value, ttl, record.revision).await,
            None => self.store().create(key, value, ttl).await,
        }
    }

    /// The revision a record really is at, where `revision` was made from its value.
    async fn undigested(&self, key: &str, revision: Revision) -> Result<Revision> {
        let record = self.store().get(key).await?;
        let same = record.filter(|record| digest(&record.value) == revision);
        Ok(same.map_or(Revision(0), |record| record.revision))
    }

    fn note(&self, key: &str, value: &Bytes, ttl: Option<Duration>, revision: Revision) {
        let record = Record::new(key, value.clone(), revision);
        lock(&self.own.seen).insert(key.to_owned(), record.clone());
        lock(&self.space.store.seen).insert(key.to_owned(), record);
        lock(&self.space.store.ttls).entry(key.to_owned()).or_insert(ttl);
    }
}

fn digest(value: &Bytes) -> Revision {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    Revision(hasher.finish())
}

fn mistaken(record: Record) -> Record {
    Record::new(record.key, record.value, Revision(record.revision.0 + 1_000_000))
}

fn is_conflict<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Conflict { .. } | Error::LogConflict { .. }))
}

#[async_trait]
impl Store for Broken {
    async fn now(&self) -> Result<SystemTime> {
        match self.fault {
            Some(Fault::ClockStandsStill) => Ok(SystemTime::UNIX_EPOCH),
            _ => self.store().now().await,
        }
    }

    async fn get(&self, key: &str) -> Result<Option<Record>> {
        let key = &self.name(key);
        if self.has(Fault::OpeningsRemember)
            && let Some(record) = lock(&self.own.seen).get(key)
        {
            return Ok(Some(record.clone()));
        }
        let found = self.store().get(key).await?;
        match self.fault {
            Some(Fault::ReadsInvent) => {
                Ok(Some(found.unwrap_or_else(|| Record::new(key, Bytes::new(), Revision(0)))))
            }
            Some(Fault::ReadsMistakeTheRevision) => Ok(found.map(mistaken)),
            Some(Fault::EmptyIsNothing) => Ok(found.filter(|record| !record.value.is_empty())),
            _ => Ok(found),
        }
    }

    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        let (key, value) = (&self.name(key), self.bytes(value, MAX_VALUE)?);
        let created = match self.fault {
            Some(Fault::CreateLooksThenWrites) if self.store().get(key).await?.is_none() => {
                sleep(BETWEEN).await;
                self.put(key, value.clone(), ttl).await
            }
            Some(Fault::CreateOverwrites) => self.put(key, value.clone(), ttl).await,
            Some(Fault::ExpiredIsInTheWay) if lock(&self.space.store.seen).contains_key(key) => {
                Err(Error::Conflict { key: key.clone() })
            }
            Some(Fault::RevisionsAreDigests) => {
                self.store().create(key, value.clone(), ttl).await.map(|_| digest(&value))
            }
            _ => self.store().create(key, value.clone(), ttl).await,
        }?;
        self.note(key, &value, ttl, created);
        Ok(created)
    }

    async fn update(&self, key: &str, value: Bytes, ttl: Option<Duration>, at: Revision) -> Result<Revision> {
        let (key, mut value) = (&self.name(key), self.bytes(value, MAX_VALUE)?);
        let mut ttl = ttl;
        match self.fault {
            Some(Fault::UpdateKeepsTheTimeToLive) => ttl = lock(&self.space.store.ttls)[key],
            Some(Fault::UpdateKeepsTheValue) => {
                value = self.store().get(key).await?.map_or(value, |record| record.value);
            }
            _ => {}
        }
        let updated = match self.fault {
            Some(Fault::UpdateLooksThenWrites)
                if self.store().get(key).await?.is_some_and(|record| record.revision == at) =>
            {
                sleep(BETWEEN).await;
                self.put(key, value.clone(), ttl).await
            }
            Some(Fault::RevisionsAreDigests) => {
                let at = self.undigested(key, at).await?;
                self.store().update(key, value.clone(), ttl, at).await.map(|_| digest(&value))
            }
            _ => self.store().update(key, value.clone(), ttl, at).await,
        };
        let there = self.store().get(key).await?.is_some();
        let updated = match self.fault {
            Some(Fault::UpdateCreates) if !there => self.put(key, value.clone(), ttl).await,
            Some(Fault::UpdateIgnoresTheRevision) if there && is_conflict(&updated) => {
                self.put(key, value.clone(), ttl).await
            }
            _ => updated,
        }?;
        self.note(key, &value, ttl, updated);
        Ok(updated)
    }

    async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
        let key = &self.name(key);
        let there = self.store().get(key).await?;
        match self.fault {
            Some(Fault::DeleteDoesNothing) if there.is_some() => return Ok(()),
            Some(Fault::DeleteOfNothingSucceeds) if there.is_none() => return Ok(()),
            Some(Fault::DeleteTakesTheLogAlong) => self.store().delete_log(key).await?,
            _ => {}
        }
        let revision = match (self.fault, there) {
            (Some(Fault::DeleteIgnoresTheRevision), Some(record)) => record.revision,
            (Some(Fault::RevisionsAreDigests), _) => self.undigested(key, revision).await?,
            _ => revision,
        };
        self.store().delete(key, revision).await?;
        lock(&self.own.seen).remove(key);
        lock(&self.space.store.seen).remove(key);
        Ok(())
    }

    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
        let limit = self.limit(limit);
        match self.fault {
            Some(Fault::PrefixesAreLetters) => {
                let mut page = self.store().list("", after, limit).await?;
                page.items.retain(|record| record.key.starts_with(prefix.trim_end_matches('/')));
                return Ok(page);
            }
            Some(Fault::PagesAreCounted) => {
                let from = after.map_or(0, |cursor| cursor.0.parse().expect("we made it"));
                let all = self.store().list(prefix, None, usize::MAX).await?.items;
                let next = (all.len() > from + limit).then(|| Cursor((from + limit).to_string()));
                return Ok(Page { items: all.into_iter().skip(from).take(limit).collect(), next });
            }
            Some(Fault::ExpiredIsListed) => {
                let items = lock(&self.space.store.seen).values().cloned().collect();
                return Ok(Page { items, next: None });
            }
            _ => {}
        }
        let mut page = self.store().list(prefix, after, limit).await?;
        match self.fault {
            Some(Fault::PagesLoseTheirLast) if page.next.is_some() => drop(page.items.pop()),
            // A page of one would never come to an end.
            Some(Fault::PagesOverlap) if page.next.is_some() && limit > 1 => {
                page.next = Some(Cursor(page.items[limit - 2].key.clone()));
            }
            Some(Fault::ListingMistakesTheRevision) => {
                page.items = page.items.into_iter().map(mistaken).collect();
            }
            _ => {}
        }
        Ok(page)
    }

    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        let limit = self.limit(limit);
        match self.fault {
            Some(Fault::LiveIsClaimed) => Ok(self.store().list(prefix, None, limit).await?.items),
            Some(Fault::PrefixesAreLetters) => {
                let mut claimed = self.store().claim_expired("", lease, limit).await?;
                claimed.retain(|record| record.key.starts_with(prefix.trim_end_matches('/')));
                Ok(claimed)
            }
            Some(Fault::ClaimsAreForgotten) => {
                let mut claimed = self.store().claim_expired(prefix, Duration::ZERO, usize::MAX).await?;
                claimed.retain(|record| !lock(&self.own.claimed).contains(&record.revision.0));
                claimed.truncate(limit);
                lock(&self.own.claimed).extend(claimed.iter().map(|record| record.revision.0));
                Ok(claimed)
            }
            Some(Fault::ClaimsNeverLapse) => {
                self.store().claim_expired(prefix, lease * 1_000_000, limit).await
            }
            Some(Fault::ClaimsWrite) => {
                let mut claimed = self.store().claim_expired(prefix, lease, limit).await?;
                for record in &mut claimed {
                    let value = record.value.clone();
                    record.revision = self.store().create(&record.key, value, Some(lease)).await?;
                }
                Ok(claimed)
            }
            Some(Fault::RemovalIgnoresClaims) => {
                let claimed = self.store().claim_expired(prefix, lease, limit).await?;
                lock(&self.space.store.held).extend(claimed.iter().cloned());
                Ok(claimed)
            }
            _ => self.store().claim_expired(prefix, lease, limit).await,
        }
    }

    async fn remove_expired(&self, prefix: &str, limit: usize) -> Result<usize> {
        let limit = self.limit(limit);
        match self.fault {
            Some(Fault::RemovalDoesNothing) => Ok(0),
            Some(Fault::RemovalTakesTheLiving) => {
                let live = self.store().list(prefix, None, limit).await?.items;
                for record in &live {
                    self.store().delete(&record.key, record.revision).await?;
                }
                Ok(live.len())
            }
            Some(Fault::RemovalIgnoresClaims) => {
                let claimed = std::mem::take(&mut *lock(&self.space.store.held));
                for record in &claimed {
                    self.store().delete(&record.key, record.revision).await?;
                }
                Ok(claimed.len())
            }
            Some(Fault::PrefixesAreLetters) => self.store().remove_expired("", limit).await,
            _ => self.store().remove_expired(prefix, limit).await,
        }
    }

    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
        let log = &self.name(log);
        let mut left = MAX_VALUE;
        let mut kept = Vec::new();
        for entry in entries {
            if self.has(Fault::LargeIsCut) && left < ENTRY_COST {
                break;
            }
            let entry = self.bytes(entry, left.saturating_sub(ENTRY_COST))?;
            left = left.saturating_sub(entry.len() + ENTRY_COST);
            kept.push(entry);
        }
        let entries = kept;
        match self.fault {
            Some(Fault::AppendIsOneByOne) => {
                let mut length = at;
                for entry in entries {
                    length = self.store().append(log, length, vec![entry]).await?;
                    yield_now().await;
                }
                return Ok(length);
            }
            Some(Fault::DeletedLogKeepsItsPlaces) => {
                let used = lock(&self.space.store.places).get(log).copied().unwrap_or(0);
                return Ok(used + self.store().append(log, at.saturating_sub(used), entries).await?);
            }
            _ => {}
        }
        let appended = self.store().append(log, at, entries.clone()).await;
        match (self.fault, appended) {
            (Some(Fault::AppendIgnoresItsPlace), Err(Error::LogConflict { found, .. })) => {
                self.store().append(log, found, entries).await
            }
            (Some(Fault::AppendHidesTheLength), Err(Error::LogConflict { log, expected, .. })) => {
                Err(Error::LogConflict { log, expected, found: expected })
            }
            (_, appended) => appended,
        }
    }

    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        let log = &self.name(log);
        let mut entries = self.store().read(log, from, self.limit(limit)).await?;
        match self.fault {
            Some(Fault::AbsentLogIsAnError) if entries.is_empty() => {
                return Err(Error::backend("a broken store", "there is no such log"));
            }
            Some(Fault::LogsAreReadBackwards) => entries.reverse(),
            Some(Fault::EmptyIsNothing) => entries.retain(|entry| !entry.is_empty()),
            _ => {}
        }
        Ok(entries)
    }

    async fn delete_log(&self, log: &str) -> Result<()> {
        let log = &self.name(log);
        if self.has(Fault::DeletedLogStays) {
            return Ok(());
        }
        let length = self.store().read(log, 0, usize::MAX).await?.len() as u64;
        *lock(&self.space.store.places).entry(log.clone()).or_default() += length;
        self.store().delete_log(log).await
    }
}
