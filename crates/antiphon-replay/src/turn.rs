//! The values that the replay machine returns to the futures of the code and to the driver.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Journal, Key, Outcome};

/// The instruction that the replay machine returns to a polled future of the code.
#[derive(Debug, PartialEq)]
pub enum Turn {
    /// The question, step or loop has this recorded result. The polled future must return the result.
    Ready(Outcome),
    /// The polled future must start its work now. When a step has finished, its future calls
    /// [`Machine::finish`](crate::Machine::finish) or [`Machine::deliver`](crate::Machine::deliver).
    Start,
    /// The polled future must return `Pending`.
    Wait,
}

/// The action that the driver must perform next, while the code is idle.
#[derive(Debug, PartialEq)]
pub enum Advance {
    /// The result of the Rust future with this key is ready. The driver must wake this future and poll the code again.
    Deliver(Key),
    /// The code has received the whole journal, and its steps can start. The driver must wake all futures and poll the
    /// code again.
    Opened,
    /// The replay machine has no result to deliver. The code waits for questions, for running steps, or for other
    /// futures.
    Blocked(Blocked),
}

/// The questions and steps that the code waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The number of questions that wait for an answer.
    pub asks: usize,
    /// The number of steps that are running.
    pub running: usize,
}

/// A suspended run: the questions to send to the client, and the journal to keep until the answers arrive.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspension {
    /// The journal of the suspended run. In the next round, pass the journal to [`Machine::new`](crate::Machine::new).
    pub journal: Journal,
    /// The requests of the pending questions, by key.
    pub asks: BTreeMap<Key, Value>,
}

/// Counts of the work in one execution of the code, for metrics. Replayed results do not count as new work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The number of results from the journal that the code received again.
    pub replayed: u64,
    /// The number of questions that were answered or could not be asked.
    pub asks: u64,
    /// The number of steps that were executed.
    pub steps: u64,
    /// The number of loop iterations that were completed.
    pub folds: u64,
}
