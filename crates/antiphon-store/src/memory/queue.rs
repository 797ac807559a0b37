use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{sync::Notify, time::Instant};

use crate::{
    error::Result,
    name,
    queue::{DeadJob, Depth, Job, Lease, NewJob, Pushed, Queue, QueueConfig, check_job},
    store::{Cursor, Page},
};

/// A [`Queue`] in the memory of this process. Clones of a `MemoryQueue` share the jobs.
#[derive(Clone, Debug, Default)]
pub struct MemoryQueue {
    jobs: Jobs,
    config: QueueConfig,
}

/// The jobs of all queues. Several `MemoryQueue`s with different configurations can share one `Jobs` value.
pub(super) type Jobs = Arc<Mutex<HashMap<String, Line>>>;

/// The jobs of one queue in memory.
#[derive(Debug, Default)]
pub(super) struct Line {
    jobs: HashMap<String, Entry>,
    /// The times at which delayed jobs become available, and at which leases expire.
    due: BTreeSet<(Instant, u64, String)>,
    turn: u64,
    /// The number of jobs in each state, kept up to date so that `depth` need not count the jobs.
    depth: Depth,
    pushed: Arc<Notify>,
}

#[derive(Debug)]
struct Entry {
    payload: Bytes,
    attempts: u32,
    /// The token of the last lease, even if this lease has expired.
    token: u64,
    place: JobState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    Waiting { due: Instant, turn: u64 },
    Leased { until: Instant, turn: u64 },
    Dead,
}

impl Line {
    fn turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// Changes the state of a job to `place`, and updates the index of due times and the counts of jobs.
    fn put(&mut self, id: &str, place: JobState) {
        let entry = self.jobs.get_mut(id).expect("only an existing job is moved");
        if let Some((time, turn)) = entry.place.time() {
            self.due.remove(&(time, turn, id.to_owned()));
        }
        *entry.place.among(&mut self.depth) -= 1;
        *place.among(&mut self.depth) += 1;
        entry.place = place;
        if let Some((time, turn)) = place.time() {
            self.due.insert((time, turn, id.to_owned()));
        }
    }

    fn wait(&mut self, id: &str, delay: Duration) {
        let turn = self.turn();
        self.put(id, JobState::Waiting { due: Instant::now() + delay, turn });
        self.pushed.notify_waiters();
    }

    fn remove(&mut self, id: &str) {
        let Some(entry) = self.jobs.remove(id) else { return };
        *entry.place.among(&mut self.depth) -= 1;
        if let Some((time, turn)) = entry.place.time() {
            self.due.remove(&(time, turn, id.to_owned()));
        }
    }

    /// Adds a job that can be leased after `delay`.
    fn add(&mut self, job: NewJob) {
        let entry = Entry { payload: job.payload, attempts: 0, token: 0, place: JobState::Dead };
        self.jobs.insert(job.id.clone(), entry);
        self.depth.dead += 1;
        self.wait(&job.id, job.delay);
    }

    /// Leases up to `limit` due jobs. A job whose lease has expired is due.
    fn lease(&mut self, queue: &str, limit: usize, config: &QueueConfig) -> Vec<Job> {
        let now = Instant::now();
        let mut leased = Vec::new();
        while leased.len() < limit {
            let Some((time, _, id)) = self.due.first().cloned() else { break };
            if time > now {
                break;
            }
            if self.jobs[&id].attempts >= config.max_attempts {
                self.put(&id, JobState::Dead);
                continue;
            }
            let turn = self.turn();
            self.put(&id, JobState::Leased { until: now + config.lease, turn });
            let entry = self.jobs.get_mut(&id).expect("the job was moved above");
            entry.attempts += 1;
            entry.token = turn;
            let lease = Lease::new(queue, id, turn.to_string());
            leased.push(Job::new(entry.payload.clone(), entry.attempts, lease));
        }
        leased
    }
}

impl JobState {
    fn time(self) -> Option<(Instant, u64)> {
        match self {
            Self::Waiting { due: time, turn } | Self::Leased { until: time, turn } => Some((time, turn)),
            Self::Dead => None,
        }
    }

    /// Returns the counter of the jobs that have the state `self`.
    fn among(self, depth: &mut Depth) -> &mut u64 {
        match self {
            Self::Waiting { .. } => &mut depth.waiting,
            Self::Leased { .. } => &mut depth.leased,
            Self::Dead => &mut depth.dead,
        }
    }
}

