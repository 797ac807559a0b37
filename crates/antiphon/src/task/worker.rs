//! The workers of a process, which lease jobs from all queues. Workers respect the limits for each tool and each
//! caller.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use antiphon_store::{Depth, Error as StoreError, Job, Lease, NewJob};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError},
    time::Instant,
};

use super::{Tasks, config::TaskConfig, leg::JobOutcome, store::JobPayload};
use crate::{
    base::random_id,
    durable::{WAITS, remove_all},
    telemetry::Recorder,
};

/// How long a request to the queue waits for a job.
const WAIT: Duration = Duration::from_secs(20);

/// How long a worker waits after the queue has failed.
const PAUSE: Duration = Duration::from_millis(500);

/// How long the worker caches the number of waiting jobs.
const COUNTED: Duration = Duration::from_secs(5);

/// How long a leased job waits if the tool or the caller has reached the limit of concurrent tasks. After this time,
/// the worker returns the job to the queue, so that other jobs of the queue can start.
const SHARE: Duration = Duration::from_secs(1);

/// The interval at which a server without a backend removes expired records.
const SWEEP: Duration = Duration::from_secs(60);

/// The additional time for which a shutdown waits after `TaskConfig::with_drain`. During this time, the jobs of
/// stopped legs return to the queue.
const HANDED_OVER: Duration = Duration::from_secs(5);

/// The process removes unused kinds of legs only if it has at least this number of kinds. A kind is a tool or a caller.
const SWEEP_KINDS: usize = 1024;

/// The slots for legs. Each leg that runs in this process occupies slots, so that the number of concurrent legs is
/// limited.
pub(super) struct Slots {
    all: Arc<Semaphore>,
    /// The slots for each kind of leg (each tool and each caller). The number is the map size at which the process
    /// removes unused kinds.
    kinds: Mutex<(HashMap<String, Arc<Semaphore>>, usize)>,
    counted: Mutex<Option<(Instant, u64)>>,
}

impl Slots {
    pub(super) fn new(config: &TaskConfig) -> Self {
        let all = Arc::new(Semaphore::new(config.workers.min(Semaphore::MAX_PERMITS)));
        Self { all, kinds: Mutex::new((HashMap::new(), SWEEP_KINDS)), counted: Mutex::default() }
    }

    /// Returns the slots for one tool or one caller. `places` is the number of these slots.
    fn of(&self, kind: String, places: usize) -> Arc<Semaphore> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let (kinds, sweep_at) = &mut *kinds;
        if kinds.len() >= *sweep_at {
            kinds.retain(|_, places| Arc::strong_count(places) > 1);
            *sweep_at = (2 * kinds.len()).max(SWEEP_KINDS);
        }
        Arc::clone(
            kinds
                .entry(kind)
                .or_insert_with(|| Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS)))),
        )
    }

    /// Waits for a slot for the caller, and for a slot for the tool.
    async fn shares(&self, config: &TaskConfig, payload: &JobPayload) -> Vec<OwnedSemaphorePermit> {
        let mut places = Vec::new();
        if config.per_caller < config.workers {
            places.push(self.of(format!("caller {}", payload.owner()), config.per_caller));
        }
        if config.per_tool < config.workers {
            places.push(self.of(format!("tool {}", payload.tool), config.per_tool));
        }
        let mut permits = Vec::with_capacity(places.len());
        for place in places {
            permits.extend(place.acquire_owned().await);
        }
        permits
    }

    /// Returns the number of waiting jobs, which can be up to [`COUNTED`] old.
    pub(super) async fn backlog(&self, tasks: &Tasks) -> u64 {
        let counted = *self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, waiting)) = counted.filter(|(at, _)| at.elapsed() < COUNTED) {
            return waiting;
        }
        // While this code counts the jobs, concurrent callers use the earlier number.
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), counted.map_or(0, |(_, waiting)| waiting)));
        let mut waiting = 0;
        for lane in 0..tasks.config.shards {
            match tasks.backend.queue.depth(&tasks.lane(lane)).await {
                Ok(depth) => waiting += depth.waiting,
                Err(error) => tracing::debug!(%error, "the length of a task queue could not be read"),
            }
        }
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), waiting));
        waiting
    }
}

