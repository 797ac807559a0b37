//! Stores the progress and the results of a leg.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex as StdMutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use antiphon_replay::{Failure, Journal, Key, Outcome as JournalOutcome, Suspension};
use antiphon_store::{Error as StoreError, Lease, Revision};
use serde_json::Value;
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::{
    Ended, TaskStatus, Tasks,
    record::{Due, TaskRecord},
};
use crate::{
    base::now_millis,
    error::Error,
    run::{Claimed, Pending, Persistence, Stop},
};

/// The access of one leg to the record of its run. Only one leg of a run can write.
pub(crate) struct TaskWriter {
    tasks: Arc<Tasks>,
    pub(super) key: String,
    pub(super) id: String,
    held: Mutex<(TaskRecord, Revision)>,
    /// The answers that the tool received at the start of the leg. When the tool waits again, it no longer needs these
    /// answers: it has used them, or they did not match the questions.
    given: StdMutex<BTreeSet<String>>,
    /// The latest progress message. It is stored with the next write or heartbeat.
    message: StdMutex<Option<String>>,
    /// Whether this leg has marked the run as held.
    holds: AtomicBool,
    /// Wakes the driver of the leg.
    news: Notify,
    lost: CancellationToken,
    cancelled: CancellationToken,
    /// The lease of the job, if the leg has a job.
    lease: Option<Lease>,
    /// The slot of the leg, if the leg runs without a job.
    _place: Option<OwnedSemaphorePermit>,
}

impl TaskWriter {
    pub(super) fn new(
        tasks: &Arc<Tasks>,
        key: String,
        record: TaskRecord,
        revision: Revision,
        lease: Option<Lease>,
        place: Option<OwnedSemaphorePermit>,
    ) -> Arc<Self> {
        let writer = Arc::new(Self {
            tasks: Arc::clone(tasks),
            key,
            id: record.id.clone(),
            given: StdMutex::default(),
            message: StdMutex::new(None),
            holds: AtomicBool::new(false),
            news: Notify::new(),
            lost: CancellationToken::new(),
            cancelled: CancellationToken::new(),
            lease,
            _place: place,
            held: Mutex::new((record, revision)),
        });
        tasks.working().insert(writer.id.clone(), Arc::downgrade(&writer));
        writer
    }

