use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    error::Result,
    store::{Cursor, Page, fits},
};

/// The maximum size of one job's payload in bytes. For larger data, store the data and put only its key into the
/// payload.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// The largest number of waiting, leased or dead jobs that [`Queue::depth`] must count exactly. If a queue has more
/// jobs, the numbers can be estimates.
pub const EXACT_DEPTH: u64 = 4_000;

/// A queue of jobs. A worker leases a job, does the work, and acknowledges the job.
///
/// # Contract
///
/// - Every pushed job is eventually leased to a worker. A queue can lease a job several times, until the job is
///   acknowledged or dead. The backend chooses the order of the jobs.
/// - **One holder.** A lease lasts for [`QueueConfig::lease`], counted from the time at which the lease was granted or
///   last [extended](Self::extend). During the lease, no other worker receives the job. After the lease expires, the
///   next worker that calls [`lease`](Self::lease) receives the job with the next attempt number.
/// - **Fencing.** [`extend`](Self::extend), [`ack`](Self::ack), [`nack`](Self::nack) and [`bury`](Self::bury) require
///   the current lease. If the job was leased again, was acknowledged or is dead, the four methods change nothing and
///   return [`Error::LeaseLost`](crate::Error::LeaseLost). An expired lease can still be used if no other worker has
///   leased the job since.
/// - **Unique IDs.** While a job is unfinished (waiting, delayed, leased or dead), a push of another job with the same
///   ID adds nothing. After the job is acknowledged or discarded, its ID can be used again.
/// - **Delay.** A delayed job is not leased before its delay ends.
/// - **Dead letters.** A job that was leased [`QueueConfig::max_attempts`] times without an acknowledgement is not
///   leased again. A dead job stays in the queue until it is [revived](Self::revive) or [discarded](Self::discard).
/// - **Counting.** [`depth`](Self::depth) is exact up to [`EXACT_DEPTH`] waiting, leased or dead jobs. The cost of
///   `depth`, [`ping`](Self::ping), [`push`](Self::push) and [`lease`](Self::lease) does not grow with the number of
///   jobs.
/// - Names of queues and IDs of jobs are [names of one segment](crate::name::check_segment). A payload holds up to
///   [`MAX_PAYLOAD`] bytes.
///
/// All handles to one queue must have the same [`QueueConfig`].
///
/// The module `conformance` (feature `conformance`) contains tests of the contract of `Queue`.
#[async_trait]
pub trait Queue: fmt::Debug + Send + Sync + 'static {
    /// Adds a job to a queue.
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed>;

    /// Leases up to `limit` jobs. If the queue has no job to lease, `lease` waits up to `wait` for a job.
    ///
    /// # Cancel safety
    ///
    /// If the future of `lease` is dropped, the call may already have leased jobs. Other workers receive the jobs
    /// that a dropped call has leased only after the leases have expired.
    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>>;

    /// Extends a lease. The full duration of the lease starts again at the time of the call.
    async fn extend(&self, lease: &Lease) -> Result<()>;

    /// Acknowledges the job as done, and removes the job.
    async fn ack(&self, lease: &Lease) -> Result<()>;

    /// Returns the job to the queue. The job can be leased again after `delay`.
    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()>;

    /// Moves the job to the dead jobs immediately. The queue does not lease a dead job again.
    async fn bury(&self, lease: &Lease) -> Result<()>;

    /// Lists the dead jobs of a queue, in an order that the backend chooses.
    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>>;

    /// Returns a dead job to the queue and resets its number of attempts. Returns `false` if the queue has no dead job
    /// with the ID `id`.
    async fn revive(&self, queue: &str, id: &str) -> Result<bool>;

    /// Removes a dead job. Returns `false` if the queue has no dead job with the ID `id`.
    async fn discard(&self, queue: &str, id: &str) -> Result<bool>;

    /// Returns the number of waiting, leased and dead jobs, for operators and metrics. The returned numbers can be
    /// slightly out of date.
    ///
    /// The cost of `depth` does not grow with the number of jobs. A backend must count up to [`EXACT_DEPTH`] waiting,
    /// leased or dead jobs exactly. A backend can estimate larger numbers of jobs, and then sets [`Depth::estimated`].
    async fn depth(&self, queue: &str) -> Result<Depth>;

    /// Returns `Ok` if the backend responds. Health checks call `ping` every few seconds, so the cost of `ping` must
    /// not depend on the number of jobs.
    ///
    /// The default implementation calls [`depth`](Self::depth) on an unused queue.
    async fn ping(&self) -> Result<()> {
        self.depth("ping").await.map(drop)
    }
}

