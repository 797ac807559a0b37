//! What the machine tells the code and whoever drives it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Journal, Key, Outcome};

/// What a future of the code has to do, having been polled.
#[derive(Debug, PartialEq)]
pub enum Turn {
    /// It already happened: this came of it.
    Ready(Outcome),
    /// It has not happened yet and may now: do it, then call [`Machine::finish`](crate::Machine::finish).
    Start,
    /// Not yet.
    Wait,
}

/// What the driver has to do, the code being at rest.
#[derive(Debug, PartialEq)]
pub enum Advance {
    /// A completion was handed over: wake its future and poll the code again.
    Deliver(Key),
    /// The journal is drained and the steps the code waits for may start: wake everything and poll
    /// again.
    Opened,
    /// There is nothing to hand over.
    Blocked(Blocked),
}

/// Why nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Questions that wait for an answer.
    pub asks: usize,
    /// Steps that are being taken.
    pub running: usize,
}

/// A run at rest: what to ask, and what to keep until the answers come.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspension {
    /// The journal to bring back with the answers.
    pub journal: Journal,
    /// The questions, by key.
    pub asks: BTreeMap<Key, Value>,
}

/// What a leg has done so far, for whoever counts: what was brought is not new, however often it is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Entries of the journal that were handed over again.
    pub replayed: u64,
    /// Questions that were answered, or could not be.
    pub asks: u64,
    /// Steps that were taken.
    pub steps: u64,
    /// Turns of loops.
    pub folds: u64,
}
