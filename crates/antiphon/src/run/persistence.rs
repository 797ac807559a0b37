//! Traits that connect runs with tasks. With these traits, a run stores the progress of a task, or becomes a task.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use antiphon_replay::{Failure, Journal};
use serde::{Deserialize, Serialize};

use super::Run;
use crate::error::{Error, Result};

pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The reason why a leg must stop before the tool returns or waits.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Another process has taken over the run, or the run was deleted.
    Lost,
    /// A write to the store failed. The next worker continues from the last stored journal.
    Failed(Error),
}

/// An at-most-once step that was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Claimed {
    /// The key of the step in the journal.
    pub(crate) step: String,
    /// The failure of the step. The value is `None` if the step has not failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<Failure>,
}

/// An object that stores the progress of a run.
pub(crate) trait Persistence: Send + Sync + fmt::Debug {
    /// Returns whether the run was cancelled. If the run was cancelled, the tool receives an error at its next
    /// question.
    fn is_cancelled(&self) -> bool;

    /// Returns whether another process now executes the run. If another process executes the run, the driver must not
    /// start new work.
    fn is_lost(&self) -> bool;

    /// Completes when the driver must check the task again, for example after a cancellation.
    fn news(&self) -> Pending<'_, ()>;

    /// Returns how long a tool can run after a cancellation, to clean up.
    fn clean_up(&self) -> Duration;

    /// Sets the progress message of the run.
    fn say(&self, message: String);

    /// Stores the journal.
    fn save<'a>(&'a self, journal: &'a Journal) -> Pending<'a, Result<(), Stop>>;

    /// Claims an at-most-once step. Returns the earlier claim, or `None` if this call is the first claim of the step.
    fn claim<'a>(
        &'a self,
        idempotency_key: &'a str,
        step: &'a str,
    ) -> Pending<'a, Result<Option<Claimed>, Stop>>;

    /// Records the failure of a claimed step.
    fn claim_failed<'a>(
        &'a self,
        idempotency_key: &'a str,
        failure: &'a Failure,
    ) -> Pending<'a, Result<(), Stop>>;
}

/// An object that changes a plain call into a task.
pub(crate) trait Promote: Send + Sync + fmt::Debug {
    /// Returns the time until the run becomes a task, or `None` if the run does not become a task.
    fn due(&self) -> Option<Duration>;

    /// Returns whether the tool requested that the run becomes a task.
    fn is_wanted(&self) -> bool;

    /// Requests that the run becomes a task.
    fn want(&self);

    /// Changes the run into a task. Returns `None` if the run is already a task, or if no worker is free. If no worker
    /// is free, the driver tries again later.
    ///
    /// # Errors
    ///
    /// Returns an error if the task cannot be created. If the task cannot be created, the run continues as a plain
    /// call.
    fn promote<'a>(&'a self, run: &'a Run) -> Pending<'a, Result<Option<Arc<dyn Persistence>>>>;
}