impl Tasks {
    /// Starts the background work if a Tokio runtime is available. Later calls do nothing.
    pub(crate) fn begin(self: &Arc<Self>) {
        if self.begun.load(Ordering::Acquire) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        runtime.spawn(Self::listen(Arc::downgrade(self)));
        runtime.spawn(Self::watch_alarms(Arc::downgrade(self)));
        if self.is_shared {
            runtime.spawn(Self::compare_rings(Arc::downgrade(self)));
            runtime.spawn(Self::audit(Arc::downgrade(self)));
        }
        if self.sweeps {
            runtime.spawn(Self::sweep(Arc::downgrade(self)));
        }
        if self.runtime.recorder.is_on() {
            runtime.spawn(Self::gauge(Arc::downgrade(self), self.runtime.recorder.clone()));
        }
        if self.config.workers > 0 {
            for lane in 0..self.config.shards {
                runtime.spawn(Self::pull(Arc::downgrade(self), self.lane(lane)));
            }
        }
    }

    /// Removes expired records, if the server has no backend. With a backend, `server/replicas/cleanup.rs` removes
    /// expired records.
    async fn sweep(tasks: Weak<Self>) {
        loop {
            let Some(this) = tasks.upgrade() else { return };
            let (store, stopped) = (Arc::clone(&this.backend.store), this.stopped.clone());
            drop(this);
            tokio::select! {
                biased;
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(SWEEP) => {}
            }
            for prefix in [super::RECORDS, "pieces/", WAITS] {
                if let Err(error) = remove_all(&*store, prefix, &stopped).await {
                    tracing::warn!(%error, prefix, "expired records could not be removed from the store");
                }
            }
        }
    }

    /// Checks whether the queue responds.
    #[cfg(feature = "http")]
    pub(crate) async fn answers(&self) -> antiphon_store::Result<()> {
        self.backend.queue.ping().await
    }

    /// Records the queue depth periodically, because the collection of metrics cannot wait for a response of the queue.
    async fn gauge(tasks: Weak<Self>, recorder: Recorder) {
        loop {
            let Some(this) = tasks.upgrade() else { return };
            let stopped = this.stopped.clone();
            let mut depth = Depth::default();
            let mut known = true;
            for lane in 0..this.config.shards {
                match this.backend.queue.depth(&this.lane(lane)).await {
                    Ok(lane) => {
                        depth.waiting += lane.waiting;
                        depth.leased += lane.leased;
                        depth.dead += lane.dead;
                        depth.estimated |= lane.estimated;
                    }
                    Err(_) => known = false,
                }
            }
            drop(this);
            // Without this check, a partial count could look like an empty queue.
            if known {
                recorder.depth(depth);
            }
            tokio::select! {
                biased;
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(COUNTED) => {}
            }
        }
    }

