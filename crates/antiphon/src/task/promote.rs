//! Runs that become tasks on their way.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use antiphon_replay::Journal;
use antiphon_store::Revision;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{Keeper, NewTask, TaskView, Tasks, millis, record::Due};
use crate::{
    error::{Error, ErrorKind, Result},
    run::{Run, now_millis},
    server::Shared,
};

/// For how many beats a leg counts as alive that no job runs.
pub(super) const HOLD: u32 = 3;

/// After which time a run tries again to become a task that could not.
const AGAIN: Duration = Duration::from_secs(1);

/// What it takes for a run to become a task.
pub(crate) struct Promotion {
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) new: NewTask,
    /// Whoever waits for the answer.
    pub(crate) reply: oneshot::Sender<TaskView>,
}

/// When a run becomes a task.
#[derive(Debug)]
pub(crate) struct Promoting {
    begun: Instant,
    after: Option<Duration>,
    wanted: AtomicBool,
    postponed: Mutex<Option<Instant>>,
}

impl Promoting {
    pub(crate) fn new(after: Option<Duration>) -> Self {
        let (wanted, postponed) = (AtomicBool::new(false), Mutex::new(None));
        Self { begun: Instant::now(), after, wanted, postponed }
    }

    /// The tool wants to be one.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// In how long; `None` is never.
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = match self.after {
            _ if self.is_wanted() => Duration::ZERO,
            Some(after) => after.saturating_sub(self.begun.elapsed()),
            None => return None,
        };
        let postponed = *self.postponed.lock().unwrap_or_else(PoisonError::into_inner);
        let until = postponed.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        Some(due.max(until))
    }

    /// It cannot be now.
    pub(crate) fn postpone(&self) {
        *self.postponed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + AGAIN);
    }
}

impl Promotion {
    /// Makes a task of a run that goes on in this process. What it has seen so far is written down, and so is all
    /// that it comes to from now on.
    ///
    /// # Errors
    ///
    /// Where the task cannot be created. The run goes on as it was.
    pub(crate) async fn promote(self, run: &Run, place: Option<OwnedSemaphorePermit>) -> Result<Arc<Keeper>> {
        // By itself: whoever waits for it may go away at any time, and nobody goes on with half a task then.
        let written = tokio::spawn(self.write(run.journal(), run.claims_under_way(), place)).await;
        written.unwrap_or_else(|_| Err(Error::new(ErrorKind::Cancelled)))
    }

    async fn write(
        self,
        journal: Journal,
        claims: BTreeMap<String, String>,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<Arc<Keeper>> {
        let Self { tasks, shared, mut new, reply } = self;
        tasks.begin(&shared);
        tasks.check_able().await?;
        new.journal = Some(journal);
        let mut record = tasks.record(new);
        let claimed = |(key, step)| (key, super::Claimed { step, failed: None });
        record.claims = claims.into_iter().map(claimed).collect();
        let now = now_millis();
        let until = now + millis(HOLD * tasks.config.beat);
        record.held = Some(until);
        record.legs = 1;
        record.note("promoted", tasks.replica.clone());
        let due = record.next_job(until);
        let key = Tasks::key_of(&record);
        tasks.set_alarm(&key, until).await;
        let revision = tasks.insert(&shared, &key, &record).await?;
        // If this process dies, whoever gets this job goes on.
        tasks.push(&key, &record, Due { at: until, ..due }, now).await;
        if reply.send(record.view(revision)).is_err() {
            // Nobody will ever know of it.
            tasks.remove(&key, record, Revision(revision)).await?;
            return Err(Error::new(ErrorKind::Cancelled));
        }
        Ok(Keeper::new(&tasks, &shared, key, record, Revision(revision), place))
    }
}

impl std::fmt::Debug for Promotion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promotion").field("tool", &self.new.tool).finish_non_exhaustive()
    }
}