    /// Marks the run as cancelled. The tool receives an error at its next question.
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
        self.news.notify_one();
    }

    /// Marks the run as lost, because another process executes it now. The driver then starts nothing new.
    pub(crate) fn lose(&self) {
        self.lost.cancel();
        self.news.notify_one();
    }

    /// Returns the record from which the leg continues, and remembers which answers the tool receives.
    pub(super) async fn begin(&self) -> TaskRecord {
        let record = self.record().await;
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = record.answers.keys().cloned().collect();
        record
    }

    /// Returns the record as this leg last read or wrote it.
    pub(super) async fn record(&self) -> TaskRecord {
        self.held.lock().await.0.clone()
    }

    /// Stores that the tool waits for answers, for the time `due`, or for both. Returns `true` if answers have already
    /// arrived. The next leg can then start immediately.
    pub(super) async fn suspend(
        &self,
        suspension: &Suspension,
        due: Option<u64>,
        adapt: impl Fn(&Value) -> Value,
    ) -> Result<bool, Stop> {
        let Suspension { journal, asks } = suspension;
        let given = std::mem::take(&mut *self.given.lock().unwrap_or_else(PoisonError::into_inner));
        if !asks.is_empty() {
            // The run is listed before its questions are stored. So if a reader finds the questions, the run is
            // already in the list.
            let held = self.held.lock().await;
            self.tasks.list_waiting(&held.0).await;
        }
        let (more, record, push) = self
            .amend(|record| {
                // In a loop, a new question can have the same key, and the text of a question can change. So an answer
                // is used only once, and only for the question that was open when the answer arrived.
                let out = std::mem::replace(&mut record.journal, journal.clone()).asked;
                record.answers.retain(|key, _| {
                    let asked = Key::from(key.as_str());
                    !given.contains(key)
                        && journal.asked.get(&asked).is_some_and(|now| out.get(&asked) == Some(now))
                });
                record.failures = 0;
                record.toolless = None;
                if record.status.is_final() {
                    if !record.cleaning {
                        record.held = None;
                        record.job = None;
                    }
                    return (record.cleaning, record.clone(), None);
                }
                let more = asks.keys().any(|key| record.answers.contains_key(key.as_str()));
                // A loop can ask the same question again after the question has expired. The new question has its own
                // expiry time.
                let now = now_millis();
                record.asks.retain(|_, asked| asked.until.is_none_or(|until| until > now));
                put(record, asks, &adapt);
                if more {
                    // The leg continues in this process, so the run stays held. A job that becomes due must not start
                    // another leg.
                    return (true, record.clone(), None);
                }
                record.held = None;
                let names: Vec<_> = record.asks.keys().cloned().collect();
                if names.is_empty() {
                    record.set_status(TaskStatus::Working);
                } else {
                    record.note("asked", names.join(", "));
                    record.set_status(TaskStatus::InputRequired);
                }
                record.job = None;
                let due = [due, record.questions_end()].into_iter().flatten().min();
                let push = due.map(|due| {
                    record.note("waits", format!("{} ms", due.saturating_sub(now_millis())));
                    record.next_job(due)
                });
                (false, record.clone(), push)
            })
            .await?;
        if let Some(due) = push {
            self.push(&record, due).await?;
        }
        if !more {
            self.tasks.announce(&record, false).await;
        }
        Ok(more)
    }

    /// Stores the tool's result and its complete journal.
    pub(super) async fn finish(
        &self,
        journal: &Journal,
        ended: &Ended,
        message: Option<&str>,
    ) -> Result<(), Stop> {
        self.end_with(ended, message, "ended", |record| record.journal = journal.clone()).await
    }

    /// Ends the run. If the run was cancelled, its status stays cancelled.
    pub(super) async fn end(&self, ended: &Ended, message: Option<&str>, what: &str) -> Result<(), Stop> {
        self.end_with(ended, message, what, |_| ()).await
    }

    async fn end_with(
        &self,
        ended: &Ended,
        message: Option<&str>,
        what: &str,
        change: impl Fn(&mut TaskRecord),
    ) -> Result<(), Stop> {
        let record = self
            .amend(|record| {
                change(record);
                record.job = None;
                record.held = None;
                record.cleaning = false;
                if record.status.is_final() {
                    record.note("cleaned up", None);
                    return record.clone();
                }
                record.asks.clear();
                record.answers.clear();
                record.ended = Some(ended.clone());
                record.message = message.map(ToOwned::to_owned);
                record.note(what, message.map(ToOwned::to_owned));
                record.set_status(match ended {
                    Ended::Output(_) => TaskStatus::Completed,
                    Ended::Error { .. } => TaskStatus::Failed,
                    Ended::Cancelled => TaskStatus::Cancelled,
                });
                record.clone()
            })
            .await?;
        self.tasks.unlist_waiting(&record).await;
        self.tasks.announce(&record, false).await;
        Ok(())
    }

    /// Schedules a retry after `wait`. `journal` is the run's journal without the steps that failed last.
    pub(super) async fn retry(&self, journal: &Journal, wait: Duration, why: &str) -> Result<(), Stop> {
        let (record, due) = self
            .amend(|record| {
                record.journal = journal.clone();
                record.held = None;
                record.failures += 1;
                record.note("retried", format!("in {} ms: {why}", wait.as_millis()));
                // If the run was cancelled in the meantime, it stays cancelled. The next leg cleans up.
                if !record.status.is_final() {
                    record.message = Some(format!("it failed and is tried again: {why}"));
                    record.set_status(TaskStatus::Working);
                }
                let due = record.next_job(now_millis() + super::millis(wait));
                (record.clone(), due)
            })
            .await?;
        self.push(&record, due).await
    }

    /// Schedules the next leg, for a replica that has the tool. This does not count as a failed attempt.
    pub(super) async fn wait_for_tool(&self, wait: Duration, now: u64, why: &str) -> Result<(), Stop> {
        let (record, due) = self
            .amend(|record| {
                if record.toolless.is_none() {
                    record.toolless = Some(now);
                    record.note("waits", why.to_owned());
                    record.message = Some(format!("it waits for a worker: {why}"));
                }
                record.held = None;
                let due = record.next_job(now_millis() + super::millis(wait));
                (record.clone(), due)
            })
            .await?;
        self.push(&record, due).await
    }

    /// Queues the next leg. If this fails, the current leg must not acknowledge its own job. That job is then delivered
    /// to another worker, which queues the next leg from the record.
    async fn push(&self, record: &TaskRecord, due: Due) -> Result<(), Stop> {
        if self.tasks.push(&self.key, record, due, now_millis()).await {
            return Ok(());
        }
        Err(Stop::Failed(Error::tool("the next job of the run could not be queued")))
    }

    /// Marks the run as held for a few heartbeat intervals, so that no other leg starts. This is needed if the leg has
    /// no job, or if the record contains another job.
    pub(super) async fn hold(&self) -> Result<(), Stop> {
        self.holds.store(true, Ordering::Relaxed);
        let since = Instant::now();
        let until = self.held_until();
        self.amend(|record| record.held = Some(until)).await?;
        self.confirm(since).await
    }

    /// Checks after a slow write that no other worker has taken over the run. Without this check, the leg could run
    /// another step although its lease or its hold has expired.
    async fn confirm(&self, mut since: Instant) -> Result<(), Stop> {
        while since.elapsed() >= (super::promote::HOLD - 1) * self.tasks.config.heartbeat_interval {
            since = Instant::now();
            if let Some(lease) = &self.lease {
                match self.tasks.backend.queue.extend(lease).await {
                    Ok(()) => {}
                    Err(StoreError::LeaseLost { .. }) => {
                        self.lose();
                        return Err(Stop::Lost);
                    }
                    Err(error) => return Err(Stop::Failed(super::unavailable(&error))),
                }
            }
            if self.lease.is_none() || self.holds.load(Ordering::Relaxed) {
                self.extend_hold().await?;
            }
        }
        Ok(())
    }

    /// Extends the hold, unless the leg was suspended or has ended. In that case, the hold has ended too and must not
    /// begin again. Otherwise, an answer would wait for this leg, which does not continue.
    async fn extend_hold(&self) -> Result<(), Stop> {
        if self.held.lock().await.0.held.is_none() {
            return Ok(());
        }
        // `amend` extends the hold.
        self.amend(|_| ()).await
    }

    fn held_until(&self) -> u64 {
        now_millis() + super::millis(super::promote::HOLD * self.tasks.config.heartbeat_interval)
    }

    /// Changes the record. Answers and cancellations that other processes have written at the same time are kept. If
    /// another leg has written the journal, this leg has lost the run.
    pub(super) async fn amend<T>(&self, mut change: impl FnMut(&mut TaskRecord) -> T) -> Result<T, Stop> {
        if self.is_lost() {
            return Err(Stop::Lost);
        }
        let mut held = self.held.lock().await;
        loop {
            let mut next = held.0.clone();
            if let Some(message) = self.message.lock().unwrap_or_else(PoisonError::into_inner).take() {
                next.message = Some(message);
            }
            let changed = change(&mut next);
            next.written += 1;
            // Each write of the holder extends the hold.
            next.held = next.held.map(|_| self.held_until());
            let written = self.tasks.write(&self.key, &mut next, held.1).await;
            if let Some(revision) = written.map_err(Stop::Failed)? {
                *held = (next, revision);
                return Ok(changed);
            }
            let found = self.tasks.load(&self.key).await.map_err(Stop::Failed)?;
            let same = held.0.written;
            let Some((record, revision)) = found.filter(|(record, _)| record.written == same) else {
                self.lose();
                return Err(Stop::Lost);
            };
            if record.cleaning {
                self.cancel();
            }
            *held = (record, revision);
        }
    }

    /// Sends heartbeats until this future is dropped, or until the job is lost.
    pub(crate) async fn beat(&self) {
        // A slow store must not delay the extension of the lease.
        tokio::select! {
            () = self.beat_lease() => {}
            () = self.beat_record() => {}
        }
    }

    /// Extends the lease of the job until the lease is lost.
    async fn beat_lease(&self) {
        let Some(lease) = &self.lease else { return std::future::pending().await };
        loop {
            tokio::time::sleep(self.tasks.config.heartbeat_interval).await;
            match self.tasks.backend.queue.extend(lease).await {
                Ok(()) => {}
                Err(StoreError::LeaseLost { .. }) => return self.lose(),
                // The lease is still valid, so the next heartbeat tries again.
                Err(error) => {
                    tracing::warn!(%error, task = self.id, "the lease of a job could not be extended; the next heartbeat tries again");
                }
            }
        }
    }

    /// Extends the hold until the run is lost, and checks whether the run was cancelled.
    async fn beat_record(&self) {
        loop {
            tokio::time::sleep(self.tasks.config.heartbeat_interval).await;
            if (self.lease.is_none() || self.holds.load(Ordering::Relaxed))
                && let Err(Stop::Lost) = self.extend_hold().await
            {
                return;
            }
            self.look().await;
        }
    }

    /// Checks whether the run was cancelled, because the announcement may have been lost. Also stores the latest
    /// progress message.
    async fn look(&self) {
        if let Ok(Some((record, _))) = self.tasks.load(&self.key).await
            && record.cleaning
        {
            self.cancel();
        }
        let said = self.message.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !said {
            return;
        }
        let told = self.amend(|record| {
            record.set_status(record.status);
            record.clone()
        });
        if let Ok(record) = told.await {
            self.tasks.announce(&record, false).await;
        }
    }
}

