//! Sets alarms that start the clean-up, and cleans up expired result sets.

use std::{sync::PoisonError, time::Duration};

use antiphon_store::{Error, Record, Revision};
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{StreamExt as _, stream};

use super::{
    Shared,
    again::Attempts,
    record::{Id, Kept, ROOT, is_conflict, until},
    storage,
};
use crate::error::Result;

/// Time for which an expired record is reserved for the replica that claimed it.
const CLAIM: Duration = Duration::from_secs(60);

/// Number of records in one claim, and number of claims in one clean-up.
const BATCH: usize = 64;
const BATCHES: usize = 8;

/// Number of records that are checked concurrently.
const ABREAST: usize = 16;

/// Minimum time from now until an alarm fires.
const LEAST: Duration = Duration::from_millis(1);

/// If an alarm fires in less than the duration `NEAR`, another replica with a faster clock has possibly already
/// processed the alarm.
const NEAR: TimeDelta = TimeDelta::minutes(1);

impl Shared {
    /// Ensures that the alarm fires no later than the result set expires, and returns the alarm's time.
    pub(super) async fn wake_by(&self, id: Id<'_>, end: DateTime<Utc>) -> Result<DateTime<Utc>> {
        let key = id.alarm();
        let mut attempts = Attempts::default();
        loop {
            let found = self.store.get(&key).await.map_err(storage)?;
            if let Some(due) = found.as_ref().and_then(due).filter(|due| *due <= end) {
                return Ok(due);
            }
            let (value, ttl) = (alarm(end), until(end, self.now()).max(LEAST));
            let written = match found {
                Some(record) => self.store.update(&key, value, Some(ttl), record.revision).await,
                None => self.store.create(&key, value, Some(ttl)).await,
            };
            match written {
                Ok(_) => return Ok(end),
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    /// Sets the alarm again after the result set was written, if the time of the first alarm is near. If another
    /// replica processed the first alarm too early, that replica found no result set and removed the alarm.
    pub(super) async fn wake_again(
        &self,
        id: Id<'_>,
        end: DateTime<Utc>,
        alarm: DateTime<Utc>,
    ) -> Result<()> {
        if alarm - self.now() < NEAR {
            self.wake_by(id, end).await?;
        }
        Ok(())
    }

    /// Removes the rows and the alarm of a removed result set.
    pub(super) async fn clear(&self, id: Id<'_>) -> Result<()> {
        self.store.delete_log(&id.rows()).await.map_err(storage)?;
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner).remove(id.0);
        let revision = match claimed {
            Some(revision) => Some(revision),
            None => self.store.get(&id.alarm()).await.map_err(storage)?.map(|record| record.revision),
        };
        match revision {
            Some(revision) => self.remove(&id.alarm(), revision).await,
            // The alarm does not exist, or a clean-up has claimed the alarm and will find no result set.
            None => Ok(()),
        }
    }

    /// Returns the IDs of expired result sets, and removes other expired records.
    pub(super) async fn find_expired(&self, at: DateTime<Utc>) -> Result<Vec<String>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut expired = Vec::new();
        let mut failure = None;
        for _ in 0..BATCHES {
            let claimed = self.store.claim_expired(ROOT, CLAIM, BATCH).await.map_err(storage)?;
            if claimed.is_empty() {
                break;
            }
            let looks = claimed.into_iter().map(|record| self.look_at(record, at));
            let mut looks = stream::iter(looks).buffer_unordered(ABREAST);
            while let Some(looked) = looks.next().await {
                match looked {
                    Ok(found) => expired.extend(found),
                    // The claim expires, and a later clean-up checks the record again.
                    Err(error) => failure = Some(error),
                }
            }
        }
        match failure {
            Some(error) if expired.is_empty() => Err(error),
            _ => Ok(expired),
        }
    }

    async fn look_at(&self, record: Record, at: DateTime<Utc>) -> Result<Option<String>> {
        let path = record.key.strip_prefix(ROOT).and_then(|path| path.split_once('/'));
        let (kind, Some(id)) = path.map_or(("", None), |(kind, id)| (kind, Id::new(id))) else {
            return Ok(None);
        };
        match kind {
            "ends" => self.hear(id, record.revision, at).await,
            // The record is an expired tombstone, or a result set whose alarm was lost.
            "sets" => {
                self.store.delete_log(&id.rows()).await.map_err(storage)?;
                self.remove(&record.key, record.revision).await?;
                Ok(None)
            }
            "newest" => {
                self.remove(&record.key, record.revision).await?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Checks the result set whose alarm fired, and returns its ID if the set has expired.
    async fn hear(&self, id: Id<'_>, revision: Revision, at: DateTime<Utc>) -> Result<Option<String>> {
        let end = match self.read(id).await? {
            Some((Kept::Set(set), _)) => set.resource.expires_at,
            // The set was removed, or the process that created the set stopped before the set was saved.
            Some((Kept::Gone(_), _)) | None => {
                self.store.delete_log(&id.rows()).await.map_err(storage)?;
                self.remove(&id.alarm(), revision).await?;
                return Ok(None);
            }
        };
        match end {
            Some(end) if end <= at => {
                let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
                claimed.insert(id.0.to_owned(), revision);
                return Ok(Some(id.0.to_owned()));
            }
            // The set was extended, or the backend's clock is ahead of the local clock.
            Some(end) => {
                let set = self.store.create(&id.alarm(), alarm(end), Some(until(end, at).max(LEAST))).await;
                unless_another(set.map(|_| ()))?;
            }
            // The set is pinned. Unpinning the set sets a new alarm.
            None => self.remove(&id.alarm(), revision).await?,
        }
        Ok(None)
    }

    /// Removes a record, unless another writer has replaced the record.
    async fn remove(&self, key: &str, revision: Revision) -> Result<()> {
        unless_another(self.store.delete(key, revision).await)
    }
}

fn unless_another(written: Result<(), Error>) -> Result<()> {
    match written {
        Err(error) if is_conflict(&error) => Ok(()),
        ended => ended.map_err(storage),
    }
}

/// Returns the value of an alarm record: the time of the alarm, according to the writer's clock.
fn alarm(end: DateTime<Utc>) -> Bytes {
    end.timestamp_millis().to_string().into()
}

fn due(record: &Record) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(std::str::from_utf8(&record.value).ok()?.parse().ok()?)
}
