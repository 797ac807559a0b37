//! A store with a fault.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use antiphon_results::{
    DualResponseError, Result, Rows,
    store::{MemoryStore, Removal, Resource, ResourceStore, ResourceUpdate, Tombstone, TombstoneEntry},
};
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::sleep;

use super::{super::lock, fault::Fault};

/// A store in memory that has a fault, or none.
#[derive(Debug)]
pub(super) struct Faulty {
    space: Arc<Space>,
    fault: Option<Fault>,
    closed: AtomicBool,
}

/// What is kept, and what a fault remembers.
#[derive(Debug, Default)]
struct Space {
    store: MemoryStore,
    /// What was first saved, by id.
    first: Mutex<BTreeMap<String, Resource>>,
    /// What was ever pinned.
    pinned: Mutex<Vec<String>>,
    rows: Mutex<HashMap<String, Rows>>,
    last: Mutex<HashMap<String, Tombstone>>,
    busy: AtomicBool,
    /// Accesses that somebody is about to write.
    together: AtomicU64,
}

/// Long enough for whoever races to have looked, too.
const BETWEEN: Duration = Duration::from_millis(1);

impl Faulty {
    pub(super) fn open(space: String, fault: Option<Fault>) -> Self {
        static SPACES: LazyLock<Mutex<HashMap<String, Arc<Space>>>> = LazyLock::new(Mutex::default);
        let space = if fault == Some(Fault::OpeningsAreAlone) {
            Arc::default()
        } else {
            Arc::clone(lock(&SPACES).entry(space).or_default())
        };
        Self { space, fault, closed: AtomicBool::new(false) }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn store(&self) -> &MemoryStore {
        &self.space.store
    }

    fn id(&self, id: &str) -> String {
        match self.fault {
            Some(Fault::IdsIgnoreCase) => id.to_lowercase(),
            Some(Fault::IdsAreMadeGood) => {
                id.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect()
            }
            _ => id.to_owned(),
        }
    }

    /// Ids and resources as they are now, for a fault that finds others than the store would.
    async fn all(&self) -> Result<Vec<(String, Resource)>> {
        let ids: Vec<_> = lock(&self.space.first).keys().cloned().collect();
        let mut all = Vec::new();
        for id in ids {
            all.extend(self.store().get(&id).await?.map(|resource| (id, resource)));
        }
        Ok(all)
    }

    /// Writes accesses together, in the future of whoever came first.
    async fn together(&self, id: &str, update: ResourceUpdate) -> Result<Option<Resource>> {
        if self.space.together.fetch_add(update.accesses, Ordering::SeqCst) == 0 {
            sleep(BETWEEN).await;
            let accesses = self.space.together.swap(0, Ordering::SeqCst);
            return self.store().update(id, update.with_accesses(accesses)).await;
        }
        sleep(2 * BETWEEN).await;
        self.store().get(id).await
    }
}

fn whole(moment: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp(moment.timestamp(), 0).unwrap_or(moment)
}

#[async_trait]
impl ResourceStore for Faulty {
    async fn save(&self, mut resource: Resource) -> Result<String> {
        let id = resource.id.clone();
        resource.id = self.id(&id);
        lock(&self.space.first).entry(resource.id.clone()).or_insert_with(|| resource.clone());
        match self.fault {
            Some(Fault::SaveRoundsTimes) => resource.created_at = whole(resource.created_at),
            Some(Fault::SaveCutsText) => {
                resource.name = resource.name.split('\0').next().unwrap_or_default().to_owned();
            }
            Some(Fault::FirstSaveStays) if self.store().get(&resource.id).await?.is_some() => return Ok(id),
            _ => {}
        }
        self.store().save(resource).await?;
        Ok(id)
    }

    async fn get(&self, id: &str) -> Result<Option<Resource>> {
        let found = self.store().get(&self.id(id)).await?;
        match self.fault {
            Some(Fault::ExpiredIsHidden) => Ok(found.filter(|resource| !resource.is_expired(Utc::now()))),
            _ => Ok(found),
        }
    }

    async fn update(&self, id: &str, mut update: ResourceUpdate) -> Result<Option<Resource>> {
        let id = &self.id(id);
        if update.expires_at == Some(None) {
            lock(&self.space.pinned).push(id.clone());
        }
        let Some(before) = self.store().get(id).await? else {
            if self.has(Fault::UpdateCreates) {
                self.store().save(Resource::new(id, "New", update.at, Duration::from_secs(60))).await?;
            }
            return Ok(None);
        };
        match self.fault {
            Some(Fault::UpdateLooksThenWrites) => {
                let mut resource = before;
                sleep(BETWEEN).await;
                if !update.apply(&mut resource) {
                    return Ok(None);
                }
                self.store().save(resource.clone()).await?;
                return Ok(Some(resource));
            }
            Some(Fault::UpdateReturnsWhatWas) => {
                return Ok(self.store().update(id, update).await?.map(|_| before));
            }
            Some(Fault::AccessesComeLast) if update.accesses > 0 => {
                let mut resource = before;
                resource.last_accessed_at = None;
                self.store().save(resource).await?;
            }
            Some(Fault::ExpiredIsUpdated) => {
                update.at =
                    before.expires_at.map_or(update.at, |end| end - TimeDelta::seconds(1)).min(update.at);
            }
            Some(Fault::AbandonedHoldsUpAll) => {
                while self.space.busy.swap(true, Ordering::SeqCst) {
                    sleep(1000 * BETWEEN).await;
                }
                sleep(BETWEEN).await;
                self.space.busy.store(false, Ordering::SeqCst);
            }
            Some(Fault::AbandonedTakesAllAlong) => return self.together(id, update).await,
            Some(Fault::UpdateClearsTheRest) => {
                update.metadata = update.metadata.or(Some(serde_json::Map::new()));
            }
            Some(Fault::RevocationsAreOne) if before.link_epoch > 0 => update.revoke_links = false,
            Some(Fault::AccessesCountForOne) => update.accesses = update.accesses.min(1),
            Some(Fault::ChangesAreAccesses) => update.accesses = update.accesses.max(1),
            _ => {}
        }
        self.store().update(id, update).await
    }

