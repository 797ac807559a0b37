//! Faults on purpose, which the laws of `cargo xtask chaos tasks` must detect.

use std::{sync::Arc, time::Duration};

use antiphon_store::{Cursor, DeadJob, Depth, Job, Lease, NewJob, Page, Pushed, Queue, Result};
use async_trait::async_trait;
use serde::Deserialize;

/// What a process does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Break {
    /// Loses the first job of some runs.
    DropJob,
    /// Loses the job that an answer makes due, of some runs.
    DropAnswer,
    /// Loses the job that wakes up some sleeping runs.
    DropWakeup,
    /// Performs some effects twice that may happen once.
    DoubleEffect,
}

/// A queue that says it has taken a job, and has not. It loses the same job each time, so that nobody can repair it.
#[derive(Debug)]
pub(crate) struct Forgetful {
    queue: Arc<dyn Queue>,
    breaks: Break,
}

impl Forgetful {
    pub(crate) fn new(queue: Arc<dyn Queue>, breaks: Break) -> Self {
        Self { queue, breaks }
    }

    /// Whether the job is lost: five runs in sixteen, by the first letter of its task.
    fn loses(&self, job: &NewJob) -> bool {
        let mut parts = job.id.split('~');
        let is_chosen = parts.next().is_some_and(|task| task.starts_with(['0', '2', '4', '6', '8']));
        let number = parts.next().and_then(|number| number.parse::<u64>().ok()).unwrap_or_default();
        is_chosen
            && match self.breaks {
                Break::DropJob => number == 1,
                Break::DropAnswer => number > 1 && job.delay.is_zero(),
                // A run that asks sleeps after its answer. A repair pushes the job again without a delay.
                Break::DropWakeup => number > 2,
                Break::DoubleEffect => false,
            }
    }
}

#[async_trait]
impl Queue for Forgetful {
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed> {
        if self.loses(&job) {
            return Ok(Pushed::Added);
        }
        self.queue.push(queue, job).await
    }

    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        self.queue.lease(queue, limit, wait).await
    }

    async fn extend(&self, lease: &Lease) -> Result<()> {
        self.queue.extend(lease).await
    }

    async fn ack(&self, lease: &Lease) -> Result<()> {
        self.queue.ack(lease).await
    }

    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()> {
        self.queue.nack(lease, delay).await
    }

    async fn bury(&self, lease: &Lease) -> Result<()> {
        self.queue.bury(lease).await
    }

    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>> {
        self.queue.dead(queue, after, limit).await
    }

    async fn revive(&self, queue: &str, id: &str) -> Result<bool> {
        self.queue.revive(queue, id).await
    }

    async fn discard(&self, queue: &str, id: &str) -> Result<bool> {
        self.queue.discard(queue, id).await
    }

    async fn depth(&self, queue: &str) -> Result<Depth> {
        self.queue.depth(queue).await
    }
}
