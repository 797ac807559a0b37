//! Stores the progress and the results of a leg.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex as StdMutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use antiphon_replay::{Failure, Journal, Suspension};
use antiphon_store::{Error as StoreError, Lease, Revision};
use serde_json::Value;
use tokio::{
    sync::{Mutex, Notify, OwnedSemaphorePermit},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Ended, Tasks,
    record::{Due, TaskRecord},
    reducer::{Effect, Reply, Transition},
};
use crate::{
    base::{Defect, lock, millis, now_millis},
    error::Error,
    run::{Claimed, Pending, Persistence, Stop},
};

/// The object through which a leg writes the record of a run. Only one leg of a run can write at a time.
pub(crate) struct TaskWriter {
    tasks: Arc<Tasks>,
    pub(super) key: String,
    pub(super) id: String,
    held: Mutex<(TaskRecord, Revision)>,
    /// The question keys of the answers that the tool received at the start of the leg. When the tool waits again, the
    /// record no longer needs these answers, because the tool has used or ignored them.
    given: StdMutex<BTreeSet<String>>,
    /// The latest progress message, which the next write or heartbeat stores.
    message: StdMutex<Option<String>>,
    /// Whether this leg has marked the run as held.
    holds: AtomicBool,
    /// Wakes the driver of the leg.
    news: Notify,
    lost: CancellationToken,
    cancelled: CancellationToken,
    /// The lease of the job. The value is `None` if the leg runs without a job.
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

    /// Marks the run as lost, because another process executes the run now. After this call, the driver starts no new
    /// work.
    pub(crate) fn lose(&self) {
        self.lost.cancel();
        self.news.notify_one();
    }

    /// Returns the record from which the leg continues. Also remembers which answers the tool receives from this
    /// record.
    pub(super) async fn begin(&self) -> TaskRecord {
        let record = self.record().await;
        *lock(&self.given) = record.answers.keys().cloned().collect();
        record
    }

    /// Returns the record as this leg last read or wrote it.
    pub(super) async fn record(&self) -> TaskRecord {
        self.held.lock().await.0.clone()
    }

    /// Stores that the tool waits for answers, for the time `due`, or for both. Returns `true` if answers have already
    /// arrived, so that the next leg can start immediately.
    pub(super) async fn suspend(
        &self,
        suspension: &Suspension,
        due: Option<u64>,
        adapt: impl Fn(&Value) -> Value,
    ) -> Result<bool, Stop> {
        let Suspension { journal, asks } = suspension;
        let given = std::mem::take(&mut *lock(&self.given));
        if !asks.is_empty() {
            // This code adds the run to the list of waiting runs before it stores the questions. So if a reader finds
            // the questions, the run is already in the list.
            let held = self.held.lock().await;
            self.tasks.list_waiting(&held.0).await;
        }
        let asks = asks.iter().map(|(key, request)| (key.clone(), adapt(request))).collect();
        let effect = self.amend(Transition::Suspend { journal, asks: &asks, due, given: &given }).await?;
        let record = self.record().await;
        if let Some(due) = effect.job {
            self.push(&record, due).await?;
        }
        let more = effect.reply == Reply::Continue;
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
        self.end_with(Transition::End { journal: Some(journal), ended, message, event: "ended", dead: false })
            .await
    }

    /// Ends the run. If the run was cancelled, the status of the run stays cancelled. If `dead` is `true`, the server
    /// gives up the run, and an operator must retry or remove the run.
    pub(super) async fn end(
        &self,
        ended: &Ended,
        message: Option<&str>,
        event: &str,
        dead: bool,
    ) -> Result<(), Stop> {
        self.end_with(Transition::End { journal: None, ended, message, event, dead }).await
    }

    async fn end_with(&self, end: Transition<'_>) -> Result<(), Stop> {
        self.amend(end).await?;
        let record = self.record().await;
        self.tasks.unlist_waiting(&record).await;
        self.tasks.announce(&record, false).await;
        Ok(())
    }

    /// Schedules a retry after the time `wait`. `journal` must not contain the steps that failed last, so that the
    /// retry runs these steps again.
    pub(super) async fn retry(&self, journal: &Journal, wait: Duration, why: &str) -> Result<(), Stop> {
        self.schedule(Transition::Fail { journal, wait: millis(wait), why }).await
    }

    /// Schedules the next leg after the time `wait`, for a replica that has the tool. A missing tool does not count as
    /// a failed attempt.
    pub(super) async fn wait_for_tool(&self, wait: Duration, why: &str) -> Result<(), Stop> {
        self.schedule(Transition::WaitForTool { wait: millis(wait), why }).await
    }

    async fn schedule(&self, transition: Transition<'_>) -> Result<(), Stop> {
        let effect = self.amend(transition).await?;
        let Some(due) = effect.job else { return Ok(()) };
        let record = self.record().await;
        self.push(&record, due).await
    }