    async fn delete(&self, id: &str, mut removal: Removal) -> Result<bool> {
        let id = &self.id(id);
        let found = self.store().get(id).await?;
        lock(&self.space.last).insert(id.clone(), removal.into());
        match self.fault {
            Some(Fault::DeleteOnlySaysSo) => return Ok(found.is_some()),
            Some(Fault::DeleteIsToldToAll) => {
                sleep(BETWEEN).await;
                self.store().delete(id, removal).await?;
                return Ok(found.is_some() || self.store().tombstone(id).await?.is_some());
            }
            Some(Fault::ExpiryDoesNotLook) => {
                if let Removal::Expired { at } = &mut removal {
                    *at = DateTime::<Utc>::MAX_UTC;
                }
                if found.is_some_and(|resource| resource.expires_at.is_none()) {
                    removal = Removal::Deleted;
                }
            }
            Some(Fault::PinsAreAgainstPeople) if found.is_some_and(|set| set.expires_at.is_none()) => {
                return Ok(false);
            }
            _ => {}
        }
        self.store().delete(id, removal).await
    }

    async fn find_expired(&self, at: DateTime<Utc>) -> Result<Vec<String>> {
        let found = match self.fault {
            Some(Fault::LiveIsFound) => {
                self.all().await?.into_iter().filter(|(_, set)| set.expires_at.is_some()).collect()
            }
            Some(Fault::PinnedIsFound) => self
                .all()
                .await?
                .into_iter()
                .filter(|(_, set)| set.expires_at.is_none_or(|end| end <= at))
                .collect(),
            Some(Fault::FindsAreForgotten) => {
                let mut all = self.all().await?;
                all.retain(|(_, set)| set.is_expired(at));
                sleep(BETWEEN).await;
                all
            }
            Some(Fault::FirstEndStays) => {
                let mut all = self.all().await?;
                all.retain(|(id, _)| lock(&self.space.first).get(id).is_some_and(|set| set.is_expired(at)));
                all
            }
            Some(Fault::PinsLastForEver) => {
                let mut found = self.store().find_expired(at).await?;
                found.retain(|id| !lock(&self.space.pinned).contains(id));
                return Ok(found);
            }
            Some(Fault::NothingIsFound) => Vec::new(),
            _ => return self.store().find_expired(at).await,
        };
        Ok(found.into_iter().map(|(id, _)| id).collect())
    }

    async fn tombstone(&self, id: &str) -> Result<Option<TombstoneEntry>> {
        let id = &self.id(id);
        let found = self.store().tombstone(id).await?;
        Ok(match self.fault {
            Some(Fault::TombstonesAreForgotten) => None,
            Some(Fault::TombstonesSayDeleted) => {
                found.map(|gone| TombstoneEntry { tombstone: Tombstone::Deleted, ..gone })
            }
            Some(Fault::LastTombstoneStays) => found.and_then(|gone| {
                Some(TombstoneEntry { tombstone: *lock(&self.space.last).get(id)?, ..gone })
            }),
            _ => found,
        })
    }

    async fn put_rows(&self, id: &str, rows: Rows) -> Result<()> {
        let id = &self.id(id);
        let mut kept = rows;
        match self.fault {
            Some(Fault::LargeRowsAreLeftOut) => {
                let mut small = Rows::new();
                for row in kept.iter().filter(|row| row.len() <= 256 * 1024) {
                    small.push_json(row).map_err(|error| DualResponseError::Storage(error.into()))?;
                }
                kept = small;
            }
            Some(Fault::RowsAreRewritten) => {
                let mut written = Rows::new();
                for row in kept.iter() {
                    let value: serde_json::Value = serde_json::from_str(row).unwrap_or(serde_json::json!({}));
                    written.push(&value).map_err(|error| DualResponseError::Storage(error.into()))?;
                }
                kept = written;
            }
            _ => {}
        }
        lock(&self.space.rows).insert(id.clone(), kept.clone());
        lock(&self.space.rows).insert(String::new(), kept.clone());
        self.store().put_rows(id, kept).await
    }

    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Rows> {
        let id = &self.id(id);
        let all = self.store().rows(id, 0, u64::MAX).await?;
        let places = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let (start, most) = (places(offset), places(limit));
        let of = |id: &str| lock(&self.space.rows).get(id).cloned().unwrap_or_default();
        Ok(match self.fault {
            Some(Fault::RowsAreBackwards) => {
                let mut backwards = Rows::new();
                for row in all.iter().rev() {
                    backwards.push_json(row).map_err(|error| DualResponseError::Storage(error.into()))?;
                }
                backwards.slice(start, most)
            }
            Some(Fault::PagesAreShort) => all.slice(start, most.min(1000)),
            Some(Fault::BeyondTheEndIsTheLast) => all.slice(start.min(all.len().saturating_sub(1)), most),
            Some(Fault::RowsAreOfAll) => of("").slice(start, most),
            Some(Fault::RowsStay) => of(id).slice(start, most),
            Some(Fault::NoRowsAreOne) if all.is_empty() => {
                let mut one = Rows::new();
                one.push_json("{}").map_err(|error| DualResponseError::Storage(error.into()))?;
                one
            }
            _ => all.slice(start, most),
        })
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::SeqCst) && self.has(Fault::SecondCloseFails) {
            return Err(DualResponseError::Storage("it is closed".into()));
        }
        Ok(())
    }
}
