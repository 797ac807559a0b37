use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    error::Result,
    store::{Cursor, Page, fits},
};

/// The maximum size of one job's payload in bytes. A job refers to its data and does not contain it.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// The number of jobs of each kind up to which [`Queue::depth`] is exact.
pub const EXACT_DEPTH: u64 = 4_000;

/// Jobs that workers lease one at a time until they are done.
///
/// # Contract
///
/// - A pushed job is eventually leased to a worker, until it is acknowledged or dead. The backend chooses the
///   order. Every job is leased eventually.
/// - **One holder.** A lease lasts for [`QueueConfig::lease`], counted from when it was granted or last
///   [extended](Self::extend). During that time no other worker receives the job. After the lease expires, the next
///   worker that calls [`lease`](Self::lease) receives the job with the next attempt number.
/// - **Fencing.** [`extend`](Self::extend), [`ack`](Self::ack), [`nack`](Self::nack) and [`bury`](Self::bury)
///   require the current lease. If the job was leased again, was acknowledged or is dead, they change nothing and
///   return [`Error::LeaseLost`](crate::Error::LeaseLost). An expired lease can still be used if no other worker
///   has leased the job since.
/// - **Unique IDs.** While a job is unfinished (waiting, delayed, leased or dead), a push with the same ID adds
///   nothing. After the job is acknowledged or discarded, its ID can be used again.
/// - **Delay.** A delayed job is not leased before its delay ends.
/// - **Dead letters.** A job that was leased [`QueueConfig::max_attempts`] times without an acknowledgement is not
///   leased again. It is dead, and stays until it is [revived](Self::revive) or [discarded](Self::discard).
/// - **Counting.** [`depth`](Self::depth) is exact up to [`EXACT_DEPTH`] jobs of each kind. Its cost does not grow
///   with the queue. The same is true for [`ping`](Self::ping), [`push`](Self::push) and [`lease`](Self::lease).
/// - Names of queues and IDs of jobs are [names of one segment](crate::name::check_segment). A payload holds up to
///   [`MAX_PAYLOAD`] bytes.
///
/// All handles to one queue must have the same [`QueueConfig`].
///
/// The module `conformance` (behind the feature of that name) contains the contract as tests.
#[async_trait]
pub trait Queue: fmt::Debug + Send + Sync + 'static {
    /// Adds a job.
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed>;

    /// Leases up to `limit` jobs. If there is none, waits up to `wait` for the first one.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it can have leased jobs that no worker received. They are leased again after their
    /// leases expire.
    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>>;

    /// Restarts the duration of a lease from now.
    async fn extend(&self, lease: &Lease) -> Result<()>;

    /// Acknowledges the job as done, which removes it.
    async fn ack(&self, lease: &Lease) -> Result<()>;

    /// Returns the job to the queue. It can be leased again after `delay`.
    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()>;

    /// Makes the job dead immediately.
    async fn bury(&self, lease: &Lease) -> Result<()>;

    /// Lists the dead jobs, in an order that the backend chooses.
    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>>;

    /// Returns a dead job to the queue with its attempts reset. Returns `false` if there is no dead job with this
    /// ID.
    async fn revive(&self, queue: &str, id: &str) -> Result<bool>;

    /// Removes a dead job. Returns `false` if there is no dead job with this ID.
    async fn discard(&self, queue: &str, id: &str) -> Result<bool>;

    /// Returns the number of jobs, for operators and gauges. The numbers can be slightly out of date.
    ///
    /// The cost does not grow with the queue. A backend counts at least [`EXACT_DEPTH`] jobs of each kind, and is
    /// allowed to estimate larger numbers ([`Depth::estimated`]).
    async fn depth(&self, queue: &str) -> Result<Depth>;

    /// Returns `Ok` if the backend responds. Health checks call it every few seconds, so its cost must not depend
    /// on the number of jobs.
    ///
    /// The default implementation calls [`depth`](Self::depth) on an unused queue.
    async fn ping(&self) -> Result<()> {
        self.depth("ping").await.map(drop)
    }
}

