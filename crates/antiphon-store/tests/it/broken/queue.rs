//! A queue with a fault.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
    time::Duration,
};

use antiphon_store::{
    Cursor, DeadJob, Depth, Error, Job, Lease, MAX_PAYLOAD, MemoryQueue, NewJob, Page, Pushed, Queue, Result,
};
use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::{
    backend::{Broken, lock},
    fault::Fault,
};

/// What faults remember of a queue.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The ids that were ever pushed.
    pushed: Mutex<HashSet<String>>,
    /// The last lease of a job, and when it was given.
    leases: Mutex<HashMap<String, (Lease, Instant)>>,
    /// What the next worker is given, too.
    again: Mutex<Vec<Job>>,
    /// How often a job was tried before it was revived.
    tried: Mutex<HashMap<String, u32>>,
}

impl Broken {
    fn queue(&self) -> MemoryQueue {
        self.space.memory.queue(self.config.clone())
    }

    /// What becomes of a queue's name.
    fn queue_name(&self, queue: &str) -> String {
        if self.has(Fault::QueuesAreOne) { "work".to_owned() } else { self.name(queue) }
    }

    /// The lease that counts when `lease` is shown.
    fn fenced(&self, lease: &Lease) -> Result<Lease> {
        let leases = lock(&self.space.queue.leases);
        let last = leases.get(&lease.id);
        match (self.fault, last) {
            (Some(Fault::LeasesAreNotFenced), Some((last, _))) => Ok(last.clone()),
            (Some(Fault::LeasesAreLostOnTheHour), Some((last, given)))
                if last == lease && given.elapsed() > self.config.lease() =>
            {
                Err(lease.lost())
            }
            _ => Ok(lease.clone()),
        }
    }

    /// What becomes of a job on its way out.
    fn given(&self, mut job: Job) -> Job {
        lock(&self.space.queue.leases).insert(job.id().to_owned(), (job.lease.clone(), Instant::now()));
        match self.fault {
            Some(Fault::AttemptsBeginAtZero) => job.attempt -= 1,
            Some(Fault::AttemptsAreNotCounted) => job.attempt = 1,
            Some(Fault::RevivedIsOld) => {
                job.attempt += lock(&self.space.queue.tried).get(job.id()).copied().unwrap_or(0);
            }
            _ => {}
        }
        job
    }

    /// Waits for jobs as the fault has it.
    async fn wait(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        match self.fault {
            Some(Fault::WorkersDoNotWait) => self.queue().lease(queue, limit, Duration::ZERO).await,
            Some(Fault::WorkersPoll) => {
                let ends = Instant::now() + wait;
                loop {
                    let jobs = self.queue().lease(queue, limit, Duration::ZERO).await?;
                    if !jobs.is_empty() || Instant::now() >= ends {
                        return Ok(jobs);
                    }
                    sleep(Duration::from_secs(6)).await;
                }
            }
            _ => self.queue().lease(queue, limit, wait).await,
        }
    }
}

