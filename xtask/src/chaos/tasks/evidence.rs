//! Everything that is known when all is over, and who is to blame for what.

use std::collections::{BTreeMap, HashMap};

use super::client::Run;
use super::crew::Death;
use super::notes::{Line, Note};

/// The steps that may be taken once.
pub(super) const ONCE: [&str; 2] = ["charge", "ship"];
/// All steps of a run.
pub(super) const STEPS: [&str; 8] =
    ["begin", "charge", "heard", "left", "left-again", "right", "ship", "end"];

/// How long what came of a step may take to be written down, if nobody dies over it.
const LATEST: u64 = 3_000;

/// How long after the server is back a leg from before may still try to write, beside the one that took over.
const AFTERMATH: u64 = 8_000;

/// What is known.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) runs: Vec<Run>,
    pub(super) lines: Vec<Line>,
    pub(super) deaths: HashMap<String, Death>,
    /// When the store's server was away.
    pub(super) absences: Vec<(u64, u64)>,
    /// What the front ends said of ended runs when all was over, where that was something else than before.
    pub(super) changed: Vec<String>,
    pub(super) looked_again: usize,
}

/// An effect, as it was noted.
#[derive(Debug)]
pub(super) struct Effect<'a> {
    pub(super) at: u64,
    pub(super) process: &'a str,
    pub(super) value: &'a str,
    pub(super) saw: &'a BTreeMap<String, String>,
}

/// Why something was not written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// The process died.
    Death,
    /// The store's server was away.
    Absence,
    /// The process was kept from working for so long that others thought it dead.
    Stall,
}

impl Evidence {
    /// The effects of each run and step, oldest first.
    pub(super) fn effects(&self) -> BTreeMap<(&str, &str), Vec<Effect<'_>>> {
        let mut effects: BTreeMap<(&str, &str), Vec<Effect<'_>>> = BTreeMap::new();
        for Line { at, process, note } in &self.lines {
            if let Note::Effect { run, step, value, saw } = note {
                let effect = Effect { at: *at, process, value, saw };
                effects.entry((run, step)).or_default().push(effect);
            }
        }
        effects
    }

    /// Why what `process` did at `at` was not written down.
    pub(super) fn cause(&self, process: &str, at: u64) -> Option<Cause> {
        if self.deaths.get(process).is_some_and(|death| death.seen <= at + LATEST) {
            return Some(Cause::Death);
        }
        let (from, to) = (at.saturating_sub(LATEST), at + LATEST);
        if self.absences.iter().any(|(gone, back)| *gone <= to && *back + AFTERMATH >= at) {
            return Some(Cause::Absence);
        }
        let stalled = |line: &Line| {
            line.process == process
                && matches!(line.note, Note::Stalled { millis } if line.at >= from && line.at <= to + millis)
        };
        self.lines.iter().any(stalled).then_some(Cause::Stall)
    }

    /// The step of the run was claimed, and nobody knows what became of it: why.
    pub(super) fn cause_of_unknown(&self, name: &str, wanted: &str) -> Option<Cause> {
        let begun = self
            .lines
            .iter()
            .find(|line| matches!(&line.note, Note::Began { run, step } if run == name && step == wanted));
        if let Some(begun) = begun {
            return self.cause(&begun.process, begun.at);
        }
        // Claimed and no more: by whichever process had the run and died over it.
        let mut legs =
            self.lines.iter().filter(|line| matches!(&line.note, Note::Leg { run } if run == name));
        legs.find_map(|leg| self.cause(&leg.process, leg.at))
    }
}
