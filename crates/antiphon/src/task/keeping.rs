//! Runs in the store: sealed, written conditionally, and gone when their time is over.

use std::{sync::Arc, time::Duration};

use antiphon_store::{Cursor, Error as StoreError, NewJob, Revision};
use bytes::Bytes;

use super::{
    Tasks,
    record::{Due, TaskRecord},
    unavailable,
};
use crate::{
    error::{Error, ErrorKind, Result},
    keep::{PIECE, Pieces},
    run::now_millis,
    server::Shared,
};

/// The record itself follows, or where its pieces are.
const WHOLE: u8 = 0;
const APART: u8 = 1;

/// A job that was to be there for so long, and is still waited for, is pushed again.
const OVERDUE: u64 = 3_000;

/// How long the pieces of a run are kept that is kept until somebody removes it.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// What to do with a record that somebody else has changed meanwhile.
pub(super) enum Change<T> {
    /// Write it.
    Write(T),
    /// Leave it as it is.
    Leave(T),
}

impl Tasks {
    /// A run as it is now.
    pub(super) async fn load(&self, shared: &Shared, key: &str) -> Result<Option<(TaskRecord, Revision)>> {
        let known = self.newest.known(key);
        let Some(found) = self.backend.store.get(key).await.map_err(|error| unavailable(&error))? else {
            return Ok(None);
        };
        let record = self.open(shared, key, &found.value).await?;
        if let Some(record) = &record
            && self.newest.is_put_back(key, record.serial, known)
        {
            // A store that lost its latest writes does the same, and then the run must go on from what is there.
            tracing::error!(
                key,
                "a task is as it was before: the store lost a write, or somebody put an earlier one back"
            );
        }
        Ok(record.map(|record| (record, found.revision)))
    }

    async fn open(&self, shared: &Shared, key: &str, value: &Bytes) -> Result<Option<TaskRecord>> {
        let mut apart = None;
        let whole = match value.split_first() {
            Some((&WHOLE, _)) => value.slice(1..),
            Some((&APART, pieces)) => {
                let Ok(pieces) = serde_json::from_slice::<Pieces>(pieces) else { return Ok(None) };
                let Some(whole) =
                    pieces.get(&*self.backend.store).await.map_err(|error| unavailable(&error))?
                else {
                    return Ok(None);
                };
                apart = Some(pieces);
                whole
            }
            _ => return Ok(None),
        };
        match shared.seal.open_kept(&whole, key.as_bytes()) {
            Ok(json) => match serde_json::from_slice(&json) {
                Ok(record) => Ok(Some(TaskRecord { apart, ..record })),
                Err(error) => {
                    tracing::error!(%error, key, "a task was written by a version that this one cannot read");
                    Ok(None)
                }
            },
            Err(reason) => {
                tracing::error!(?reason, key, "a task cannot be opened; replicas must share their `KeyRing`");
                Ok(None)
            }
        }
    }

    /// A run as it is kept, and its pieces if it has any.
    async fn seal(&self, shared: &Shared, key: &str, record: &TaskRecord) -> Result<(Bytes, Option<Pieces>)> {
        let json = serde_json::to_vec(record)?;
        let sealed = shared.seal.seal_kept(&json, key.as_bytes());
        if sealed.len() < PIECE {
            return Ok(([&[WHOLE], &sealed[..]].concat().into(), None));
        }
        if sealed.len() > shared.seal.max_kept_bytes {
            return Err(Error::new(ErrorKind::Limit(format!(
                "the run has grown to {} bytes, more than the {} the store may keep of one; return less from its steps, use `Ctx::fold` for loops, or raise `SealConfig::max_kept_bytes`",
                sealed.len(),
                shared.seal.max_kept_bytes
            )))
            .terminal());
        }
        let lives = Self::left(record).unwrap_or(FOREVER) + Duration::from_secs(60);
        let pieces = Pieces::put(&*self.backend.store, &sealed.into(), lives)
            .await
            .map_err(|error| unavailable(&error))?;
        Ok(([&[APART], &serde_json::to_vec(&pieces)?[..]].concat().into(), Some(pieces)))
    }

    /// How long a run has still to live.
    fn left(record: &TaskRecord) -> Option<Duration> {
        let ttl = record.ttl?;
        let left = record.created.saturating_add(ttl).saturating_sub(now_millis());
        Some(Duration::from_millis(left.max(1)))
    }

    pub(super) async fn insert(&self, shared: &Shared, key: &str, record: &TaskRecord) -> Result<u64> {
        let (value, _) = self.seal(shared, key, record).await?;
        let revision = self
            .backend
            .store
            .create(key, value, Self::left(record))
            .await
            .map_err(|error| unavailable(&error))?;
        Ok(revision.0)
    }

