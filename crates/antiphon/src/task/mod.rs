//! Tasks: runs that outlive the request that started them.
//!
//! You enable tasks with [`ServerBuilder::with_tasks`](crate::ServerBuilder::with_tasks) and a [`TaskConfig`]. The
//! [`TaskPolicy`] of a tool determines whether runs of this tool can become tasks. With [`Runs`], operators can list
//! and change runs.

// | kind | name | content |
// |---|---|---|
// | record | `tasks/<owner>/<task>` | a complete run, encrypted (`record`) |
// | record | `pieces/<random>/<n>` | a part of a run, if the run is too large for one record |
// | queue | `tasks:<audience>:<lane>` | one job for each run. A worker with this job executes the next leg |
// | record | `due/<audience>/<owner>/<task>` | the alarm of a run that has not ended (`alarm`) |
// | record | `waits/<audience>/<owner>/…` | the ID of a run that waits for its user (`waits`) |
// | record | `rings/<audience>/<replica>` | the fingerprints of a replica's encryption keys (`key_rings`) |
// | record | `audit/<audience>` | the lease of the audit. When the record expires, the next audit can start |
// | topic | `tasks/<audience>` | notifications that a task has changed |
//
// A worker leases the job of a leg and executes the leg. The worker loads the record, replays the tool, and continues
// the tool. When the tool returns or waits, the worker stores the record with a conditional write. A waiting run then
// uses no memory. The worker stores the result of each step before the tool receives the result.
//
// A run has one job at a time, and the record of the run contains the number of this job. When a run receives new work,
// for example an answer, the process first stores the work and the number of the next job. Then the process queues the
// job. If the process dies between these two actions, or if the queue loses the job, the alarm of the run expires
// (`alarm`). A replica then queues the job again. Queueing is idempotent, because a queue accepts each job ID only
// once.

mod alarm;
mod answer;
mod asking;
mod config;
mod key_rings;
mod leg;
mod operate;
mod promote;
mod record;
mod reducer;
mod rollback;
mod store;
mod view;
mod waits;
mod watch;
mod worker;
mod writer;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, Weak, atomic::AtomicBool},
    time::Duration,
};

use antiphon_replay::Journal;
use antiphon_store::{Backend, QueueConfig};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    answer::{Cancelled, Delivered, OpenQuestions},
    asking::{Asking, Claim},
    promote::Promotion,
    record::TaskRecord,
    view::{Ended, TaskView},
    writer::TaskWriter,
};
pub use self::{
    config::TaskConfig,
    operate::{RunChanged, RunEntry, RunEvent, RunPage, RunReport, RunSummary, Runs},
    view::TaskStatus,
};
use self::{key_rings::WorkBlockers, rollback::RollbackDetector, watch::Watchers, worker::Slots};
pub use crate::tool::{RetryPolicy, TaskPolicy};
use crate::{
    base::{digest, millis, now_millis, random_id},
    durable::TASKS as RECORDS,
    error::{Error, ErrorKind, Result},
    protocol::Revision,
    registry::Catalog,
    run::{AskOptions, Channels, Run, Runtime},
};

/// The tasks of a server.
pub(crate) struct Tasks {
    pub(crate) config: TaskConfig,
    runtime: Arc<Runtime>,
    /// The current tools of the server, which legs call.
    catalog: Arc<Catalog>,
    backend: Backend,
    /// A digest of the audience. Servers with the same audience share tasks.
    audience: String,
    watchers: Watchers,
    /// The task questions that this process is currently sending to clients.
    pub(crate) asking: Asking,
    /// The writers of the legs that run in this process, by the ID of the task.
    working: Mutex<HashMap<String, Weak<TaskWriter>>>,
    slots: Slots,
    rollback: RollbackDetector,
    /// Whether other processes can use the same backend.
    is_shared: bool,
    /// Whether this process removes expired records. A server without a backend removes expired records itself.
    sweeps: bool,
    /// A random ID that identifies this process among the processes that share the backend.
    instance: String,
    /// The reasons why this replica does not execute tasks.
    blockers: Mutex<WorkBlockers>,
    /// A handle that is notified after each comparison of the key rings.
    compared: Arc<Notify>,
    begun: AtomicBool,
    stopped: CancellationToken,
    /// Whether this server behaves like an older version, which cannot read the records.
    #[cfg(feature = "__simulation")]
    pub(crate) is_old: AtomicBool,
}

/// The owner of tasks: a digest of the principal. Every replica computes the same digest for a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner(String);

#[cfg(feature = "http")]
impl Owner {
    /// Returns the digest of the principal as a number, or `None` for unauthenticated callers.
    pub(crate) fn number(&self) -> Option<u128> {
        u128::from_str_radix(&self.0, 16).ok()
    }

    /// Returns the owner for a number that [`number`](Self::number) has returned.
    pub(crate) fn of_number(number: Option<u128>) -> Self {
        number.map_or_else(|| Tasks::owner(None), |number| Self(format!("{number:032x}")))
    }
}

