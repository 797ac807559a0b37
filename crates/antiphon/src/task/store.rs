//! Reads and writes the records of tasks. The store contains the records in encrypted form. Each write is conditional,
//! and the store removes a record after the TTL.

use std::time::Duration;

use antiphon_store::{Cursor, Error as StoreError, NewJob, PIECE, Pieces, Pushed, Revision};
use bytes::Bytes;

use super::{
    Tasks,
    record::{Due, TaskRecord},
    reducer::{Effect, Transition},
    unavailable,
};
use crate::{
    base::{Defect, digest, now_millis},
    error::{Error, ErrorKind, Result},
    seal::OpenError,
};

/// The first byte of a value that contains the whole record.
const WHOLE: u8 = 0;
/// The first byte of a value that contains only the name of the pieces. The pieces contain the record.
const IN_PIECES: u8 = 1;

/// If a due job has not started within this time, in milliseconds, a replica queues the job again.
const OVERDUE: u64 = 3_000;

/// How long the store keeps the pieces of a run that has no TTL.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The reason why a stored run could not be loaded.
#[derive(Debug)]
pub(super) enum Unloaded {
    /// The store failed.
    Failed(Error),
    /// The record exists, but this replica cannot read the record. Another replica may be able to read the record, so
    /// this replica must not treat the run as removed.
    Unreadable(Unreadable),
}

/// The reason why this replica cannot read a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The record is encrypted with a key that is not in the `KeyRing`.
    UnknownKey,
    /// The key ring contains the key ID that the record names, but this key cannot decrypt the record. Either the
    /// record was encrypted with a different key that has the same ID, or the record was changed.
    WrongKey,
    /// A newer version of Antiphon wrote the record.
    NewerFormat,
    /// The value is not a record, or a piece of the record is missing.
    Damaged,
}

impl Unreadable {
    /// Returns the name of the reason, which is the value of a metric label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::UnknownKey => "unknown_key",
            Self::WrongKey => "wrong_key",
            Self::NewerFormat => "newer_format",
            Self::Damaged => "damaged",
        }
    }

    /// Returns advice that tells the operator how to solve the problem.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::UnknownKey | Self::WrongKey => "give every replica the same `KeyRing`",
            Self::NewerFormat => "upgrade this replica",
            Self::Damaged => "restore the record from a backup, or delete it",
        }
    }
}

impl From<OpenError> for Unreadable {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::UnknownKey => Self::UnknownKey,
            OpenError::Forged => Self::WrongKey,
            _ => Self::Damaged,
        }
    }
}

impl From<Unloaded> for Error {
    fn from(unloaded: Unloaded) -> Self {
        match unloaded {
            Unloaded::Failed(error) => error,
            Unloaded::Unreadable(reason) => Self::new(ErrorKind::Protocol {
                code: -32603,
                message: "the server cannot read the task; try again later".into(),
                data: Some(serde_json::json!({"reason": reason.name()})),
            }),
        }
    }
}

/// The maximum number of times that a process reads a record again, if another process replaces the pieces during the
/// read.
const REREADS: usize = 16;

impl Tasks {
    /// Loads a run. Returns `None` if the run does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails, or if this replica cannot read the record.
    pub(super) async fn load(&self, key: &str) -> Result<Option<(TaskRecord, Revision)>> {
        Ok(self.try_load(key).await?)
    }

