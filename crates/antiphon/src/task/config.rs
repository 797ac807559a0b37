use std::time::Duration;

use crate::tool::RetryPolicy;

/// How a server keeps and runs tasks.
///
/// ```
/// use std::time::Duration;
///
/// use antiphon::{Server, TaskConfig};
///
/// let tasks = TaskConfig::default().with_ttl(Duration::from_secs(3600)).with_workers(8);
/// let server = Server::builder("reports", "1.0.0").with_tasks(tasks).build()?;
/// # let _ = server;
/// # Ok::<(), antiphon::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskConfig {
    /// How long a task and its result are kept after the run has ended, where the client does not say. A run that has not
    /// ended is kept however long it sleeps: see [`max_wait`](Self::max_wait). Default: 24 hours. `None` keeps tasks until
    /// somebody purges them.
    pub ttl: Option<Duration>,
    /// The longest [`ttl`](Self::ttl) that a client may ask for. Default: 7 days.
    pub max_ttl: Duration,
    /// How long a run can wait for an answer. Time that it sleeps, or waits for a worker, does not count. Then the run ends
    /// as failed, with an event in its timeline, a log line and the metric `antiphon.runs.expired`.
    /// Default: 30 days. `None` lets runs wait for ever.
    pub max_wait: Option<Duration>,
    /// How long a run waits for a replica that has its tool, before it is dead. Default: 24 hours.
    pub tool_wait: Duration,
    /// How soon the servers find a run whose job was lost, or was never queued: after at most twice this time, without any
    /// request. A run that waits for a worker is checked less often the longer it waits, up to every third interval.
    /// Default: 10 seconds.
    pub repair_interval: Duration,
    /// How often one of the replicas goes through the records of all tasks, slowly: it finds runs that nobody watches over, and
    /// encrypts records with the active key of the [`KeyRing`](crate::KeyRing). Default: 24 hours.
    pub audit_interval: Duration,
    /// How long clients are told to wait between two looks. Default: 1 second.
    pub poll_interval: Duration,
    /// How many legs this process works on at once; 0 has it create tasks and leave the work to others. Default: 16.
    pub workers: usize,
    /// How many legs of one tool this process works on at once. Default: as many as there are workers.
    pub per_tool: usize,
    /// How many legs of one caller's runs this process works on at once. Default: as many as there are workers.
    pub per_caller: usize,
    /// Among how many queues runs are spread by tool and caller, so that one who begins ten thousand keeps nobody
    /// else waiting. All replicas must agree. Default: 4.
    pub lanes: u32,
    /// How many legs may wait, for a worker or for their time, before no more tasks are created. Default: a million.
    pub backlog: u64,
    /// How often a worker shows that it is alive. Less than a third of the queue's
    /// [lease](antiphon_store::QueueConfig::lease). Default: 5 seconds.
    pub beat: Duration,
    /// How often a leg is begun whose worker died over it, before the run is dead. Less than the queue's own
    /// [limit](antiphon_store::QueueConfig::max_attempts). Default: 8.
    pub deaths: u32,
    /// What becomes of errors that are not terminal.
    pub retry: RetryPolicy,
    /// How long a cancelled tool may clean up. Default: 30 seconds.
    pub clean_up: Duration,
    /// How long a leg may go on after the server begins to shut down. Then it stops, and its job goes back to the queue:
    /// another worker goes on from the last step that was written. Default: 10 seconds.
    pub drain: Duration,
    /// After which time of work a run becomes a task, if its tool lets it and the client knows tasks. Default: 10 seconds.
    pub promote_after: Option<Duration>,
    /// How many rounds before the last a run becomes a task. Default: 1.
    pub promote_rounds_left: u32,
    /// Whether somebody of whom nothing is known may list the tasks of all such. Only where all of them trust each other:
    /// over a stream of a server without a backend they may without this. Default: no.
    pub anonymous_list: bool,
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
            lanes: 4,
            backlog: 1_000_000,
            beat: Duration::from_secs(5),
            deaths: 8,
            retry: RetryPolicy::default(),
            clean_up: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            promote_after: Some(Duration::from_secs(10)),
            promote_rounds_left: 1,
            anonymous_list: false,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident $field:ident: $kind:ty;)*) => {
        impl TaskConfig {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $field: $kind) -> Self {
                self.$field = $field.into();
                self
            })*
        }
    };
}

setters! {
    /// Sets how long a task is kept after its run has ended, where the client does not say. Default: 24 hours.
    with_ttl ttl: impl Into<Option<Duration>>;
    /// Sets the longest `ttl` that a client may ask for. Default: 7 days.
    with_max_ttl max_ttl: Duration;
    /// Sets how long a run may wait for an answer or a worker before it ends as failed. Default: 30 days.
    with_max_wait max_wait: impl Into<Option<Duration>>;
    /// Sets how long a run waits for a replica that has its tool. Default: 24 hours.
    with_tool_wait tool_wait: Duration;
    /// Sets how soon a lost job is found: after at most twice this time. Default: 10 seconds.
    with_repair_interval repair_interval: Duration;
    /// Sets how often the records of all tasks are gone through. Default: 24 hours.
    with_audit_interval audit_interval: Duration;
    /// Sets how long clients are told to wait between two looks.
    with_poll_interval poll_interval: Duration;
    /// Sets how many legs this process works on at once.
    with_workers workers: usize;
    /// Sets how many legs of one tool this process works on at once.
    with_per_tool per_tool: usize;
    /// Sets how many legs of one caller's runs this process works on at once.
    with_per_caller per_caller: usize;
    /// Sets among how many queues runs are spread.
    with_lanes lanes: u32;
    /// Sets how many legs may wait before no more tasks are created.
    with_backlog backlog: u64;
    /// Sets how often a worker shows that it is alive.
    with_beat beat: Duration;
    /// Sets how often a leg is begun whose worker died over it.
    with_deaths deaths: u32;
    /// Sets what becomes of errors that are not terminal.
    with_retry retry: RetryPolicy;
    /// Sets how long a cancelled tool may clean up.
    with_clean_up clean_up: Duration;
    /// Sets how long a leg may go on after the server begins to shut down. Default: 10 seconds.
    with_drain drain: Duration;
    /// Sets after which time of work a run becomes a task.
    with_promote_after promote_after: impl Into<Option<Duration>>;
    /// Sets whether somebody of whom nothing is known may list the tasks of all such.
    with_anonymous_list anonymous_list: bool;
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