/// The data for a new task.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) principal: Option<String>,
    pub(crate) revision: Revision,
    /// The capabilities that the client declared.
    pub(crate) capabilities: Value,
    /// The TTL that the client requested, in milliseconds.
    pub(crate) ttl: Option<u64>,
    /// The journal of the run, if the run has already started as a plain call.
    pub(crate) journal: Option<Journal>,
    /// The questions that the run waits for, each with its question key. If the list is not empty, the first leg starts
    /// only after an answer has arrived.
    pub(crate) asks: Vec<(String, Value)>,
    /// The time at which the run continues even without an answer, in milliseconds since 1970.
    pub(crate) due: Option<u64>,
    /// The channels, other than the client, through which the user can answer.
    pub(crate) channels: Channels,
    /// Whether the caller's model reads the result with the tool `task_result`.
    pub(crate) is_read_with_a_tool: bool,
    /// How long a question stays open, in milliseconds.
    pub(crate) question_life: Option<u64>,
    /// The name of the call, which equal calls share. If the caller repeats a call while its run waits for the user,
    /// the repeated call joins this run.
    pub(crate) call: Option<String>,
    /// The maximum number of runs of one caller that can wait for users.
    pub(crate) max_waiting: Option<usize>,
    /// The name of the connection over which the call arrived, if the connection belongs to one client.
    pub(crate) connection: Option<String>,
}

impl NewTask {
    /// Creates the task data for a run that outlives its call: the server answers the call before the run ends.
    pub(crate) fn handed_over(tool: &str, arguments: Value, run: &Run) -> Self {
        let new = Self {
            tool: tool.to_owned(),
            arguments,
            principal: run.principal.clone(),
            revision: run.client.revision(),
            capabilities: Value::Null,
            ttl: None,
            journal: None,
            asks: Vec::new(),
            due: None,
            channels: Channels::default(),
            is_read_with_a_tool: false,
            question_life: None,
            call: None,
            max_waiting: None,
            connection: run.client.connection_name(),
        };
        new.followed_by_nobody(run.ask)
    }

    /// Changes the data for a client that does not read tasks. The server does not send task questions to this client,
    /// and the model reads the result with the tool `task_result`.
    pub(crate) fn followed_by_nobody(self, ask: AskOptions) -> Self {
        Self {
            capabilities: serde_json::json!({}),
            channels: ask.channels,
            is_read_with_a_tool: true,
            question_life: Some(millis(ask.expiry)),
            max_waiting: ask.max_waiting,
            ..self
        }
    }
}

impl Tasks {
    pub(crate) fn new(config: TaskConfig, runtime: Arc<Runtime>, catalog: Arc<Catalog>) -> Arc<Self> {
        let slots = Slots::new(&config);
        let alone = || antiphon_store::Memory::default().backend(QueueConfig::default());
        let backend = runtime.backend.clone().unwrap_or_else(alone);
        Arc::new(Self {
            config,
            is_shared: backend.store.is_shared(),
            sweeps: runtime.backend.is_none(),
            instance: random_id(),
            blockers: Mutex::default(),
            compared: Arc::default(),
            backend,
            audience: digest(&["audience", &runtime.audience]),
            watchers: Watchers::default(),
            asking: Asking::default(),
            working: Mutex::default(),
            slots,
            rollback: RollbackDetector::default(),
            begun: AtomicBool::new(false),
            #[cfg(feature = "__simulation")]
            is_old: AtomicBool::new(false),
            stopped: runtime.shutdown.clone(),
            runtime,
            catalog,
        })
    }

    /// Returns the owner for a principal. All unauthenticated callers have the same owner.
    pub(crate) fn owner(principal: Option<&str>) -> Owner {
        Owner(match principal {
            Some(principal) => digest(&["owner", principal]),
            None => "anyone".to_owned(),
        })
    }

    fn key(owner: &Owner, id: &str) -> Option<String> {
        let named = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        named.then(|| format!("{RECORDS}{}/{id}", owner.0))
    }

    /// Creates a task. After this method returns, every replica can read the task.
    ///
    /// # Errors
    ///
    /// Returns an error if too many jobs wait in the queues, if this replica must not create tasks, or if the store is
    /// not available.
    pub(crate) async fn create(self: &Arc<Self>, new: NewTask) -> Result<TaskView> {
        self.begin();
        self.check_able().await?;
        self.check_backlog().await?;
        let wake = new.due;
        let now = now_millis();
        let mut record = self.record(new, now);
        let waits = !record.asks.is_empty();
        // If no answer arrives before this time, the next leg starts, and the tool receives an error.
        let end = if waits { [wake, record.questions_end()].into_iter().flatten().min() } else { Some(now) };
        let due = end.map(|end| record.next_job(end));
        record.note("created", self.runtime.replica.clone(), now);
        let key = Self::key_of(&record);
        self.set_alarm(&key, due.map_or(now, |due| due.at)).await;
        let revision = self.insert(&key, &record).await?;
        if waits {
            self.list_waiting(&record).await;
        }
        if let Some(due) = due {
            self.push(&key, &record, due, now).await;
        }
        Ok(record.view(revision))
    }

