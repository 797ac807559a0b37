//! Interfaces to tasks: how a run stores its progress, and how it becomes a task.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use antiphon_replay::{Failure, Journal};
use serde::{Deserialize, Serialize};

use super::Run;
use crate::error::{Error, Result};

pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The reason why a leg stops before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Another process has the run now, or the run was deleted.
    Lost,
    /// The write failed. The next worker continues from the last stored state.
    Failed(Error),
}

/// An at-most-once step that was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Claimed {
    /// The step's key in the journal.
    pub(crate) step: String,
    /// The step's failure, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<Failure>,
}

/// Stores the progress of a run.
pub(crate) trait Persistence: Send + Sync + fmt::Debug {
    /// Returns whether the run was cancelled. The tool then receives an error at its next question.
    fn is_cancelled(&self) -> bool;

    /// Returns whether another process has the run. The driver then starts nothing new.
    fn is_lost(&self) -> bool;

    /// Completes when the driver must check the state of the task.
    fn news(&self) -> Pending<'_, ()>;

    /// Returns how long the tool can clean up after a cancellation.
    fn clean_up(&self) -> Duration;

    /// Sets the progress message of the run.
    fn say(&self, message: String);

    /// Stores the journal.
    fn save<'a>(&'a self, journal: &'a Journal) -> Pending<'a, Result<(), Stop>>;

    /// Claims an at-most-once step. Returns `None` if it was not claimed before, else the earlier claim.
    fn claim<'a>(
        &'a self,
        idempotency_key: &'a str,
        step: &'a str,
    ) -> Pending<'a, Result<Option<Claimed>, Stop>>;

    /// Records how a claimed step failed.
    fn claim_failed<'a>(
        &'a self,
        idempotency_key: &'a str,
        failure: &'a Failure,
    ) -> Pending<'a, Result<(), Stop>>;
}

/// Turns a plain call into a task.
pub(crate) trait Promote: Send + Sync + fmt::Debug {
    /// Returns the time until the run becomes a task. `None` means never.
    fn due(&self) -> Option<Duration>;

    /// Returns whether the tool requested to become a task.
    fn is_wanted(&self) -> bool;

    /// Requests that the run becomes a task.
    fn want(&self);

    /// Makes the run a task. Returns `None` if it already is one, or if no worker is free. The driver then
    /// tries again later.
    ///
    /// # Errors
    ///
    /// Returns an error if the task cannot be created. The run continues as a plain call.
    fn promote<'a>(&'a self, run: &'a Run) -> Pending<'a, Result<Option<Arc<dyn Persistence>>>>;
}