    /// Leases jobs of one queue until the server stops.
    ///
    /// For each queue, only a few leased jobs wait for a slot. The job that has waited longest gets the next free slot.
    /// So a queue with ten thousand jobs has no priority over a queue with two jobs.
    async fn pull(tasks: Weak<Self>, lane: String) {
        let Some(batch) = tasks.upgrade().map(|tasks| tasks.config.workers.div_ceil(4).min(64)) else {
            return;
        };
        let in_hand = Arc::new(Semaphore::new(batch));
        loop {
            let Ok(first) = Arc::clone(&in_hand).acquire_owned().await else { return };
            let mut hands = vec![first];
            while let Ok(hand) = Arc::clone(&in_hand).try_acquire_owned() {
                hands.push(hand);
            }
            if !Self::unblocked(&tasks).await {
                return;
            }
            let Some(this) = tasks.upgrade() else { return };
            let (queue, stopped) = (Arc::clone(&this.backend.queue), this.stopped.clone());
            drop(this);
            let leased = tokio::select! {
                biased;
                () = stopped.cancelled() => return,
                leased = queue.lease(&lane, hands.len(), WAIT) => leased,
            };
            let jobs = match leased {
                Ok(jobs) => jobs,
                Err(error) => {
                    tracing::warn!(%error, "jobs could not be leased from the queue");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if stopped.is_cancelled() {
                for job in jobs {
                    let _ = queue.nack(&job.lease, Duration::ZERO).await;
                }
                return;
            }
            let Some(tasks) = tasks.upgrade() else { return };
            for (job, hand) in jobs.into_iter().zip(hands) {
                let tasks = Arc::clone(&tasks);
                tokio::spawn(async move { tasks.job(job, hand).await });
            }
        }
    }

    /// Reserves a slot for a leg that runs without a job. Returns `None` if this process executes no jobs, because such
    /// a process needs no slots.
    ///
    /// # Errors
    ///
    /// Returns an error if all slots are taken.
    pub(crate) fn place(&self) -> Result<Option<OwnedSemaphorePermit>, TryAcquireError> {
        if self.config.workers == 0 {
            return Ok(None);
        }
        Arc::clone(&self.slots.all).try_acquire_owned().map(Some)
    }

    /// Waits until no leg runs in this process. At that time, each leg has finished, or the job of the leg is queued
    /// again.
    pub(crate) async fn drained(&self) {
        let places = u32::try_from(self.config.workers.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let limit = self.config.drain.saturating_add(HANDED_OVER);
        if tokio::time::timeout(limit, self.slots.all.acquire_many(places)).await.is_err() {
            tracing::warn!(
                "some runs did not stop within {limit:?}; other workers continue them after their leases expire"
            );
        }
    }

    async fn job(self: &Arc<Self>, job: Job, hand: OwnedSemaphorePermit) {
        let lease = &job.lease;
        let mut leased = self.runtime.recorder.leased(job.attempt);
        let Some(payload) = JobPayload::read(&job.payload) else {
            tracing::error!(job = job.id(), "a job has an invalid payload and was moved to the dead letters");
            leased.became("buried");
            let _ = self.backend.queue.bury(lease).await;
            return;
        };
        let place = async {
            let shares = tokio::time::timeout(SHARE, self.slots.shares(&self.config, &payload)).await.ok()?;
            // This code takes the slot that limits all legs last. So a job never holds this slot while the job waits
            // for another slot.
            Some((shares, Arc::clone(&self.slots.all).acquire_owned().await.ok()))
        };
        let placed = tokio::select! {
            biased;
            // At shutdown, the worker returns jobs that have not started to the queue, so that other replicas can
            // execute these jobs.
            () = self.stopped.cancelled() => Some(Err(Duration::ZERO)),
            placed = self.while_held(lease, place) => placed.map(|placed| placed.ok_or(SHARE)),
        };
        let _places = match placed {
            Some(Ok(places)) => places,
            Some(Err(wait)) => {
                // If the queue fails now, the queue delivers the job again when the lease expires.
                let _ = self.later(&job, &payload, wait).await;
                return;
            }
            None => return leased.became("lost"),
        };
        drop(hand);
        let work = Box::pin(self.leg(&payload, &job));
        let ended = async {
            self.stopped.cancelled().await;
            tokio::time::sleep(self.config.drain).await;
        };
        let then = tokio::select! {
            biased;
            then = work => then,
            // Another worker can continue the run immediately. A graceful shutdown does not count as a worker death.
            () = ended => JobOutcome::Later(Duration::ZERO),
        };
        leased.became(match then {
            JobOutcome::Done => "done",
            JobOutcome::Later(_) | JobOutcome::Unreadable => "later",
            JobOutcome::Lost => "lost",
        });
        let told = match then {
            JobOutcome::Done => self.backend.queue.ack(lease).await,
            JobOutcome::Later(wait) => self.later(&job, &payload, wait).await,
            JobOutcome::Unreadable => self.hand_on(&job, &payload).await,
            // An earlier leg that has lost its lease may have written the record last. Then this worker has the job,
            // but no leg executes the run. So the worker returns the job to the queue.
            JobOutcome::Lost => self.backend.queue.nack(lease, PAUSE).await,
        };
        match told {
            Ok(()) | Err(StoreError::LeaseLost { .. }) => {}
            // The queue delivers the job again, and the next worker finds that the leg has already ended.
            Err(error) => {
                tracing::warn!(%error, "the queue could not be updated after a job ended; the job is delivered again");
            }
        }
    }

    /// Queues a job again, because this replica cannot read the record of the run. The delay before the next delivery
    /// grows exponentially, up to 256 seconds.
    async fn hand_on(&self, job: &Job, payload: &JobPayload) -> Result<(), StoreError> {
        /// A marker in the job ID. In the job ID, the number of failed reads follows this marker.
        const TIMES: &str = "~unread";
        let before = job.id().split_once(TIMES).and_then(|(_, rest)| rest.split('~').next()?.parse().ok());
        let times: u32 = before.unwrap_or(0);
        let wait = Duration::from_secs(1 << times.min(8));
        let task = payload.key.rsplit('/').next().unwrap_or_default();
        let id = format!("{task}{TIMES}{}~{}", times.saturating_add(1), random_id());
        self.queue_anew(job, id, wait).await
    }

    /// Queues a new job for a leg that could not run, and removes the old job. A new job is necessary, because the
    /// server counts repeated deliveries of a job as worker deaths.
    ///
    /// New jobs alternate between two IDs. The search for lost jobs uses a third ID. So a leg never has more than three
    /// jobs. If two processes queue a job with the same ID, the queue keeps only one of these jobs. If the search may
    /// have duplicated the job of a leg, the leg marks the run as held before the leg starts.
    async fn later(&self, job: &Job, payload: &JobPayload, wait: Duration) -> Result<(), StoreError> {
        let task = payload.key.rsplit('/').next().unwrap_or_default();
        let first = Self::job_id(task, payload.number);
        let turn = if job.id().ends_with("~again") { "once-more" } else { "again" };
        self.queue_anew(job, format!("{first}~{turn}"), wait).await
    }

    async fn queue_anew(&self, job: &Job, id: String, wait: Duration) -> Result<(), StoreError> {
        let lane = &job.lease.queue;
        let again = NewJob::new(id, job.payload.clone()).with_delay(wait);
        match self.backend.queue.push(lane, again).await {
            Ok(_) => self.backend.queue.ack(&job.lease).await,
            Err(_) => self.backend.queue.nack(&job.lease, wait).await,
        }
    }

    /// Waits for `wait` and extends the lease during this time. Returns `None` if the lease was lost.
    pub(super) async fn while_held<T>(&self, lease: &Lease, wait: impl Future<Output = T>) -> Option<T> {
        let mut wait = std::pin::pin!(wait);
        loop {
            if let Ok(done) = tokio::time::timeout(self.config.heartbeat_interval, wait.as_mut()).await {
                return Some(done);
            }
            let extended = self.backend.queue.extend(lease).await;
            if matches!(extended, Err(StoreError::LeaseLost { .. })) {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_nobody_works_on_are_forgotten() {
        let slots = Slots::new(&TaskConfig::default());
        let held = slots.of("held".into(), 1);
        for number in 0..10 * SWEEP_KINDS {
            slots.of(format!("kind {number}"), 1);
        }
        let kinds = slots.kinds.lock().unwrap();
        assert!(kinds.0.len() <= SWEEP_KINDS, "{} kinds", kinds.0.len());
        assert!(Arc::ptr_eq(&kinds.0["held"], &held));
    }
}