impl MemoryQueue {
    pub(super) fn over(jobs: Jobs, config: QueueConfig) -> Self {
        Self { jobs, config }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<String, Line>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `change` to the job of a lease, if the lease is valid.
    fn held(&self, lease: &Lease, change: impl FnOnce(&mut Line)) -> Result<()> {
        let mut lines = self.lines();
        let line = lines.get_mut(&lease.queue).ok_or_else(|| lease.lost())?;
        let entry = line.jobs.get(&lease.id).ok_or_else(|| lease.lost())?;
        let held = matches!(entry.place, JobState::Leased { .. }) && entry.token.to_string() == lease.token;
        if !held {
            return Err(lease.lost());
        }
        change(line);
        Ok(())
    }

    /// Applies `change` to a dead job. Returns `false` if the queue has no dead job with the ID `id`.
    fn dead_job(&self, queue: &str, id: &str, change: impl FnOnce(&mut Line)) -> Result<bool> {
        name::check_segment(queue)?;
        name::check_segment(id)?;
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(queue) else { return Ok(false) };
        let is_dead = line.jobs.get(id).is_some_and(|entry| entry.place == JobState::Dead);
        if is_dead {
            change(line);
        }
        Ok(is_dead)
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed> {
        check_job(queue, &job)?;
        let mut lines = self.lines();
        let line = lines.entry(queue.to_owned()).or_default();
        if line.jobs.contains_key(&job.id) {
            return Ok(Pushed::Duplicate);
        }
        line.add(job);
        Ok(Pushed::Added)
    }

    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        name::check_segment(queue)?;
        let ends = Instant::now() + wait;
        loop {
            let (pushed, next) = {
                let mut lines = self.lines();
                let line = lines.entry(queue.to_owned()).or_default();
                let leased = line.lease(queue, limit, &self.config);
                if !leased.is_empty() || limit == 0 || Instant::now() >= ends {
                    return Ok(leased);
                }
                // Register this worker before the lock is released, so that the worker misses no push.
                let mut pushed = Box::pin(Arc::clone(&line.pushed).notified_owned());
                pushed.as_mut().enable();
                (pushed, line.due.first().map(|(time, ..)| *time))
            };
            let _ = tokio::time::timeout_at(next.map_or(ends, |next| next.min(ends)), pushed).await;
        }
    }

    async fn extend(&self, lease: &Lease) -> Result<()> {
        let lasts = self.config.lease;
        self.held(lease, |line| {
            let turn = line.turn();
            line.put(&lease.id, JobState::Leased { until: Instant::now() + lasts, turn });
        })
    }

    async fn ack(&self, lease: &Lease) -> Result<()> {
        self.held(lease, |line| line.remove(&lease.id))
    }

    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()> {
        let max_attempts = self.config.max_attempts;
        self.held(lease, |line| {
            if line.jobs[&lease.id].attempts >= max_attempts {
                line.put(&lease.id, JobState::Dead);
            } else {
                line.wait(&lease.id, delay);
            }
        })
    }

    async fn bury(&self, lease: &Lease) -> Result<()> {
        self.held(lease, |line| line.put(&lease.id, JobState::Dead))
    }

    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>> {
        name::check_segment(queue)?;
        let lines = self.lines();
        let mut dead: Vec<_> = lines
            .get(queue)
            .into_iter()
            .flat_map(|line| &line.jobs)
            .filter(|(id, entry)| entry.place == JobState::Dead && after.is_none_or(|after| after.0 < **id))
            .collect();
        dead.sort_by_key(|(id, _)| *id);
        let more = dead.len() > limit;
        dead.truncate(limit);
        let items: Vec<_> = dead
            .into_iter()
            .map(|(id, entry)| DeadJob::new(id, entry.payload.clone(), entry.attempts))
            .collect();
        let next = if more { items.last().map(|last| Cursor(last.id.clone())) } else { None };
        Ok(Page { items, next })
    }

    async fn revive(&self, queue: &str, id: &str) -> Result<bool> {
        self.dead_job(queue, id, |line| {
            let entry = line.jobs.get_mut(id).expect("the job was found dead");
            entry.attempts = 0;
            line.wait(id, Duration::ZERO);
        })
    }

    async fn discard(&self, queue: &str, id: &str) -> Result<bool> {
        self.dead_job(queue, id, |line| line.remove(id))
    }

    async fn depth(&self, queue: &str) -> Result<Depth> {
        name::check_segment(queue)?;
        Ok(self.lines().get(queue).map(|line| line.depth).unwrap_or_default())
    }
}