    fn record(&self, new: NewTask, now: u64) -> TaskRecord {
        let NewTask {
            tool,
            arguments,
            principal,
            revision,
            capabilities,
            ttl,
            journal,
            asks,
            due: _,
            channels,
            is_read_with_a_tool,
            question_life,
            call,
            max_waiting: _,
            connection,
        } = new;
        // The name of the connection distinguishes unauthenticated callers in the list of waiting runs. Other tasks do
        // not need the name.
        let connection = connection.filter(|_| is_read_with_a_tool && principal.is_none());
        let journal = journal.unwrap_or_else(|| Journal::new(String::new()));
        let requested = ttl.is_some();
        let retention = match ttl {
            Some(ttl) => Some(ttl.max(1000).min(millis(self.config.max_ttl))),
            None => self.config.ttl.map(millis),
        };
        let mut record = TaskRecord {
            format: record::format(channels),
            id: random_id(),
            tool,
            arguments,
            principal,
            rounds: revision == Revision::Rounds,
            capabilities,
            status: if asks.is_empty() { TaskStatus::Working } else { TaskStatus::InputRequired },
            message: None,
            created: now,
            updated: now,
            ttl: None,
            poll: millis(self.config.poll_interval),
            journal,
            serial: 0,
            written: 0,
            asks: BTreeMap::new(),
            answers: BTreeMap::new(),
            put: BTreeMap::new(),
            job: None,
            jobs: 0,
            held: None,
            legs: 0,
            failures: 0,
            ended: None,
            cleaning: false,
            dead: false,
            events: Vec::new(),
            audience: self.audience.clone(),
            retention,
            requested,
            toolless: None,
            claims: BTreeMap::new(),
            channels,
            is_read_with_a_tool,
            question_life,
            call,
            connection,
            taken: BTreeMap::new(),
            apart: None,
            stale: false,
        };
        // Idempotency keys begin with the ID of the run. If the run has no ID, the ID of the task becomes the ID of the
        // run.
        if record.journal.run.is_empty() {
            record.journal.run.clone_from(&record.id);
        }
        for (key, request) in asks {
            record.ask(&key, request, now);
        }
        record
    }

    fn key_of(record: &TaskRecord) -> String {
        format!("{RECORDS}{}/{}", Self::owner(record.principal.as_deref()).0, record.id)
    }

    /// Returns a task of this owner. Returns `None` if the owner has no task with this ID.
    pub(crate) async fn get(self: &Arc<Self>, owner: &Owner, id: &str) -> Result<Option<TaskView>> {
        self.begin();
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        let Some((record, revision)) = self.load(&key).await? else { return Ok(None) };
        self.heal(&key, &record).await;
        Ok(Some(record.view(revision.0)))
    }

    /// Returns a task of this owner, and `true` if the task has ended and the tool has cleaned up. This method does not
    /// queue a lost job again.
    #[cfg(feature = "__simulation")]
    pub(crate) async fn observe(&self, owner: &Owner, id: &str) -> Result<Option<(TaskView, bool)>> {
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        let found = self.load(&key).await?;
        Ok(found.map(|(record, revision)| (record.view(revision.0), record.is_over())))
    }

    /// Returns one page of an owner's tasks, and the cursor for the next page.
    pub(crate) async fn list(
        self: &Arc<Self>,
        owner: &Owner,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<TaskView>, Option<String>)> {
        let (records, next) = self.records(&format!("{RECORDS}{}/", owner.0), after, limit).await?;
        Ok((records.into_iter().map(|(_, record, revision)| record.view(revision.0)).collect(), next))
    }

    /// Waits until the task has another version than `seen`, and returns the task. Returns `None` if the task no longer
    /// exists.
    pub(crate) async fn changed(
        self: &Arc<Self>,
        owner: &Owner,
        id: &str,
        seen: u64,
    ) -> Result<Option<TaskView>> {
        self.begin();
        let news = self.watchers.watch(id);
        loop {
            // This code registers for notifications before the read of the task. So if the task changes after the read,
            // this code is notified.
            let heard = news.notified();
            match self.get(owner, id).await? {
                Some(view) if view.version == seen => {}
                found => return Ok(found),
            }
            // Notifications can be lost, so this method also reads the task periodically.
            let _ = tokio::time::timeout(WATCH, heard).await;
        }
    }
}

/// If no notification arrives, a process reads a watched task again after this time.
const WATCH: Duration = Duration::from_secs(2);

/// Converts an error of the store into an error for the caller. The caller can try again later.
fn unavailable(error: &antiphon_store::Error) -> Error {
    tracing::error!(%error, "the store failed during an operation on a task");
    Error::new(ErrorKind::Protocol {
        code: -32603,
        message: "the server's store of tasks cannot be reached; try again later".into(),
        data: None,
    })
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("config", &self.config)
            .field("replica", &self.runtime.replica)
            .finish_non_exhaustive()
    }
}
