//! Who works on legs: in turn for every lane, and on no more of one kind than is its share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use antiphon_store::{Depth, Error as StoreError, Job, Lease, NewJob};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::{Tasks, config::TaskConfig, leg::JobOutcome, store::JobPayload};
use crate::{base::random_id, durable::remove_all, telemetry::Recorder};

/// How long a worker waits for a job before it asks again.
const WAIT: Duration = Duration::from_secs(20);

/// How long to wait after the queue has failed.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a number of waiting jobs is good for.
const COUNTED: Duration = Duration::from_secs(5);

/// How long a leg waits in hand for its share before others of its lane are let past.
const SHARE: Duration = Duration::from_secs(1);

/// How often a server without replicas looks for what has expired.
const SWEEP: Duration = Duration::from_secs(60);

/// How much longer than a leg a server waits when it ends, so that the leg's job is back in the queue by then.
const HANDED_OVER: Duration = Duration::from_secs(5);

/// How many kinds of legs are remembered before those are forgotten that nobody works on.
const SWEEP_KINDS: usize = 1024;

/// The places to work at.
pub(super) struct Slots {
    all: Arc<Semaphore>,
    /// The places of each kind, and at how many kinds those are removed that nobody uses.
    kinds: Mutex<(HashMap<String, Arc<Semaphore>>, usize)>,
    counted: Mutex<Option<(Instant, u64)>>,
}

impl Slots {
    pub(super) fn new(config: &TaskConfig) -> Self {
        let all = Arc::new(Semaphore::new(config.workers.min(Semaphore::MAX_PERMITS)));
        Self { all, kinds: Mutex::new((HashMap::new(), SWEEP_KINDS)), counted: Mutex::default() }
    }

    /// The places for one kind of leg, of which there are so many.
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

    /// Waits for a place among those of the same tool and caller.
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

    /// How many jobs wait, or waited a moment ago.
    pub(super) async fn backlog(&self, tasks: &Tasks) -> u64 {
        let counted = *self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, waiting)) = counted.filter(|(at, _)| at.elapsed() < COUNTED) {
            return waiting;
        }
        // Whoever else asks meanwhile is told what was.
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), counted.map_or(0, |(_, waiting)| waiting)));
        let mut waiting = 0;
        for lane in 0..tasks.config.shards {
            match tasks.backend.queue.depth(&tasks.lane(lane)).await {
                Ok(depth) => waiting += depth.waiting,
                Err(error) => tracing::debug!(%error, "nobody knows how many tasks wait"),
            }
        }
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), waiting));
        waiting
    }
}

impl Tasks {
    /// Begins to work and to listen, once, where there is a runtime to do it in.
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

