use std::time::Duration;

use crate::tool::RetryPolicy;

/// The configuration of tasks.
///
/// ```
/// use std::time::Duration;
///
/// use antiphon::{Server, task::TaskConfig};
///
/// let tasks = TaskConfig::default().with_ttl(Duration::from_secs(3600)).with_workers(8);
/// let server = Server::builder("reports", "1.0.0").with_tasks(tasks).build()?;
/// # let _ = server;
/// # Ok::<(), antiphon::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TaskConfig {
    pub(crate) ttl: Option<Duration>,
    pub(crate) max_ttl: Duration,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) tool_wait: Duration,
    pub(crate) repair_interval: Duration,
    pub(crate) audit_interval: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) workers: usize,
    pub(crate) per_tool: usize,
    pub(crate) per_caller: usize,
    pub(crate) shards: u32,
    pub(crate) max_queued: u64,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) max_worker_deaths: u32,
    pub(crate) retry: RetryPolicy,
    pub(crate) cancel_grace: Duration,
    pub(crate) drain: Duration,
    pub(crate) promote_after: Option<Duration>,
    pub(crate) promote_rounds_left: u32,
    pub(crate) anonymous_list: bool,
}

impl Default for TaskConfig {
    fn default() -> Self {
        Self {
            ttl: Some(Duration::from_secs(24 * 3600)),
            max_ttl: Duration::from_secs(7 * 24 * 3600),
            max_wait: Some(Duration::from_secs(30 * 24 * 3600)),
            tool_wait: Duration::from_secs(24 * 3600),
            repair_interval: Duration::from_secs(10),
            audit_interval: Duration::from_secs(24 * 3600),
            poll_interval: Duration::from_secs(1),
            workers: 16,
            per_tool: usize::MAX,
            per_caller: usize::MAX,
            shards: 4,
            max_queued: 1_000_000,
            heartbeat_interval: Duration::from_secs(5),
            max_worker_deaths: 8,
            retry: RetryPolicy::default(),
            cancel_grace: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            promote_after: Some(Duration::from_secs(10)),
            promote_rounds_left: 1,
            anonymous_list: false,
        }
    }
}

impl TaskConfig {
    /// Sets how long the server stores a task and the task's result after the run has ended. The client can request a
    /// different TTL. Default: 24 hours.
    ///
    /// A run that has not ended does not expire. To limit how long a run waits, use
    /// [`with_max_wait`](Self::with_max_wait). `None` means that the server stores tasks until you purge them.
    #[must_use]
    pub fn with_ttl(mut self, ttl: impl Into<Option<Duration>>) -> Self {
        self.ttl = ttl.into();
        self
    }