impl Drop for TaskWriter {
    fn drop(&mut self) {
        // Another leg of the same run may have started in this process in the meantime.
        let mut working = self.tasks.working();
        if working.get(&self.id).is_some_and(|writer| std::ptr::eq(writer.as_ptr(), self)) {
            working.remove(&self.id);
        }
    }
}

impl Tasks {
    fn working(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<String, Weak<TaskWriter>>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the writer of the leg that executes a task in this process.
    pub(super) fn writer(&self, id: &str) -> Option<Arc<TaskWriter>> {
        self.working().get(id).and_then(Weak::upgrade)
    }
}

/// Opens the questions that the tool waits for. If a question is already open, its wire key stays the same.
fn put(record: &mut TaskRecord, asks: &BTreeMap<Key, Value>, adapt: impl Fn(&Value) -> Value) {
    let mut new: Vec<(String, Value)> = Vec::new();
    let mut kept = BTreeMap::new();
    for (key, request) in asks {
        if record.answers.contains_key(key.as_str()) {
            continue;
        }
        let request = adapt(request);
        let out = record.asks.iter().find(|(_, asked)| asked.key == key.as_str() && asked.request == request);
        match out.map(|(wire, asked)| (wire.clone(), asked.clone())) {
            Some((wire, asked)) => drop(kept.insert(wire, asked)),
            None => new.push((key.as_str().to_owned(), request)),
        }
    }
    record.asks = kept;
    for (key, request) in new {
        record.ask(&key, request);
    }
}

impl Persistence for TaskWriter {
    fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    fn news(&self) -> Pending<'_, ()> {
        Box::pin(self.news.notified())
    }

