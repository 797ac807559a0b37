//! Tasks: runs that outlive the request that began them.
//!
//! [`ServerBuilder::with_tasks`](crate::ServerBuilder::with_tasks) turns them on with a [`TaskConfig`]. [`TaskPolicy`] says
//! which tools they are for. [`Runs`] is for operators.

// | where | name | what |
// |---|---|---|
// | record | `tasks/<owner>/<task>` | a run, whole and sealed (`record`) |
// | record | `pieces/<random>/<n>` | a run too large for one record |
// | queue | `tasks:<audience>:<lane>` | one job for the next leg of a run |
// | record | `due/<audience>/<owner>/<task>` | the alarm of a run that has not ended (`alarm`) |
// | record | `rings/<audience>/<replica>` | which keys a replica has (`key_rings`) |
// | record | `audit/<audience>` | who goes through all records, or when it was done last |
// | topic | `tasks/<audience>` | a task has changed |
//
// A leg is a leased job: it loads the record, brings the tool back to where it was, and lets it go on until it
// returns or waits for people or for time. Then the record is written, conditionally, and nothing of the run is
// in memory. What a step returned is written before the tool sees it.
//
// A run has one job at a time, named in its record. Whoever changes the record so that there is something to do
// names the next job in the same write and pushes it after. If it dies in between, or the queue loses the job, the run's
// alarm rings (`alarm`), and a server pushes the job again: a queue takes a job of one id once.

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
    answer::Cancelled,
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
    run::Runtime,
};

/// The tasks of a server.
pub(crate) struct Tasks {
    pub(crate) config: TaskConfig,
    runtime: Arc<Runtime>,
    /// The tools that runs are of.
    catalog: Arc<Catalog>,
    backend: Backend,
    /// A digest of the audience: servers of one name share their tasks.
    audience: String,
    watchers: Watchers,
    /// What is asked live.
    pub(crate) asking: Asking,
    /// The legs this process works on, by task.
    working: Mutex<HashMap<String, Weak<TaskWriter>>>,
    slots: Slots,
    rollback: RollbackDetector,
    /// Whether other processes may share the backend.
    is_shared: bool,
    /// Whether this removes what has expired: no replicas do it.
    sweeps: bool,
    /// This process, among those that share the backend.
    instance: String,
    /// What keeps this replica from working on tasks.
    blockers: Mutex<WorkBlockers>,
    /// Told when the key rings were compared.
    compared: Arc<Notify>,
    begun: AtomicBool,
    stopped: CancellationToken,
}

/// Whose tasks: a name that nobody can guess from the outside and that is the same on every replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner(String);

/// A task to be.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) principal: Option<String>,
    pub(crate) revision: Revision,
    /// What the client can be asked, as it declared it.
    pub(crate) capabilities: Value,
    /// For how long the client wants it kept, in milliseconds. `None`: it does not say.
    pub(crate) ttl: Option<u64>,
    /// What the run has seen before it became a task.
    pub(crate) journal: Option<Journal>,
    /// What it waits for, by the question's own key; with them there is nothing to do before they are answered.
    pub(crate) asks: Vec<(String, Value)>,
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

    /// The owner a caller is: everybody of whom nothing is known is the same one.
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

    /// Makes a task. When this returns, any replica can tell of it.
    ///
    /// # Errors
    ///
    /// Where too many wait already, or the store cannot be reached.
    pub(crate) async fn create(self: &Arc<Self>, new: NewTask) -> Result<TaskView> {
        self.begin();
        self.check_able().await?;
        self.check_backlog().await?;
        let mut record = self.record(new);
        let waits = !record.asks.is_empty();
        let now = now_millis();
        let due = (!waits).then(|| record.next_job(now));
        record.note("created", self.runtime.replica.clone());
        let key = Self::key_of(&record);
        self.set_alarm(&key, now).await;
        let revision = self.insert(&key, &record).await?;
        if let Some(due) = due {
            self.push(&key, &record, due, now).await;
        }
        Ok(record.view(revision))
    }

    fn record(&self, new: NewTask) -> TaskRecord {
        let NewTask { tool, arguments, principal, revision, capabilities, ttl, journal, asks } = new;
        let now = now_millis();
        let journal = journal.unwrap_or_else(|| Journal::new(String::new()));
        let requested = ttl.is_some();
        let retention = match ttl {
            Some(ttl) => Some(ttl.max(1000).min(millis(self.config.max_ttl))),
            None => self.config.ttl.map(millis),
        };
        let mut record = TaskRecord {
            format: record::FORMAT,
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
            apart: None,
            stale: false,
        };
        // The run's id is what idempotency keys begin with: if it has none yet, it is the task's.
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

    /// A task of this owner; `None` where there is none, or none of theirs.
    pub(crate) async fn get(self: &Arc<Self>, owner: &Owner, id: &str) -> Result<Option<TaskView>> {
        self.begin();
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        let Some((record, revision)) = self.load(&key).await? else { return Ok(None) };
        self.heal(&key, &record).await;
        Ok(Some(record.view(revision.0)))
    }

    /// Some of an owner's tasks, and where the rest begins.
    pub(crate) async fn list(
        self: &Arc<Self>,
        owner: &Owner,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<TaskView>, Option<String>)> {
        let (records, next) = self.records(&format!("{RECORDS}{}/", owner.0), after, limit).await?;
        Ok((records.into_iter().map(|(_, record, revision)| record.view(revision.0)).collect(), next))
    }

    /// Waits until a task is other than `seen`, and shows it. `None` when it is gone.
    pub(crate) async fn changed(
        self: &Arc<Self>,
        owner: &Owner,
        id: &str,
        seen: u64,
    ) -> Result<Option<TaskView>> {
        self.begin();
        let news = self.watchers.watch(id);
        loop {
            // Registered first: what happens from here on is heard.
            let heard = news.notified();
            match self.get(owner, id).await? {
                Some(view) if view.version == seen => {}
                found => return Ok(found),
            }
            // Nobody relies on an announcement alone.
            let _ = tokio::time::timeout(WATCH, heard).await;
        }
    }
}

/// How often what is waited for is looked at where nothing is heard of it.
const WATCH: Duration = Duration::from_secs(2);

/// The store failed: nobody's fault, and worth another try.
fn unavailable(error: &antiphon_store::Error) -> Error {
    tracing::error!(%error, "the store of tasks failed");
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
