use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    error::Result,
    store::{Cursor, Page, fits},
};

/// The most bytes of one job's payload. A job names its data; it does not carry them.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// Up to how many jobs of each kind [`Queue::depth`] counts exactly.
pub const EXACT_DEPTH: u64 = 4_000;

/// Hands jobs to workers, each to one at a time, until they are done.
///
/// # Contract
///
/// - A job that was pushed is leased to some worker, sooner or later, until it is acknowledged or dead.
///   Which one goes first is the backend's affair; none starves.
/// - **One holder.** While a lease lasts ([`QueueConfig::lease`], from when it was given or last
///   [extended](Self::extend)) nobody else is given the job. When it has run out, the job is given to
///   whoever asks next, with the next attempt number.
/// - **Fencing.** [`extend`](Self::extend), [`ack`](Self::ack), [`nack`](Self::nack) and
///   [`bury`](Self::bury) fail with [`Error::LeaseLost`](crate::Error::LeaseLost), and change nothing, once
///   the job has been given to somebody else, was acknowledged or is dead. A lease that has run out and that
///   nobody took since may still be used.
/// - **One of an id.** While a job is unfinished (waiting, delayed, leased or dead), pushing another with
///   its id adds nothing. Once it is acknowledged or discarded, the id is free.
/// - **Delay.** A delayed job is not leased before its time.
/// - **Dead letters.** A job that was leased [`QueueConfig::max_attempts`] times and not acknowledged is not
///   leased again: it is dead, and stays until it is [revived](Self::revive) or [discarded](Self::discard).
/// - **Counting.** [`depth`](Self::depth) is exact up to [`EXACT_DEPTH`] jobs of each kind. Its cost, and that of
///   [`ping`](Self::ping), [`push`](Self::push) and [`lease`](Self::lease), does not grow with the queue.
/// - Names of queues and ids of jobs are [names of one segment](crate::name::check_segment); a payload holds up
///   to [`MAX_PAYLOAD`] bytes.
///
/// All openings of one queue must have the same [`QueueConfig`].
///
/// The contract is written as tests in `conformance` (the feature of that name).
#[async_trait]
pub trait Queue: fmt::Debug + Send + Sync + 'static {
    /// Adds a job.
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed>;

    /// Takes up to `limit` jobs, waiting up to `wait` for the first.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may have taken jobs nobody knows of: they come back when their leases run out.
    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>>;

    /// Makes a lease last for its whole time again, from now.
    async fn extend(&self, lease: &Lease) -> Result<()>;

    /// Says that the job is done: it is gone.
    async fn ack(&self, lease: &Lease) -> Result<()>;

    /// Gives the job back, to be leased again after `delay`.
    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()>;

    /// Gives up on the job: it is dead at once.
    async fn bury(&self, lease: &Lease) -> Result<()>;

    /// The dead letters, in the backend's own order.
    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>>;

    /// Puts a dead job back, as if it were new. `false` if there is no such dead job.
    async fn revive(&self, queue: &str, id: &str) -> Result<bool>;

    /// Removes a dead job. `false` if there is no such dead job.
    async fn discard(&self, queue: &str, id: &str) -> Result<bool>;

    /// Returns how many jobs there are, for people and gauges. The numbers may be a moment old.
    ///
    /// The call costs about the same however long the queue is: a backend counts at least [`EXACT_DEPTH`] jobs
    /// of each kind, and may estimate what is beyond ([`Depth::estimated`]).
    async fn depth(&self, queue: &str) -> Result<Depth>;

    /// Returns `Ok` if the backend answers. Health checks call it every few seconds, so its cost must not
    /// depend on how many jobs there are.
    ///
    /// The default implementation calls [`depth`](Self::depth) on a queue that nobody uses.
    async fn ping(&self) -> Result<()> {
        self.depth("ping").await.map(drop)
    }
}

/// What all openings of a queue agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// How long a worker may be silent before its job is given to another. Default: 30 seconds.
    pub lease: Duration,
    /// How often a job is tried before it is dead. Default: 16.
    pub max_attempts: u32,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), max_attempts: 16 }
    }
}

impl QueueConfig {
    /// Sets how long a worker may be silent before its job is given to another.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how often a job is tried before it is dead.
    #[must_use]
    pub fn with_max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }
}

/// A job to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewJob {
    /// Which job it is: there is never more than one of an id.
    pub id: String,
    /// What the worker is given.
    pub payload: Bytes,
    /// How long to wait before it may be leased.
    pub delay: Duration,
}

impl NewJob {
    /// A job that may be leased at once.
    pub fn new(id: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self { id: id.into(), payload: payload.into(), delay: Duration::ZERO }
    }

    /// Sets how long to wait before it may be leased.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The job was added.
    Added,
    /// There is an unfinished job of that id already; nothing was changed.
    Duplicate,
}

/// A job, and the right to work on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// What the worker is given.
    pub payload: Bytes,
    /// How often it has been leased, with this time: 1 at first.
    pub attempt: u32,
    /// The right to work on it.
    pub lease: Lease,
}

impl Job {
    /// For those who write a backend.
    pub fn new(payload: Bytes, attempt: u32, lease: Lease) -> Self {
        Self { payload, attempt, lease }
    }

    /// Which job it is.
    pub fn id(&self) -> &str {
        &self.lease.id
    }
}

/// The right to work on a job, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The queue.
    pub queue: String,
    /// The job.
    pub id: String,
    /// What tells this lease from the job's others. Only the backend can read it.
    pub token: String,
}

impl Lease {
    /// For those who write a backend.
    pub fn new(queue: impl Into<String>, id: impl Into<String>, token: impl Into<String>) -> Self {
        Self { queue: queue.into(), id: id.into(), token: token.into() }
    }

    /// What to say when it is held no more. For those who write a backend.
    pub fn lost(&self) -> crate::Error {
        crate::Error::LeaseLost { queue: self.queue.clone(), id: self.id.clone() }
    }
}

/// A job nobody works on any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadJob {
    /// Which job it is.
    pub id: String,
    /// What the workers were given.
    pub payload: Bytes,
    /// How often it was leased.
    pub attempts: u32,
}

impl DeadJob {
    /// For those who write a backend.
    pub fn new(id: impl Into<String>, payload: Bytes, attempts: u32) -> Self {
        Self { id: id.into(), payload, attempts }
    }
}

/// How many jobs of each kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Waiting for a worker or for their time.
    pub waiting: u64,
    /// Leased. A lease that has run out may count here or as waiting.
    pub leased: u64,
    /// Dead.
    pub dead: u64,
    /// Whether a number above [`EXACT_DEPTH`] was estimated, not counted. An estimate is as good as the
    /// engine's statistics: PostgreSQL's may be minutes old.
    pub estimated: bool,
}

/// Refuses what no backend has to take. For those who write one.
pub fn check_job(queue: &str, job: &NewJob) -> Result<()> {
    crate::name::check_segment(queue)?;
    crate::name::check_segment(&job.id)?;
    fits("a job's payload", job.payload.len(), MAX_PAYLOAD)
}