    /// Loads a run, as [`load`](Self::load) does. The error shows whether the store failed or this replica cannot read
    /// the record.
    pub(super) async fn try_load(&self, key: &str) -> Result<Option<(TaskRecord, Revision)>, Unloaded> {
        let known = self.rollback.known(key);
        let mut before = None;
        for _ in 0..REREADS {
            let found = self.backend.store.get(key).await;
            let Some(found) = found.map_err(|error| Unloaded::Failed(unavailable(&error)))? else {
                return Ok(None);
            };
            let opened = match self.open(key, &found.value).await {
                // A writer first stores new pieces, and then removes the old pieces. If the writer removes the old
                // pieces during a read, this code must read the record again.
                Err(Unloaded::Unreadable(Unreadable::Damaged)) if Defect::TornRecordGone.is_planted() => {
                    return Ok(None);
                }
                Err(Unloaded::Unreadable(Unreadable::Damaged)) if before != Some(found.revision) => {
                    before = Some(found.revision);
                    continue;
                }
                opened => opened,
            };
            let record = opened.inspect_err(|unloaded| self.tell_unreadable(key, unloaded))?;
            if self.rollback.is_put_back(key, record.serial, known) {
                // A rollback also happens if the store has lost its latest writes. After a lost write, the run must
                // continue from the stored record. So the caller does not receive an error.
                tracing::error!(
                    key,
                    "the store returned an older version of a task record: the store lost a write, or an earlier version was restored"
                );
            }
            return Ok(Some((record, found.revision)));
        }
        // Other processes change the record so often that this process cannot read a consistent version.
        Err(Unloaded::Failed(unavailable(&StoreError::Conflict { key: key.to_owned() })))
    }

    fn tell_unreadable(&self, key: &str, unloaded: &Unloaded) {
        if let Unloaded::Unreadable(reason) = unloaded {
            tracing::error!(
                key,
                reason = reason.name(),
                "a task record cannot be read, so its run waits and is not lost; {}",
                reason.advice()
            );
            self.runtime.recorder.task_unreadable(reason.name());
        }
    }

