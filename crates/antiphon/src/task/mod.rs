//! Tasks: runs that outlive the request that started them.
//!
//! You enable tasks with [`ServerBuilder::with_tasks`](crate::ServerBuilder::with_tasks) and a [`TaskConfig`]. The
//! [`TaskPolicy`] of a tool determines whether its runs can become tasks. With [`Runs`], operators can list and change
//! runs.

// | kind | name | content |
// |---|---|---|
// | record | `tasks/<owner>/<task>` | a complete run, encrypted (`record`) |
// | record | `pieces/<random>/<n>` | a part of a run, if the run is too large for one record |
// | queue | `tasks:<audience>:<lane>` | for each run, one job that executes the next leg |
// | record | `due/<audience>/<owner>/<task>` | the alarm of a run that has not ended (`alarm`) |
// | record | `waits/<audience>/<owner>/…` | the ID of a run that waits for its user (`waits`) |
// | record | `rings/<audience>/<replica>` | the fingerprints of a replica's encryption keys (`key_rings`) |
// | record | `audit/<audience>` | the lease of the audit. Between two audits, it marks the time until the next audit |
// | topic | `tasks/<audience>` | notifications that a task has changed |
//
// A worker executes a leg while it leases the job of the leg. It loads the record, replays the tool, and continues the
// tool until the tool returns, or waits for an answer or a point in time. Then the worker writes the record with a
// conditional write, and the run no longer uses memory. The result of a step is stored before the tool receives the
// result.
//
// A run has one job at a time. The record of the run contains the number of this job. If a process creates work for
// the run, it first stores the number of the next job together with this work, and then queues the job. If the process
// dies between the two actions, or if the queue loses the job, the alarm of the run expires (`alarm`). A server then
// queues the job again. This is idempotent, because a queue accepts each job ID only once.

mod alarm;
mod answer;
mod asking;
mod config;
mod key_rings;
mod leg;
mod operate;
mod promote;
mod record;
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
    /// The tools that the runs call.
    catalog: Arc<Catalog>,
    backend: Backend,
    /// A digest of the audience. Servers with the same audience share their tasks.
    audience: String,
    watchers: Watchers,
    /// The questions that are currently sent to clients of this process.
    pub(crate) asking: Asking,
    /// The legs that run in this process, by task.
    working: Mutex<HashMap<String, Weak<TaskWriter>>>,
    slots: Slots,
    rollback: RollbackDetector,
    /// Whether other processes can use the same backend.
    is_shared: bool,
    /// Whether this process itself removes expired records, because it has no other replicas.
    sweeps: bool,
    /// The random ID of this process. It is unique among the processes that share the backend.
    instance: String,
    /// The reasons why this replica does not execute tasks.
    blockers: Mutex<WorkBlockers>,
    /// Notified after each comparison of the key rings.
    compared: Arc<Notify>,
    begun: AtomicBool,
    stopped: CancellationToken,
}

/// The owner of tasks: a digest of the principal. It is the same on every replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner(String);

#[cfg(feature = "http")]
impl Owner {
    /// Returns the digest of the principal as a number. For unauthenticated callers, returns `None`.
    pub(crate) fn number(&self) -> Option<u128> {
        u128::from_str_radix(&self.0, 16).ok()
    }

    /// Returns the owner with this number.
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
    /// The questions that the run waits for, by question key. If the list is not empty, no leg starts before an answer
    /// arrives.
    pub(crate) asks: Vec<(String, Value)>,
    /// The time at which the run continues even without an answer, in milliseconds since 1970.
    pub(crate) due: Option<u64>,
    /// The channels in addition to the client, through which the user can answer.
    pub(crate) channels: Channels,
    /// Whether the caller's model reads the result with the tool `task_result`.
    pub(crate) is_read_with_a_tool: bool,
    /// How long a question stays open, in milliseconds.
    pub(crate) question_life: Option<u64>,
    /// The name of the call. While the run waits for its user, a repeated call with the same name joins the run.
    pub(crate) call: Option<String>,
    /// The maximum number of the caller's runs that can wait for users.
    pub(crate) max_waiting: Option<usize>,
    /// The name of the connection over which the call arrived, if the connection belongs to one client.
    pub(crate) connection: Option<String>,
}

impl NewTask {
    /// Returns the data of a run whose call is answered before the run ends.
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

    /// Adapts the data to a client that does not follow tasks. Such a client receives no questions of the task. Its
    /// model reads the result with the tool `task_result`.
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
    /// Returns an error if too many tasks wait, if this replica cannot create tasks, or if the store cannot
    /// be reached.
    pub(crate) async fn create(self: &Arc<Self>, new: NewTask) -> Result<TaskView> {
        self.begin();
        self.check_able().await?;
        self.check_backlog().await?;
        let wake = new.due;
        let mut record = self.record(new);
        let waits = !record.asks.is_empty();
        let now = now_millis();
        // If no answer arrives, the next leg gives the tool an error at this time.
        let end = if waits { [wake, record.questions_end()].into_iter().flatten().min() } else { Some(now) };
        let due = end.map(|end| record.next_job(end));
        record.note("created", self.runtime.replica.clone());
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

    fn record(&self, new: NewTask) -> TaskRecord {
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
        // The name of the connection is needed only for the list of waiting runs, and only to distinguish
        // unauthenticated callers.
        let connection = connection.filter(|_| is_read_with_a_tool && principal.is_none());
        let now = now_millis();
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
        // Idempotency keys begin with the ID of the run. If the run has no ID, it uses the ID of the task.
        if record.journal.run.is_empty() {
            record.journal.run.clone_from(&record.id);
        }
        for (key, request) in asks {
            record.ask(&key, request);
        }
        record
    }

    fn key_of(record: &TaskRecord) -> String {
        format!("{RECORDS}{}/{}", Self::owner(record.principal.as_deref()).0, record.id)
    }

    /// Returns a task of this owner, or `None` if this owner has no such task.
    pub(crate) async fn get(self: &Arc<Self>, owner: &Owner, id: &str) -> Result<Option<TaskView>> {
        self.begin();
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        let Some((record, revision)) = self.load(&key).await? else { return Ok(None) };
        self.heal(&key, &record).await;
        Ok(Some(record.view(revision.0)))
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

    /// Waits until the version of a task differs from `seen`, and returns the task. Returns `None` if the task no
    /// longer exists.
    pub(crate) async fn changed(
        self: &Arc<Self>,
        owner: &Owner,
        id: &str,
        seen: u64,
    ) -> Result<Option<TaskView>> {
        self.begin();
        let news = self.watchers.watch(id);
        loop {
            // The registration happens before the read, so that a change after the read is not missed.
            let heard = news.notified();
            match self.get(owner, id).await? {
                Some(view) if view.version == seen => {}
                found => return Ok(found),
            }
            // Notifications can be lost, so this method also polls.
            let _ = tokio::time::timeout(WATCH, heard).await;
        }
    }
}

/// The maximum time between two reads of a watched task, if no notification arrives.
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
