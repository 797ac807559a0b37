//! The change of a run into a task while the tool call is in progress.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use antiphon_replay::Journal;
use antiphon_store::Revision;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, oneshot},
    time::Instant,
};

use super::{NewTask, TaskView, TaskWriter, Tasks, record::Due};
use crate::{
    base::{lock, millis, now_millis},
    error::{Error, ErrorKind, Result},
    run::{Claimed, Pending, Persistence, Promote, Run},
};

/// The duration of a hold, in heartbeat intervals. A hold in a run's record shows that a process executes the run
/// without a job.
pub(super) const HOLD: u32 = 3;

/// If a run could not become a task, the server tries again after this time.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A run that can become a task.
pub(crate) struct Promotion {
    tasks: Arc<Tasks>,
    when: Promoting,
    /// The data for the task, and the channel to the request that waits. The value is `None` after the task was
    /// created, or after [`take`](Self::take).
    pending: Mutex<Option<(NewTask, oneshot::Sender<TaskView>)>>,
    writer: OnceLock<Arc<TaskWriter>>,
    kept: Notify,
    /// Whether the waiting request has received the task. If `true`, the end of the request does not cancel the run.
    told: Arc<AtomicBool>,
}

/// The conditions under which a run becomes a task.
#[derive(Debug)]
struct Promoting {
    begun: Instant,
    after: Option<Duration>,
    wanted: AtomicBool,
    postponed: Mutex<Option<Instant>>,
}

impl Promoting {
    fn new(after: Option<Duration>) -> Self {
        let (wanted, postponed) = (AtomicBool::new(false), Mutex::new(None));
        Self { begun: Instant::now(), after, wanted, postponed }
    }

    /// Records that the tool has asked to make the run a task.
    fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Returns the time until the run becomes a task, or `None` if the run does not become a task.
    fn due(&self) -> Option<Duration> {
        let due = match self.after {
            _ if self.is_wanted() => Duration::ZERO,
            Some(after) => after.saturating_sub(self.begun.elapsed()),
            None => return None,
        };
        let postponed = *lock(&self.postponed);
        let until = postponed.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        Some(due.max(until))
    }

    /// Delays the next attempt to make the run a task.
    fn postpone(&self) {
        *lock(&self.postponed) = Some(Instant::now() + RETRY_DELAY);
    }
}

impl Promotion {
    /// Creates a promotion, which makes the run a task if the call takes longer than `after`. When the run becomes a
    /// task, `reply` receives the task.
    pub(crate) fn new(
        tasks: &Arc<Tasks>,
        new: NewTask,
        after: Option<Duration>,
        reply: oneshot::Sender<TaskView>,
    ) -> Arc<Self> {
        Arc::new(Self {
            when: Promoting::new(after),
            tasks: Arc::clone(tasks),
            pending: Mutex::new(Some((new, reply))),
            writer: OnceLock::new(),
            kept: Notify::new(),
            told: Arc::default(),
        })
    }

    /// Takes the data for the task. After this call, this promotion can no longer make the run a task.
    pub(crate) fn take(&self) -> Option<NewTask> {
        lock(&self.pending).take().map(|(new, _)| new)
    }

    /// Returns the task writer, if the run has become a task.
    pub(crate) fn writer(&self) -> Option<&Arc<TaskWriter>> {
        self.writer.get()
    }

    /// Returns `true` if the waiting request has received the task. The request receives the task before the run does.
    pub(crate) fn is_told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }

    /// Waits until the run has become a task, and returns the task writer.
    pub(crate) async fn kept(&self) -> &Arc<TaskWriter> {
        loop {
            if let Some(writer) = self.writer() {
                return writer;
            }
            self.kept.notified().await;
        }
    }

    async fn make_task(&self, run: &Run) -> Result<Option<Arc<dyn Persistence>>> {
        let Some(pending) = lock(&self.pending).take() else { return Ok(None) };
        let Ok(place) = self.tasks.place() else {
            // All workers are busy. The run stays a plain call until a worker is free.
            *lock(&self.pending) = Some(pending);
            self.when.postpone();
            return Ok(None);
        };
        // A separate Tokio task creates the MCP task, because the waiting request can be dropped at any time. If the
        // request dropped this work, a half-created task could remain.
        let (tasks, told) = (Arc::clone(&self.tasks), Arc::clone(&self.told));
        let write = Self::write(tasks, pending, told, (run.journal(), run.claims_under_way()), place);
        let written = tokio::spawn(write).await;
        let writer = written.unwrap_or_else(|_| Err(Error::new(ErrorKind::Cancelled)))?;
        let _ = self.writer.set(Arc::clone(&writer));
        self.kept.notify_one();
        Ok(Some(writer))
    }

    /// Creates the task for a run that continues in this process, and stores the current journal of the run. The
    /// returned task writer stores all later results of the run.
    async fn write(
        tasks: Arc<Tasks>,
        (mut new, reply): (NewTask, oneshot::Sender<TaskView>),
        told: Arc<AtomicBool>,
        (journal, claims): (Journal, BTreeMap<String, String>),
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<Arc<TaskWriter>> {
        tasks.begin();
        tasks.check_able().await?;
        tasks.check_waiting(&new).await?;
        new.journal = Some(journal);
        let now = now_millis();
        let mut record = tasks.record(new, now);
        let claimed = |(key, step)| (key, Claimed { step, failed: None });
        record.claims = claims.into_iter().map(claimed).collect();
        let until = now + millis(HOLD * tasks.config.heartbeat_interval);
        record.held = Some(until);
        record.legs = 1;
        record.note("promoted", tasks.runtime.replica.clone(), now);
        let due = record.next_job(until);
        let key = Tasks::key_of(&record);
        tasks.set_alarm(&key, until).await;
        let revision = tasks.insert(&key, &record).await?;
        // If this process dies, a worker leases this job and continues the run.
        tasks.push(&key, &record, Due { at: until, ..due }, now).await;
        // The flag must be set before the request ends, because the end of the request is otherwise treated as a
        // cancellation.
        told.store(true, Ordering::Release);
        if reply.send(record.view(revision)).is_err() {
            // The request was dropped, so the client will never receive the ID of the task.
            tasks.remove(&key, record, Revision(revision)).await?;
            return Err(Error::new(ErrorKind::Cancelled));
        }
        Ok(TaskWriter::new(&tasks, key, record, Revision(revision), None, place))
    }
}

impl Promote for Promotion {
    fn due(&self) -> Option<Duration> {
        let can = lock(&self.pending).is_some();
        if can { self.when.due() } else { None }
    }

    fn is_wanted(&self) -> bool {
        self.when.is_wanted()
    }

    fn want(&self) {
        self.when.want();
    }

    fn promote<'a>(&'a self, run: &'a Run) -> Pending<'a, Result<Option<Arc<dyn Persistence>>>> {
        Box::pin(self.make_task(run))
    }
}

impl std::fmt::Debug for Promotion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promotion").field("when", &self.when).finish_non_exhaustive()
    }
}