#[async_trait]
impl Queue for Broken {
    async fn push(&self, queue: &str, mut job: NewJob) -> Result<Pushed> {
        let queue = &self.queue_name(queue);
        job.id = self.name(&job.id);
        job.payload = self.bytes(job.payload, MAX_PAYLOAD)?;
        match self.fault {
            Some(Fault::DelaysAreIgnored) => job.delay = Duration::ZERO,
            Some(Fault::EmptyIsNothing) if job.payload.is_empty() => return Ok(Pushed::Added),
            Some(Fault::IdsAreUsedUp) if !lock(&self.space.queue.pushed).insert(job.id.clone()) => {
                return Ok(Pushed::Duplicate);
            }
            Some(Fault::IdsOfTheDeadAreFree) => drop(self.queue().discard(queue, &job.id).await?),
            _ => {}
        }
        let mut pushed = self.queue().push(queue, job.clone()).await?;
        while pushed == Pushed::Duplicate && self.has(Fault::IdsAreNotUnique) {
            job.id.push('~');
            pushed = self.queue().push(queue, job.clone()).await?;
        }
        Ok(pushed)
    }

    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        let queue = &self.queue_name(queue);
        if self.has(Fault::JobsAreGivenTwice) {
            let again = std::mem::take(&mut *lock(&self.space.queue.again));
            if !again.is_empty() {
                return Ok(again);
            }
        }
        let jobs = self.wait(queue, self.limit(limit), wait).await?;
        let jobs: Vec<_> = jobs.into_iter().map(|job| self.given(job)).collect();
        lock(&self.space.queue.again).clone_from(&jobs);
        Ok(jobs)
    }

    async fn extend(&self, lease: &Lease) -> Result<()> {
        let lease = &self.fenced(lease)?;
        if self.has(Fault::ExtendDoesNothing) {
            return Ok(());
        }
        self.queue().extend(lease).await
    }

    async fn ack(&self, lease: &Lease) -> Result<()> {
        let lease = &self.fenced(lease)?;
        if self.has(Fault::AckDoesNothing) {
            return Ok(());
        }
        match self.queue().ack(lease).await {
            Err(Error::LeaseLost { .. })
                if self.has(Fault::AckAlwaysSucceeds) || self.has(Fault::JobsAreGivenTwice) =>
            {
                Ok(())
            }
            acked => acked,
        }
    }

    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()> {
        let lease = &self.fenced(lease)?;
        match self.fault {
            Some(Fault::NackIsAck) => self.queue().ack(lease).await,
            Some(Fault::DelaysAreIgnored) => self.queue().nack(lease, Duration::ZERO).await,
            _ => self.queue().nack(lease, delay).await,
        }
    }

    async fn bury(&self, lease: &Lease) -> Result<()> {
        let lease = &self.fenced(lease)?;
        if self.has(Fault::BuryIsAck) {
            return self.queue().ack(lease).await;
        }
        self.queue().bury(lease).await
    }

    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>> {
        let limit = self.limit(limit);
        let mut page = self.queue().dead(&self.queue_name(queue), after, limit).await?;
        match self.fault {
            Some(Fault::PagesLoseTheirLast) if page.next.is_some() => drop(page.items.pop()),
            // A page of one would never come to an end.
            Some(Fault::PagesOverlap) if page.next.is_some() && limit > 1 => {
                page.next = Some(Cursor(page.items[limit - 2].id.clone()));
            }
            _ => {}
        }
        Ok(page)
    }

    async fn revive(&self, queue: &str, id: &str) -> Result<bool> {
        let (queue, id) = (&self.queue_name(queue), &self.name(id));
        let dead = self.queue().dead(queue, None, usize::MAX).await?.items;
        if let Some(job) = dead.into_iter().find(|job| job.id == *id) {
            lock(&self.space.queue.tried).insert(job.id, job.attempts);
        }
        self.queue().revive(queue, id).await
    }

    async fn discard(&self, queue: &str, id: &str) -> Result<bool> {
        let (queue, id) = (&self.queue_name(queue), &self.name(id));
        if self.has(Fault::DiscardDoesNothing) {
            let dead = self.queue().dead(queue, None, usize::MAX).await?.items;
            return Ok(dead.iter().any(|job| job.id == *id));
        }
        self.queue().discard(queue, id).await
    }

    async fn depth(&self, queue: &str) -> Result<Depth> {
        let mut depth = self.queue().depth(&self.queue_name(queue)).await?;
        if self.has(Fault::DepthMixesKinds) {
            depth.waiting += std::mem::take(&mut depth.leased);
        }
        if self.has(Fault::DepthStopsAtAPage) && depth.waiting > 1_000 {
            depth = Depth { waiting: 1_000, estimated: true, ..depth };
        }
        Ok(depth)
    }

    async fn ping(&self) -> Result<()> {
        if self.has(Fault::PingLeases) {
            self.queue().lease("work", 1, Duration::ZERO).await?;
        }
        self.queue().ping().await
    }
}