    /// Queues the job of the next leg. If the queue fails, the current leg must not acknowledge the current job. The
    /// queue then delivers the current job to another worker, which queues the next leg from the record.
    async fn push(&self, record: &TaskRecord, due: Due) -> Result<(), Stop> {
        if self.tasks.push(&self.key, record, due, now_millis()).await {
            return Ok(());
        }
        Err(Stop::Failed(Error::tool(
            "the run cannot continue now: the server could not add the job for its next leg to the queue",
        )))
    }

    /// Marks the run as held for a few heartbeat intervals, so that no other leg starts. A hold is necessary if the leg
    /// has no job, or if the record contains another job.
    pub(super) async fn hold(&self) -> Result<(), Stop> {
        self.holds.store(true, Ordering::Relaxed);
        let since = Instant::now();
        let until = self.held_until();
        self.amend(Transition::Hold { until }).await?;
        self.confirm(since).await
    }

    /// Checks after a slow write that no other worker has taken over the run. Without this check, the leg could run
    /// another step although the lease or the hold has expired.
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

    /// Extends the hold, unless the leg was suspended or has ended. The hold ends with the leg and must not begin
    /// again. If the hold began again, the next leg would not start until the hold expires.
    async fn extend_hold(&self) -> Result<(), Stop> {
        if self.held.lock().await.0.held.is_none() {
            return Ok(());
        }
        // The method `amend` extends the hold.
        self.amend(Transition::Touch { progress: false }).await.map(drop)
    }

    fn held_until(&self) -> u64 {
        now_millis() + millis(super::promote::HOLD * self.tasks.config.heartbeat_interval)
    }

    /// Applies a transition to the record. Keeps answers and cancellations that other processes have written at the
    /// same time. If another leg has written the journal, this leg has lost the run and stops.
    async fn amend(&self, transition: Transition<'_>) -> Result<Effect, Stop> {
        if self.is_lost() {
            return Err(Stop::Lost);
        }
        let mut held = self.held.lock().await;
        loop {
            let mut next = held.0.clone();
            let message = lock(&self.message).take();
            let effect = next.apply_by_leg(transition, message, self.held_until(), now_millis());
            let written = self.tasks.write(&self.key, &mut next, held.1).await;
            if let Some(revision) = written.map_err(Stop::Failed)? {
                *held = (next, revision);
                return Ok(effect);
            }
            let found = self.tasks.load(&self.key).await.map_err(Stop::Failed)?;
            if let Some((_, revision)) = &found
                && Defect::OthersOverwritten.is_planted()
            {
                held.1 = *revision;
                continue;
            }
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

    /// Sends heartbeats until this future is dropped, or until another worker has taken over the job.
    pub(crate) async fn beat(&self) {
        // The two heartbeats run concurrently, because a slow store must not delay the extension of the lease.
        tokio::select! {
            biased;
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

    /// Reads the record to check whether the run was cancelled, because the announcement may have been lost. Also
    /// stores the latest progress message.
    async fn look(&self) {
        if let Ok(Some((record, _))) = self.tasks.load(&self.key).await
            && record.cleaning
        {
            self.cancel();
        }
        let said = lock(&self.message).is_some();
        if !said {
            return;
        }
        if self.amend(Transition::Touch { progress: true }).await.is_ok() {
            let record = self.record().await;
            self.tasks.announce(&record, false).await;
        }
    }
}

impl Drop for TaskWriter {
    fn drop(&mut self) {
        // Another leg of this run may have started in this process before this leg was dropped.
        let mut working = self.tasks.working();
        if working.get(&self.id).is_some_and(|writer| std::ptr::eq(writer.as_ptr(), self)) {
            working.remove(&self.id);
        }
    }
}

impl Tasks {
    fn working(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<String, Weak<TaskWriter>>> {
        lock(&self.working)
    }

    /// Returns the writer of the leg that executes a task in this process.
    pub(super) fn writer(&self, id: &str) -> Option<Arc<TaskWriter>> {
        self.working().get(id).and_then(Weak::upgrade)
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
        *lock(&self.message) = Some(message);
    }

    fn save<'a>(&'a self, journal: &'a Journal) -> Pending<'a, Result<(), Stop>> {
        Box::pin(async move {
            let since = Instant::now();
            if Defect::StepNotStored.is_planted() {
                return Ok(());
            }
            self.amend(Transition::Save { journal }).await?;
            self.confirm(since).await
        })
    }

    fn claim<'a>(
        &'a self,
        idempotency_key: &'a str,
        step: &'a str,
    ) -> Pending<'a, Result<Option<Claimed>, Stop>> {
        Box::pin(async move {
            let since = Instant::now();
            let effect = self.amend(Transition::Claim { idempotency_key, step }).await?;
            self.confirm(since).await?;
            Ok(if let Reply::Claimed(claimed) = effect.reply { Some(claimed) } else { None })
        })
    }

    fn claim_failed<'a>(
        &'a self,
        idempotency_key: &'a str,
        failure: &'a Failure,
    ) -> Pending<'a, Result<(), Stop>> {
        let failed = Transition::ClaimFailed { idempotency_key, failure };
        Box::pin(async move { self.amend(failed).await.map(drop) })
    }
}

impl std::fmt::Debug for TaskWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskWriter").field("id", &self.id).finish_non_exhaustive()
    }
}