/// The settings of a queue. All handles to a queue must use the same settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    pub(crate) lease: Duration,
    pub(crate) max_attempts: u32,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), max_attempts: 16 }
    }
}

impl QueueConfig {
    /// Sets the duration of a lease. After a lease has expired, another worker can lease the job. Default: 30 seconds.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the maximum number of times that a job is leased. If the last lease of a job ends without an
    /// acknowledgement, the job is dead. Default: 16.
    #[must_use]
    pub fn with_max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    /// Returns the duration of a lease. Implementations of a backend use `QueueConfig::lease`.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns the maximum number of times that a job is leased. Implementations of a backend use
    /// `QueueConfig::max_attempts`.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }
}

/// A new job for [`Queue::push`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewJob {
    /// The ID of the job. A queue has at most one unfinished job with each ID.
    pub id: String,
    /// The data that the worker receives with the job.
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

/// The result of [`Queue::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The job was added to the queue.
    Added,
    /// The queue already has an unfinished job with the ID of the new job. The rejected push changed nothing in the
    /// queue.
    Duplicate,
}

/// A leased job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// The data that the worker receives with the job.
    pub payload: Bytes,
    /// The number of times that this job was leased, including this lease. The first lease of a job has the number 1.
    pub attempt: u32,
    /// The lease, which the worker passes to [`Queue::ack`] and the other methods that change the job.
    pub lease: Lease,
}

impl Job {
    /// Creates a job. Implementations of a backend create jobs with `Job::new`.
    pub fn new(payload: Bytes, attempt: u32, lease: Lease) -> Self {
        Self { payload, attempt, lease }
    }

    /// Returns the ID of the job.
    pub fn id(&self) -> &str {
        &self.lease.id
    }
}

/// The exclusive permission of a worker to execute a job for a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The name of the queue.
    pub queue: String,
    /// The ID of the job.
    pub id: String,
    /// The token that distinguishes this lease from other leases of the job. Only the backend interprets the token.
    pub token: String,
}

impl Lease {
    /// Creates a lease. Implementations of a backend create leases with `Lease::new`.
    pub fn new(queue: impl Into<String>, id: impl Into<String>, token: impl Into<String>) -> Self {
        Self { queue: queue.into(), id: id.into(), token: token.into() }
    }

    /// Returns [`Error::LeaseLost`](crate::Error::LeaseLost) for this lease. Implementations of a backend use
    /// `Lease::lost`.
    pub fn lost(&self) -> crate::Error {
        crate::Error::LeaseLost { queue: self.queue.clone(), id: self.id.clone() }
    }
}

/// A job that failed too often or was buried. The queue does not lease a dead job again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadJob {
    /// The ID of the job.
    pub id: String,
    /// The data that the worker receives with the job.
    pub payload: Bytes,
    /// The number of times that the job was leased.
    pub attempts: u32,
}

impl DeadJob {
    /// Creates a dead job. Implementations of a backend create dead jobs with `DeadJob::new`.
    pub fn new(id: impl Into<String>, payload: Bytes, attempts: u32) -> Self {
        Self { id: id.into(), payload, attempts }
    }
}

/// The number of waiting, leased and dead jobs of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// The number of jobs that wait for a worker or for the end of their delay.
    pub waiting: u64,
    /// The number of leased jobs. A job whose lease has expired counts as leased or as waiting.
    pub leased: u64,
    /// The number of dead jobs.
    pub dead: u64,
    /// Whether at least one number in this `Depth` is an estimate. Only numbers above [`EXACT_DEPTH`] are estimates. In
    /// PostgreSQL, an estimate can be minutes old.
    pub estimated: bool,
}

/// Checks the names and the payload size of a job. Implementations of a backend use `check_job`.
///
/// # Errors
///
/// Returns [`Error::BadName`](crate::Error::BadName) if the queue name or the job ID is invalid. Returns
/// [`Error::TooLarge`](crate::Error::TooLarge) if the payload has more than [`MAX_PAYLOAD`] bytes.
pub fn check_job(queue: &str, job: &NewJob) -> Result<()> {
    crate::name::check_segment(queue)?;
    crate::name::check_segment(&job.id)?;
    fits("a job's payload", job.payload.len(), MAX_PAYLOAD)
}