    /// Removes what has expired, where no replicas do it together.
    async fn sweep(tasks: Weak<Self>) {
        loop {
            let Some(this) = tasks.upgrade() else { return };
            let (store, stopped) = (Arc::clone(&this.backend.store), this.stopped.clone());
            drop(this);
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(SWEEP) => {}
            }
            for prefix in [super::RECORDS, "pieces/"] {
                if let Err(error) = remove_all(&*store, prefix, &stopped).await {
                    tracing::warn!(%error, prefix, "what has expired could not be removed");
                }
            }
        }
    }

    /// Whether the queue answers.
    #[cfg(feature = "http")]
    pub(crate) async fn answers(&self) -> antiphon_store::Result<()> {
        self.backend.queue.ping().await
    }

    /// Tells how many jobs there are, from time to time: whoever collects metrics cannot wait for a queue.
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
            // Half a number would look like an empty queue.
            if known {
                recorder.depth(depth);
            }
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(COUNTED) => {}
            }
        }
    }

    /// Takes jobs of one lane for as long as there is a server. A lane has a few jobs in hand that wait for a place, and
    /// places are given in turn: a lane with ten thousand waits no less for its next than one with two.
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
                () = stopped.cancelled() => return,
                leased = queue.lease(&lane, hands.len(), WAIT) => leased,
            };
            let jobs = match leased {
                Ok(jobs) => jobs,
                Err(error) => {
                    tracing::warn!(%error, "no jobs can be had");
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

    /// A place for a leg that no job runs; none is needed where this process works on no others.
    ///
    /// # Errors
    ///
    /// Where all are taken.
    pub(crate) fn place(&self) -> Result<Option<OwnedSemaphorePermit>, TryAcquireError> {
        if self.config.workers == 0 {
            return Ok(None);
        }
        Arc::clone(&self.slots.all).try_acquire_owned().map(Some)
    }

    /// Waits until no leg is being worked on here: each has finished, or its job is in the queue again.
    pub(crate) async fn drained(&self) {
        let places = u32::try_from(self.config.workers.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let limit = self.config.drain.saturating_add(HANDED_OVER);
        if tokio::time::timeout(limit, self.slots.all.acquire_many(places)).await.is_err() {
            tracing::warn!("legs of tasks were not handed over within {limit:?}; their leases expire first");
        }
    }

    async fn job(self: &Arc<Self>, job: Job, hand: OwnedSemaphorePermit) {
        let lease = &job.lease;
        let mut leased = self.runtime.recorder.leased(job.attempt);
        let Some(payload) = JobPayload::read(&job.payload) else {
            tracing::error!(job = job.id(), "a job says nothing of a task");
            leased.became("buried");
            let _ = self.backend.queue.bury(lease).await;
            return;
        };
        let place = async {
            let shares = tokio::time::timeout(SHARE, self.slots.shares(&self.config, &payload)).await.ok()?;
            // The common place comes last, so that nobody holds it while it waits for another.
            Some((shares, Arc::clone(&self.slots.all).acquire_owned().await.ok()))
        };
        let placed = tokio::select! {
            biased;
            // What has not begun is for those who stay.
            () = self.stopped.cancelled() => Some(Err(Duration::ZERO)),
            placed = self.while_held(lease, place) => placed.map(|placed| placed.ok_or(SHARE)),
        };
        let _places = match placed {
            Some(Ok(places)) => places,
            Some(Err(wait)) => {
                // If this fails, it comes back when its lease has run out.
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
            then = work => then,
            // Whoever is left goes on at once: a server that ends in peace is not a worker that died over the run.
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
            // A leg that has lost its lease may have written last. Then this one has the job, and nobody has the run.
            JobOutcome::Lost => self.backend.queue.nack(lease, PAUSE).await,
        };
        match told {
            Ok(()) | Err(StoreError::LeaseLost { .. }) => {}
            // It comes again, and whoever gets it finds that there is nothing to do.
            Err(error) => tracing::warn!(%error, "that a leg is over could not be told"),
        }
    }

    /// Leaves a run that this replica cannot read to the others, and to itself for later: each time it takes longer.
    async fn hand_on(&self, job: &Job, payload: &JobPayload) -> Result<(), StoreError> {
        /// Stands in the id of a job, before how often nobody could read its run.
        const TIMES: &str = "~unread";
        let before = job.id().split_once(TIMES).and_then(|(_, rest)| rest.split('~').next()?.parse().ok());
        let times: u32 = before.unwrap_or(0);
        let wait = Duration::from_secs(1 << times.min(8));
        let task = payload.key.rsplit('/').next().unwrap_or_default();
        let id = format!("{task}{TIMES}{}~{}", times.saturating_add(1), random_id());
        self.queue_anew(job, id, wait).await
    }

    /// Queues a leg again that could not run, as another job: attempts of one count as deaths. Two IDs take turns, so there
    /// are never more than three jobs of a leg. A search for lost jobs adds the first ID, which none of them is: if two jobs
    /// of a leg are queued again at the same time, one of them stays. A leg that a search can have doubled holds its run
    /// first.
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

    /// Waits for something without losing the lease over it. `None` if it was lost.
    pub(super) async fn while_held<T>(&self, lease: &Lease, wait: impl Future<Output = T>) -> Option<T> {
        let mut wait = std::pin::pin!(wait);
        loop {
            match tokio::time::timeout(self.config.heartbeat_interval, wait.as_mut()).await {
                Ok(done) => return Some(done),
                Err(_) => {
                    if let Err(StoreError::LeaseLost { .. }) = self.backend.queue.extend(lease).await {
                        return None;
                    }
                }
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