    async fn open(&self, key: &str, value: &Bytes) -> Result<TaskRecord, Unloaded> {
        let unreadable = |reason| Unloaded::Unreadable(reason);
        #[cfg(feature = "__simulation")]
        if self.is_old.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(unreadable(Unreadable::NewerFormat));
        }
        let mut apart = None;
        let whole = match value.split_first() {
            Some((&WHOLE, _)) => value.slice(1..),
            Some((&IN_PIECES, pieces)) => {
                let pieces =
                    serde_json::from_slice::<Pieces>(pieces).map_err(|_| unreadable(Unreadable::Damaged))?;
                let whole = pieces.get(&*self.backend.store).await;
                let whole = whole.map_err(|error| Unloaded::Failed(unavailable(&error)))?;
                apart = Some(pieces);
                whole.ok_or(unreadable(Unreadable::Damaged))?
            }
            Some(_) => return Err(unreadable(Unreadable::NewerFormat)),
            None => return Err(unreadable(Unreadable::Damaged)),
        };
        let json =
            self.runtime.seal.open_kept(&whole, key.as_bytes()).map_err(|error| unreadable(error.into()))?;
        let mut record = TaskRecord::read(&json).map_err(|reason| {
            tracing::debug!(key, "a task record cannot be parsed");
            unreadable(reason)
        })?;
        record.apart = apart;
        record.stale |= !self.runtime.seal.is_current(&whole);
        Ok(record)
    }

    /// Encrypts a record for the store and returns the value. If the record is too large for one value, also returns
    /// the pieces that contain the record.
    async fn seal(&self, key: &str, record: &TaskRecord) -> Result<(Bytes, Option<Pieces>)> {
        let json = serde_json::to_vec(record)?;
        let sealed = self.runtime.seal.seal_kept(&json, key.as_bytes());
        if sealed.len() < PIECE {
            return Ok(([&[WHOLE], &sealed[..]].concat().into(), None));
        }
        if sealed.len() > self.runtime.seal.max_kept_bytes {
            return Err(Error::new(ErrorKind::Limit(format!(
                "the encrypted record of the run has {} bytes, more than the limit of {} for the store; return less from its steps, use `Ctx::loop_with_state` for loops, or raise `SealConfig::with_max_kept_bytes`",
                sealed.len(),
                self.runtime.seal.max_kept_bytes
            )))
            .terminal());
        }
        let lives = Self::left(record).unwrap_or(FOREVER) + Duration::from_secs(60);
        let pieces = Pieces::put(&*self.backend.store, &sealed.into(), lives)
            .await
            .map_err(|error| unavailable(&error))?;
        Ok(([&[IN_PIECES], &serde_json::to_vec(&pieces)?[..]].concat().into(), Some(pieces)))
    }

    /// Returns how long the store must still keep a record. Returns `None` if the run has not ended, or if the run has
    /// no TTL.
    fn left(record: &TaskRecord) -> Option<Duration> {
        let ttl = record.ttl?;
        let left = record.created.saturating_add(ttl).saturating_sub(now_millis());
        Some(Duration::from_millis(left.max(1)))
    }

    pub(super) async fn insert(&self, key: &str, record: &TaskRecord) -> Result<u64> {
        let (value, _) = self.seal(key, record).await?;
        let revision = self
            .backend
            .store
            .create(key, value, Self::left(record))
            .await
            .map_err(|error| unavailable(&error))?;
        Ok(revision.0)
    }

    /// Replaces the record of a run. Returns `None` if another process has changed the record after `revision`.
    pub(super) async fn write(
        &self,
        key: &str,
        record: &mut TaskRecord,
        revision: Revision,
    ) -> Result<Option<Revision>> {
        record.serial += 1;
        self.sign(record);
        record.settle_ttl(now_millis());
        let (value, pieces) = self.seal(key, record).await?;
        match self.backend.store.update(key, value, Self::left(record), revision).await {
            Ok(revision) => {
                self.rollback.saw(key, record.serial);
                record.stale = false;
                self.forget(std::mem::replace(&mut record.apart, pieces)).await;
                Ok(Some(revision))
            }
            Err(StoreError::Conflict { .. }) => {
                // The write failed, so no record refers to these new pieces.
                self.forget(pieces).await;
                Ok(None)
            }
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Applies a transition to the record of a run. If another process has changed the record at the same time, applies
    /// the transition to the new record. Returns `None` if the run does not exist.
    pub(super) async fn apply(
        &self,
        key: &str,
        transition: Transition<'_>,
    ) -> Result<Option<(Effect, TaskRecord, Revision)>> {
        loop {
            let Some((mut record, revision)) = self.load(key).await? else { return Ok(None) };
            let effect = record.apply(transition, now_millis());
            if !effect.changed {
                return Ok(Some((effect, record, revision)));
            }
            if let Some(revision) = self.write(key, &mut record, revision).await? {
                return Ok(Some((effect, record, revision)));
            }
        }
    }

    /// Returns one page of the runs whose record names begin with `prefix`, and the cursor for the next page.
    pub(super) async fn records(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<(String, TaskRecord, Revision)>, Option<String>)> {
        let after = after.map(|cursor| Cursor(cursor.to_owned()));
        let page = self
            .backend
            .store
            .list(prefix, after.as_ref(), limit)
            .await
            .map_err(|error| unavailable(&error))?;
        let mut records = Vec::with_capacity(page.items.len());
        for item in page.items {
            match self.open(&item.key, &item.value).await {
                Ok(record) => records.push((item.key, record, item.revision)),
                Err(Unloaded::Failed(error)) => return Err(error),
                // Another process may have replaced the pieces after this process read the page. If this replica still
                // cannot read the record, the returned list does not contain the run.
                Err(Unloaded::Unreadable(_)) => match self.try_load(&item.key).await {
                    Ok(Some((record, revision))) => records.push((item.key, record, revision)),
                    Ok(None) | Err(Unloaded::Unreadable(_)) => {}
                    Err(Unloaded::Failed(error)) => return Err(error),
                },
            }
        }
        Ok((records, page.next.map(|Cursor(next)| next)))
    }

    /// Deletes pieces to which no record refers. If the deletion fails, the pieces expire later.
    async fn forget(&self, pieces: Option<Pieces>) {
        if let Some(pieces) = pieces
            && let Err(error) = pieces.delete(&*self.backend.store).await
        {
            tracing::debug!(%error, "old parts of a task record could not be deleted; they stay until they expire");
        }
    }

    pub(super) async fn remove(&self, key: &str, record: TaskRecord, revision: Revision) -> Result<bool> {
        match self.backend.store.delete(key, revision).await {
            Ok(()) => {
                self.forget(record.apart).await;
                Ok(true)
            }
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Returns the name of the queue with this number. All runs of one caller with one tool use the same queue.
    pub(super) fn lane(&self, number: u32) -> String {
        format!("tasks:{}:{number}", self.audience)
    }

    fn lane_of(&self, record: &TaskRecord) -> String {
        let digest = digest(&[&record.tool, record.principal.as_deref().unwrap_or_default()]);
        let number = u32::from_str_radix(&digest[..8], 16).unwrap_or_default();
        self.lane(number % self.config.shards)
    }

    /// Returns the ID of the run's job with this number.
    pub(super) fn job_id(id: &str, number: u64) -> String {
        format!("{id}~{number}")
    }

    /// Queues the job of a run. Returns `false` if the queue is not available. The job is then queued when a caller
    /// reads the task, or when the alarm of the run expires.
    pub(super) async fn push(&self, key: &str, record: &TaskRecord, due: Due, now: u64) -> bool {
        self.push_as(&Self::job_id(&record.id, due.number), key, record, due, now).await
    }

    pub(super) async fn push_as(&self, id: &str, key: &str, record: &TaskRecord, due: Due, now: u64) -> bool {
        self.queue(id, key, record, due, now).await.is_some()
    }

    async fn queue(&self, id: &str, key: &str, record: &TaskRecord, due: Due, now: u64) -> Option<Pushed> {
        let payload = format!("{} {key} {}", due.number, record.tool);
        let delay = Duration::from_millis(due.at.saturating_sub(now));
        let job = NewJob::new(id, payload).with_delay(delay);
        match self.backend.queue.push(&self.lane_of(record), job).await {
            Ok(pushed) => Some(pushed),
            Err(error) => {
                tracing::warn!(%error, task = record.id, "the next job of a run could not be queued; it is queued later");
                None
            }
        }
    }

    /// Returns `true` if a job that was due at the time `at` is late by more than [`OVERDUE`].
    pub(super) fn is_overdue(at: u64, now: u64) -> bool {
        at + OVERDUE < now
    }

    /// Queues the overdue job of a run again, because the process that created the job may have died before it queued
    /// the job. If the job is already queued, this method has no effect.
    ///
    /// Returns `true` if the queue did not contain the job.
    pub(super) async fn heal(&self, key: &str, record: &TaskRecord) -> bool {
        let now = now_millis();
        if let Some(due) = record.job.filter(|due| Self::is_overdue(due.at, now))
            // If the run has a hold, another job already waits for the end of the hold and must run first.
            && record.held.is_none_or(|until| until + OVERDUE < now)
            && self.queue(&Self::job_id(&record.id, due.number), key, record, due, now).await
                == Some(Pushed::Added)
        {
            tracing::warn!(
                task = record.id,
                tool = record.tool,
                "the job of a run was lost and was queued again"
            );
            #[cfg(feature = "__simulation")]
            crate::base::count_repair();
            self.runtime.recorder.task_repaired(&record.tool);
            return true;
        }
        false
    }

    /// Returns an error if this replica must not create tasks, because other replicas could not read these tasks. If
    /// this replica has just started, the method first waits for the comparison of the key rings.
    pub(super) async fn check_able(&self) -> Result<()> {
        self.wait_for_comparison().await;
        if !self.is_unfit() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Protocol {
            code: -32603,
            message: "this replica of the server cannot create tasks now; try again".into(),
            data: None,
        }))
    }

    /// Returns an error if too many jobs wait for a worker.
    pub(super) async fn check_backlog(&self) -> Result<()> {
        let waiting = self.slots.backlog(self).await;
        if waiting <= self.config.max_queued {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Protocol {
            code: -32603,
            message: format!("the task queue is full: {waiting} tasks wait for a worker; try again later"),
            data: None,
        }))
    }
}

/// The payload of a job: the number of the job, the name of the record, and the name of the tool.
pub(super) struct JobPayload {
    pub(super) number: u64,
    pub(super) key: String,
    pub(super) tool: String,
}

impl JobPayload {
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(payload).ok()?.splitn(3, ' ');
        let number = parts.next()?.parse().ok()?;
        Some(Self { number, key: parts.next()?.to_owned(), tool: parts.next()?.to_owned() })
    }

    /// Returns the owner of the run, which is a part of the record's name.
    pub(super) fn owner(&self) -> &str {
        self.key.split('/').nth(1).unwrap_or_default()
    }
}
