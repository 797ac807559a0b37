//! Return values of the machine: for the futures of the code, and for the driver.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Journal, Key, Outcome};

/// The answer of the machine to a future of the code that was polled.
#[derive(Debug, PartialEq)]
pub enum Turn {
    /// The question, step or loop has this recorded outcome.
    Ready(Outcome),
    /// The future must start its work now. A step then calls [`Machine::finish`](crate::Machine::finish) or
    /// [`Machine::deliver`](crate::Machine::deliver).
    Start,
    /// The future must return `Pending`.
    Wait,
}

/// The next action of the driver while the code is idle.
#[derive(Debug, PartialEq)]
pub enum Advance {
    /// The machine delivered a completion. Wake the future with this key and poll the code again.
    Deliver(Key),
    /// The journal is delivered completely, and the steps that the code waits for can start. Wake all futures and
    /// poll again.
    Opened,
    /// The machine has no completion to deliver.
    Blocked(Blocked),
}

/// The reasons why a run makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The number of questions that wait for an answer.
    pub asks: usize,
    /// The number of steps that are running.
    pub running: usize,
}

/// A suspended run: the questions to ask, and the journal to keep until the answers arrive.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspension {
    /// The journal to pass to [`Machine::new`](crate::Machine::new) together with the answers.
    pub journal: Journal,
    /// The requests of the pending questions, by key.
    pub asks: BTreeMap<Key, Value>,
}

/// Counts of the work of one leg, for metrics. Replayed entries do not count as new work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Journal entries that were delivered again.
    pub replayed: u64,
    /// Questions that were answered or refused.
    pub asks: u64,
    /// Steps that were run.
    pub steps: u64,
    /// Loop iterations.
    pub folds: u64,
}