    /// Writes a run over what it was. `None` if it is no longer that.
    pub(super) async fn write(
        &self,
        shared: &Shared,
        key: &str,
        record: &mut TaskRecord,
        revision: Revision,
    ) -> Result<Option<Revision>> {
        record.serial += 1;
        let (value, pieces) = self.seal(shared, key, record).await?;
        match self.backend.store.update(key, value, Self::left(record), revision).await {
            Ok(revision) => {
                self.newest.saw(key, record.serial);
                self.forget(std::mem::replace(&mut record.apart, pieces)).await;
                Ok(Some(revision))
            }
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Changes a run, however often somebody else gets there first. `None` where there is none.
    pub(super) async fn change<T>(
        &self,
        shared: &Shared,
        key: &str,
        mut change: impl FnMut(&mut TaskRecord) -> Change<T>,
    ) -> Result<Option<(T, TaskRecord, Revision)>> {
        loop {
            let Some((mut record, revision)) = self.load(shared, key).await? else { return Ok(None) };
            match change(&mut record) {
                Change::Leave(left) => return Ok(Some((left, record, revision))),
                Change::Write(written) => {
                    if let Some(revision) = self.write(shared, key, &mut record, revision).await? {
                        return Ok(Some((written, record, revision)));
                    }
                }
            }
        }
    }

    /// Runs under `prefix`, and where the rest begins.
    pub(super) async fn records(
        &self,
        shared: &Arc<Shared>,
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
            if let Some(record) = self.open(shared, &item.key, &item.value).await? {
                records.push((item.key, record, item.revision));
            }
        }
        Ok((records, page.next.map(|Cursor(next)| next)))
    }

    /// Removes pieces that nobody names any more. If that fails, they expire.
    async fn forget(&self, pieces: Option<Pieces>) {
        if let Some(pieces) = pieces
            && let Err(error) = pieces.delete(&*self.backend.store).await
        {
            tracing::debug!(%error, "pieces of a run are left over until they expire");
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

    /// The queue of a run: those of one tool and caller share one.
    pub(super) fn lane(&self, number: u32) -> String {
        format!("tasks:{}:{number}", self.audience)
    }

    fn lane_of(&self, record: &TaskRecord) -> String {
        let digest = super::digest(&[&record.tool, record.principal.as_deref().unwrap_or_default()]);
        let number = u32::from_str_radix(&digest[..8], 16).unwrap_or_default();
        self.lane(number % self.config.lanes.max(1))
    }

    /// The id of a run's job. One that is tried again as another job has another.
    pub(super) fn job_id(id: &str, number: u64) -> String {
        format!("{id}~{number}")
    }

    /// Pushes a run's job, and says whether it is there. If not, whoever looks at the task next does it.
    pub(super) async fn push(&self, key: &str, record: &TaskRecord, due: Due, now: u64) -> bool {
        self.push_as(&Self::job_id(&record.id, due.number), key, record, due, now).await
    }

    pub(super) async fn push_as(&self, id: &str, key: &str, record: &TaskRecord, due: Due, now: u64) -> bool {
        let payload = format!("{} {key} {}", due.number, record.tool);
        let delay = Duration::from_millis(due.at.saturating_sub(now));
        let job = NewJob::new(id, payload).with_delay(delay);
        match self.backend.queue.push(&self.lane_of(record), job).await {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(%error, task = record.id, "a leg could not be queued; it is when somebody looks at the task");
                false
            }
        }
    }

    /// Queues the next leg of a run whose job should have been done for a while: whoever named it may have died before
    /// it was pushed. If it was pushed, this adds nothing.
    pub(super) async fn heal(&self, key: &str, record: &TaskRecord) {
        let now = now_millis();
        if let Some(due) = record.job.filter(|due| due.at + OVERDUE < now)
            // Whoever waits for the end of a hold goes first.
            && record.held.is_none_or(|until| until + OVERDUE < now)
        {
            self.push(key, record, due, now).await;
        }
    }

    /// Refuses more work where too much of it waits.
    pub(super) async fn check_backlog(&self) -> Result<()> {
        let waiting = self.slots.backlog(self).await;
        if waiting <= self.config.backlog {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Protocol {
            code: -32603,
            message: format!(
                "{waiting} tasks wait to be worked on, more than the server takes; try again later"
            ),
            data: None,
        }))
    }
}

/// What a job says: its number, whose it is, and which tool it is for.
pub(super) struct Errand {
    pub(super) number: u64,
    pub(super) key: String,
    pub(super) tool: String,
}

impl Errand {
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(payload).ok()?.splitn(3, ' ');
        let number = parts.next()?.parse().ok()?;
        Some(Self { number, key: parts.next()?.to_owned(), tool: parts.next()?.to_owned() })
    }

    /// Whose it is.
    pub(super) fn owner(&self) -> &str {
        self.key.split('/').nth(1).unwrap_or_default()
    }
}