    /// Sets the longest TTL that a client can request. See [`with_ttl`](Self::with_ttl). Default: 7 days.
    #[must_use]
    pub fn with_max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = max_ttl;
        self
    }

    /// Sets the maximum time that a run waits for an answer. If no answer arrives within this time, the run fails.
    /// Default: 30 days.
    ///
    /// The time in which the run sleeps or waits for a worker does not count. If no answer arrives in time, the server
    /// adds an event to the timeline of the run and writes a log line. The server also counts the run in the metric
    /// `antiphon.runs.expired`. `None` means that a run can wait for an answer without a time limit.
    #[must_use]
    pub fn with_max_wait(mut self, max_wait: impl Into<Option<Duration>>) -> Self {
        self.max_wait = max_wait.into();
        self
    }

    /// Sets how long a run waits if no replica has the run's tool. After this time, the server gives up the run, and an
    /// operator must retry or remove the run. Default: 24 hours.
    #[must_use]
    pub fn with_tool_wait(mut self, tool_wait: Duration) -> Self {
        self.tool_wait = tool_wait;
        self
    }

    /// Sets the interval at which the replicas search for runs whose job was lost or never queued. Default: 10
    /// seconds.
    ///
    /// The replicas find a run without a job within about two intervals, even if no client sends a request. The longer
    /// a run waits for a worker, the less often the replicas check the run. The replicas check each waiting run at
    /// least every three intervals.
    #[must_use]
    pub fn with_repair_interval(mut self, repair_interval: Duration) -> Self {
        self.repair_interval = repair_interval;
        self
    }

    /// Sets the interval of the audit. In an audit, one of the replicas reads the records of all tasks. Default: 24
    /// hours.
    ///
    /// The audit finds runs that would otherwise never continue. The audit also encrypts the records with the active
    /// key of the [`KeyRing`](crate::seal::KeyRing).
    #[must_use]
    pub fn with_audit_interval(mut self, audit_interval: Duration) -> Self {
        self.audit_interval = audit_interval;
        self
    }

    /// Sets how often clients should poll a task. The server sends this poll interval to clients. Default: 1 second.
    #[must_use]
    pub fn with_poll_interval(mut self, poll_interval: Duration) -> Self {
        self.poll_interval = poll_interval;
        self
    }

    /// Sets the maximum number of tasks that this process executes at the same time. A task that waits for a user or
    /// for a point in time is not executed and does not count. Default: 16.
    ///
    /// If the number is 0, this process only creates tasks, and other replicas execute the tasks.
    #[must_use]
    pub fn with_workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the maximum number of tasks of one tool that this process executes at the same time. Default: the number
    /// of workers.
    #[must_use]
    pub fn with_per_tool(mut self, per_tool: usize) -> Self {
        self.per_tool = per_tool;
        self
    }

    /// Sets the maximum number of tasks of one caller that this process executes at the same time. Default: the number
    /// of workers.
    #[must_use]
    pub fn with_per_caller(mut self, per_caller: usize) -> Self {
        self.per_caller = per_caller;
        self
    }

    /// Sets the number of queues. The tool and the caller of a run determine which queue contains the run's jobs.
    /// Default: 4.
    ///
    /// If one caller starts very many runs of a tool, only the runs in one queue are delayed. Set the same number of
    /// queues on all replicas.
    #[must_use]
    pub fn with_shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// Sets the maximum number of queued jobs. A job is one execution of a tool's function. Jobs that are due in the
    /// future also count. If the queues contain this number of jobs, the server rejects new tasks. Default: 1,000,000.
    #[must_use]
    pub fn with_max_queued(mut self, max_queued: u64) -> Self {
        self.max_queued = max_queued;
        self
    }

    /// Sets the heartbeat interval. A worker sends heartbeats to report that the worker is still alive. Default: 5
    /// seconds.
    ///
    /// The interval must be less than a third of the queue's [lease](antiphon_store::QueueConfig::lease).
    #[must_use]
    pub fn with_heartbeat_interval(mut self, heartbeat_interval: Duration) -> Self {
        self.heartbeat_interval = heartbeat_interval;
        self
    }

    /// Sets how many workers can die during one execution of a tool's function. If more workers die, the server gives
    /// up the run, and an operator must retry or remove the run. Default: 8.
    ///
    /// The number must be less than the queue's [maximum number of
    /// attempts](antiphon_store::QueueConfig::max_attempts).
    #[must_use]
    pub fn with_max_worker_deaths(mut self, max_worker_deaths: u32) -> Self {
        self.max_worker_deaths = max_worker_deaths;
        self
    }

    /// Sets how the server retries a task after an error that is not [terminal](crate::Error::terminal). Default: 3
    /// attempts.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets how long the tool can run steps to clean up after the task was cancelled. Default: 30 seconds.
    #[must_use]
    pub fn with_cancel_grace(mut self, cancel_grace: Duration) -> Self {
        self.cancel_grace = cancel_grace;
        self
    }

    /// Sets how long an execution of a task can continue after the server has begun to shut down. Default: 10 seconds.
    ///
    /// After this time, the server stops the execution and returns the job to the queue. Another worker then continues
    /// the run after the last stored step.
    #[must_use]
    pub fn with_drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Sets the duration after which a call becomes a task. Default: 10 seconds. `None` means that a call never becomes
    /// a task because the call takes long.
    ///
    /// A run becomes a task only if the tool allows tasks and the client supports tasks.
    #[must_use]
    pub fn with_promote_after(mut self, promote_after: impl Into<Option<Duration>>) -> Self {
        self.promote_after = promote_after.into();
        self
    }

    /// Sets the number of remaining rounds below which a run becomes a task. If the client has fewer rounds left than
    /// this number, the run becomes a task at the next question. Default: 1.
    ///
    /// [`Limits::with_max_rounds`](crate::limits::Limits::with_max_rounds) sets the total number of rounds.
    #[must_use]
    pub fn with_promote_rounds_left(mut self, promote_rounds_left: u32) -> Self {
        self.promote_rounds_left = promote_rounds_left;
        self
    }

    /// Sets whether unauthenticated callers can list tasks. The list contains the tasks of all unauthenticated callers.
    /// Default: no.
    ///
    /// Choose yes only if all unauthenticated callers are allowed to see each other's tasks. If a server without a
    /// backend uses stdio or another stream, the caller can always list the tasks, even without this setting.
    #[must_use]
    pub fn with_anonymous_list(mut self, anonymous_list: bool) -> Self {
        self.anonymous_list = anonymous_list;
        self
    }
}

impl TaskConfig {
    /// Returns descriptions of the configuration problems, one per line.
    pub(crate) fn problems(&self) -> Vec<String> {
        let is_wrong = [
            (self.shards == 0, "`TaskConfig::with_shards` is 0, so tasks would have no queue; set 1 or more"),
            (
                self.heartbeat_interval.is_zero(),
                "`TaskConfig::with_heartbeat_interval` is 0; set a longer interval",
            ),
            (
                self.repair_interval.is_zero(),
                "`TaskConfig::with_repair_interval` is 0; set a longer interval",
            ),
            (self.audit_interval.is_zero(), "`TaskConfig::with_audit_interval` is 0; set a longer interval"),
            (
                self.max_worker_deaths == 0,
                "`TaskConfig::with_max_worker_deaths` is 0, so no task could start; set 1 or more",
            ),
        ];
        let own = is_wrong.iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, problem)| (*problem).to_owned());
        own.chain(self.retry.problem()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_its_limit() {
        let retry = RetryPolicy::default();
        let waits: Vec<_> = [1, 2, 3, 10, 1000].map(|failures| retry.wait(failures).as_secs()).into();
        assert_eq!(waits, [1, 2, 4, 60, 60]);
    }
}
