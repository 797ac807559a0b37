//! Runs that become tasks on their way.

use std::{
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    time::{Duration, Instant},
};

use antiphon_store::Revision;
use tokio::sync::oneshot;

use super::{Keeper, NewTask, TaskView, Tasks, millis, record::Due};
use crate::{
    error::Result,
    run::{Run, now_millis},
    server::Shared,
};

/// For how many beats a leg counts as alive that no job runs.
pub(super) const HOLD: u32 = 4;

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
}

impl Promoting {
    pub(crate) fn new(after: Option<Duration>) -> Self {
        Self { begun: Instant::now(), after, wanted: AtomicBool::new(false) }
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
        if self.is_wanted() {
            return Some(Duration::ZERO);
        }
        self.after.map(|after| after.saturating_sub(self.begun.elapsed()))
    }
}

impl Promotion {
    /// Makes a task of a run that goes on in this process. What it has seen so far is written down, and so is all
    /// that it comes to from now on.
    ///
    /// # Errors
    ///
    /// Where the task cannot be created. The run goes on as it was.
    pub(crate) async fn promote(self, run: &Run) -> Result<Arc<Keeper>> {
        let Self { tasks, shared, mut new, reply } = self;
        tasks.begin(&shared);
        new.journal = Some(run.journal());
        let mut record = tasks.record(new);
        let now = now_millis();
        let until = now + millis(HOLD * tasks.config.beat);
        record.held = Some(until);
        record.legs = 1;
        record.note("promoted", tasks.replica.clone());
        let due = record.next_job(until);
        let key = Tasks::key_of(&record);
        let revision = tasks.insert(&shared, &key, &record).await?;
        // If this process dies, whoever gets this job goes on.
        tasks.push(&key, &record, Due { at: until, ..due }, now).await;
        let _ = reply.send(record.view(revision));
        Ok(Keeper::new(&tasks, &shared, key, record, Revision(revision)))
    }
}

impl std::fmt::Debug for Promotion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promotion").field("tool", &self.new.tool).finish_non_exhaustive()
    }
}