/// The settings that all handles to a queue must have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// The duration of a lease. After it, another worker can lease the job. Default: 30 seconds.
    pub lease: Duration,
    /// The maximum number of leases of a job. After them, the job is dead. Default: 16.
    pub max_attempts: u32,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), max_attempts: 16 }
    }
}

impl QueueConfig {
    /// Sets the duration of a lease. Default: 30 seconds.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the maximum number of leases of a job, after which it is dead. Default: 16.
    #[must_use]
    pub fn with_max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }
}

/// A job to push.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewJob {
    /// The ID of the job. A queue has at most one unfinished job with this ID.
    pub id: String,
    /// The data for the worker.
    pub payload: Bytes,
    /// The delay before the job can be leased.
    pub delay: Duration,
}

impl NewJob {
    /// Creates a job that can be leased immediately.
    pub fn new(id: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self { id: id.into(), payload: payload.into(), delay: Duration::ZERO }
    }

    /// Sets the delay before the job can be leased. Default: zero.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The job was added.
    Added,
    /// An unfinished job with this ID exists. Nothing was changed.
    Duplicate,
}

/// A leased job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// The data for the worker.
    pub payload: Bytes,
    /// The number of leases of this job, including this one. It starts at 1.
    pub attempt: u32,
    /// The lease of the job.
    pub lease: Lease,
}

impl Job {
    /// Creates a job. For implementors of a backend.
    pub fn new(payload: Bytes, attempt: u32, lease: Lease) -> Self {
        Self { payload, attempt, lease }
    }

    /// Returns the ID of the job.
    pub fn id(&self) -> &str {
        &self.lease.id
    }
}

/// The right to work on a job for a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The name of the queue.
    pub queue: String,
    /// The ID of the job.
    pub id: String,
    /// The token that distinguishes this lease from other leases of the job. Only the backend can read it.
    pub token: String,
}

impl Lease {
    /// Creates a lease. For implementors of a backend.
    pub fn new(queue: impl Into<String>, id: impl Into<String>, token: impl Into<String>) -> Self {
        Self { queue: queue.into(), id: id.into(), token: token.into() }
    }

    /// Returns the error for a lease that is lost. For implementors of a backend.
    pub fn lost(&self) -> crate::Error {
        crate::Error::LeaseLost { queue: self.queue.clone(), id: self.id.clone() }
    }
}

/// A job that is not leased any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadJob {
    /// The ID of the job.
    pub id: String,
    /// The data for the workers.
    pub payload: Bytes,
    /// The number of leases of the job.
    pub attempts: u32,
}

impl DeadJob {
    /// Creates a dead job. For implementors of a backend.
    pub fn new(id: impl Into<String>, payload: Bytes, attempts: u32) -> Self {
        Self { id: id.into(), payload, attempts }
    }
}

/// The number of jobs of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Jobs that wait for a worker or for the end of their delay.
    pub waiting: u64,
    /// Leased jobs. A job whose lease has expired counts here or as waiting.
    pub leased: u64,
    /// Dead jobs.
    pub dead: u64,
    /// Whether a number above [`EXACT_DEPTH`] is an estimate. An estimate depends on the statistics of the engine,
    /// which can be minutes old in PostgreSQL.
    pub estimated: bool,
}

/// Checks the names and the payload size of a job. For implementors of a backend.
///
/// # Errors
///
/// Returns [`Error::BadName`](crate::Error::BadName) or [`Error::TooLarge`](crate::Error::TooLarge).
pub fn check_job(queue: &str, job: &NewJob) -> Result<()> {
    crate::name::check_segment(queue)?;
    crate::name::check_segment(&job.id)?;
    fits("a job's payload", job.payload.len(), MAX_PAYLOAD)
}