    fn clean_up(&self) -> Duration {
        self.tasks.config.cancel_grace
    }

    fn say(&self, message: String) {
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
    }

    fn save<'a>(&'a self, journal: &'a Journal) -> Pending<'a, Result<(), Stop>> {
        let since = Instant::now();
        let saving = self.amend(|record| {
            record.answers.retain(|key, _| journal.asked.contains_key(&Key::from(key.as_str())));
            if !record.claims.is_empty() {
                // If a step has returned, the same write stores its result in the journal, so its claim can be
                // removed. A failed step can be retried, so its claim stays.
                let returned = |step: &str| {
                    journal.entries.iter().any(|entry| {
                        entry.key.as_str() == step && matches!(entry.outcome, JournalOutcome::Done(_))
                    })
                };
                record.claims.retain(|_, claimed| !returned(&claimed.step));
            }
            record.journal = journal.clone();
        });
        Box::pin(async move {
            saving.await?;
            self.confirm(since).await
        })
    }

    fn claim<'a>(
        &'a self,
        idempotency_key: &'a str,
        step: &'a str,
    ) -> Pending<'a, Result<Option<Claimed>, Stop>> {
        Box::pin(self.amend(|record| {
            let known = record.claims.get(idempotency_key).cloned();
            if known.is_none() {
                let claimed = Claimed { step: step.to_owned(), failed: None };
                record.claims.insert(idempotency_key.to_owned(), claimed);
            }
            known
        }))
    }

    fn claim_failed<'a>(
        &'a self,
        idempotency_key: &'a str,
        failure: &'a Failure,
    ) -> Pending<'a, Result<(), Stop>> {
        Box::pin(self.amend(|record| {
            if let Some(claimed) = record.claims.get_mut(idempotency_key) {
                claimed.failed = Some(failure.clone());
            }
        }))
    }
}

impl std::fmt::Debug for TaskWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskWriter").field("id", &self.id).finish_non_exhaustive()
    }
}
