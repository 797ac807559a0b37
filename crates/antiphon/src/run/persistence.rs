//! Who writes down what a run comes to, where it is a task.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use antiphon_replay::{Failure, Journal};
use serde::{Deserialize, Serialize};

use super::Run;
use crate::error::{Error, Result};

pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a leg stops in the middle.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Another has the run now, or nobody: it is gone.
    Lost,
    /// It could not be written. Whoever gets the job next goes on from what was.
    Failed(Error),
}

/// A step that may be taken at most once, and was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Claimed {
    /// Its key in the journal.
    pub(crate) step: String,
    /// How it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<Failure>,
}

/// Writes down what a run comes to.
pub(crate) trait Persistence: Send + Sync + fmt::Debug {
    /// Whether the run was cancelled: the tool is told at its next question.
    fn is_cancelled(&self) -> bool;

    /// Whether somebody else has the run: nothing more is begun.
    fn is_lost(&self) -> bool;

    /// Ends when there is something the driver should look at.
    fn news(&self) -> Pending<'_, ()>;

    /// How long the tool may clean up once it was cancelled.
    fn clean_up(&self) -> Duration;

    /// Says how far the run has come.
    fn say(&self, message: String);

    /// Writes down the journal: what is in it has happened.
    fn save<'a>(&'a self, journal: &'a Journal) -> Pending<'a, Result<(), Stop>>;

    /// Claims a step that may be taken at most once. `None` if nobody has; else what is known of it.
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

/// Makes a task of a run that began as a plain call.
pub(crate) trait Promote: Send + Sync + fmt::Debug {
    /// In how long the run becomes a task. `None`: never.
    fn due(&self) -> Option<Duration>;

    /// Whether the tool wants to be a task.
    fn is_wanted(&self) -> bool;

    /// The tool wants to be a task.
    fn want(&self);

    /// Makes the run a task, unless it is one, or no worker is free for it. Then it is tried again later.
    ///
    /// # Errors
    ///
    /// Where the task cannot be created. The run goes on as it was.
    fn promote<'a>(&'a self, run: &'a Run) -> Pending<'a, Result<Option<Arc<dyn Persistence>>>>;
}
