//! What wakes whoever cleans up, and the cleaning.

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

/// For how long what has expired is left to whoever was told of it.
const CLAIM: Duration = Duration::from_secs(60);

/// How many records are claimed at once, and how often.
const BATCH: usize = 64;
const BATCHES: usize = 8;

/// How many of them are looked at at once.
const ABREAST: usize = 16;

/// The least time an alarm has.
const LEAST: Duration = Duration::from_millis(1);

/// An alarm that is as near as this may have gone off by another's clock.
const NEAR: TimeDelta = TimeDelta::minutes(1);

impl Shared {
    /// Sees to it that the alarm goes off no later than the set ends, and says when it does.
    pub(super) async fn wake_by(&self, id: Id<'_>, end: DateTime<Utc>) -> Result<DateTime<Utc>> {
        let key = id.alarm();
        let mut attempts = Attempts::default();
        loop {
            let found = self.store.get(&key).await.map_err(storage)?;
            if let Some(due) = found.as_ref().and_then(due).filter(|due| *due <= end) {
                return Ok(due);
            }
            let (value, ttl) = (alarm(end), until(end, Utc::now()).max(LEAST));
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

    /// The same, after the set was written: who heard the alarm before that may have found nothing to wake for.
    pub(super) async fn wake_again(
        &self,
        id: Id<'_>,
        end: DateTime<Utc>,
        alarm: DateTime<Utc>,
    ) -> Result<()> {
        if alarm - Utc::now() < NEAR {
            self.wake_by(id, end).await?;
        }
        Ok(())
    }

    /// Removes what hangs on a set that is gone.
    pub(super) async fn clear(&self, id: Id<'_>) -> Result<()> {
        self.store.delete_log(&id.rows()).await.map_err(storage)?;
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner).remove(id.0);
        let revision = match claimed {
            Some(revision) => Some(revision),
            None => self.store.get(&id.alarm()).await.map_err(storage)?.map(|record| record.revision),
        };
        match revision {
            Some(revision) => self.remove(&id.alarm(), revision).await,
            // It has none, or somebody has been woken by it and will find nothing.
            None => Ok(()),
        }
    }

    /// The ids of sets that have expired. What else has expired is removed on the way.
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
                    // The claim on it lapses, and somebody looks again.
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
            // A tombstone that stood long enough, or a set whose alarm was lost.
            "sets" => {
                self.store.delete_log(&id.rows()).await.map_err(storage)?;
                self.remove(&record.key, record.revision).await?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Looks at the set whose alarm went off, and returns its id if it has expired.
    async fn hear(&self, id: Id<'_>, revision: Revision, at: DateTime<Utc>) -> Result<Option<String>> {
        let end = match self.read(id).await? {
            Some((Kept::Set(set), _)) => set.resource.expires_at,
            // It is gone, or whoever made it died before it was saved.
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
            // It was extended, or the backend's clock is ahead of ours.
            Some(end) => {
                let set = self.store.create(&id.alarm(), alarm(end), Some(until(end, at).max(LEAST))).await;
                unless_another(set.map(|_| ()))?;
            }
            // It is pinned. Whoever unpins it sets an alarm.
            None => self.remove(&id.alarm(), revision).await?,
        }
        Ok(None)
    }

    /// Removes a record, unless somebody has written another there.
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

/// The value of an alarm: when it goes off, by the clock of whoever set it.
fn alarm(end: DateTime<Utc>) -> Bytes {
    end.timestamp_millis().to_string().into()
}

fn due(record: &Record) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(std::str::from_utf8(&record.value).ok()?.parse().ok()?)
}
