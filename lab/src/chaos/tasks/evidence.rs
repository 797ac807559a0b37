//! Everything that is known when all is over, and who is to blame for what.

use std::collections::{BTreeMap, HashMap};

use super::client::Run;
use crate::chaos::cluster::crew::Death;
use crate::chaos::cluster::notes::{Line, Note};

/// The steps that may be taken once.
pub(super) const ONCE: [&str; 2] = ["charge", "ship"];
/// All steps of a run.
pub(super) const STEPS: [&str; 8] =
    ["begin", "charge", "heard", "left", "left-again", "right", "ship", "end"];

/// How long after the server is back a leg may still meet another one that took over its run.
const AFTERMATH: u64 = 4_000;

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
    /// Calls whose answer was lost: the name of the run that they may have begun, and whether it asks.
    pub(super) orphans: Vec<(String, bool)>,
    /// Runs that operators see as neither ended nor waiting for a person when all was over.
    pub(super) stranded: Vec<String>,
    pub(super) looked_again: usize,
}

/// An effect, as it was noted.
#[derive(Debug)]
pub(super) struct Effect<'a> {
    pub(super) at: u64,
    pub(super) process: &'a str,
    pub(super) value: &'a str,
    pub(super) saw: &'a BTreeMap<String, String>,
    pub(super) leg: &'a str,
}

/// One leg, from its first line to its last.
#[derive(Debug)]
struct Leg<'a> {
    process: &'a str,
    run: &'a str,
    began: u64,
    /// When it was over; never, if its process died.
    over: Option<u64>,
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
            if let Note::Effect { run, step, value, saw, leg } = note {
                let effect = Effect { at: *at, process, value, saw, leg };
                effects.entry((run, step)).or_default().push(effect);
            }
        }
        effects
    }

    /// The legs by their names.
    fn legs(&self) -> HashMap<&str, Leg<'_>> {
        let mut legs = HashMap::new();
        for Line { at, process, note } in &self.lines {
            match note {
                Note::Leg { run, leg } => {
                    legs.insert(leg.as_str(), Leg { process, run, began: *at, over: None });
                }
                Note::Over { leg } => {
                    if let Some(leg) = legs.get_mut(leg.as_str()) {
                        leg.over = Some(*at);
                    }
                }
                _ => {}
            }
        }
        legs
    }

    /// Whether the tool was ever given this value, so that it was written down.
    pub(super) fn was_seen(&self, run: &str, step: &str, value: &str) -> bool {
        let saw = |line: &Line| matches!(&line.note, Note::Saw { run: r, step: s, value: v } if r == run && s == step && v == value);
        self.lines.iter().any(saw)
    }

    /// Why what this leg did was not written down: its own fate, and nothing else.
    pub(super) fn cause(&self, leg: &str) -> Option<Cause> {
        let legs = self.legs();
        let found = legs.get(leg)?;
        let Some(over) = found.over else {
            // It has no end, so it must have been under way when its process died.
            return self.deaths.contains_key(found.process).then_some(Cause::Death);
        };
        if self.absences.iter().any(|(gone, back)| *gone <= over && *back + AFTERMATH >= found.began) {
            return Some(Cause::Absence);
        }
        // Two legs are at a run when the process of one of them was thought dead.
        let beside = |other: &&Leg<'_>| {
            other.run == found.run && other.began <= over && other.over.is_none_or(|end| end >= found.began)
        };
        let stalled = legs.values().filter(beside).any(|other| {
            self.lines.iter().any(|line| {
                line.process == other.process
                    && matches!(line.note, Note::Stalled { millis }
                        if line.at >= other.began && line.at.saturating_sub(millis) <= over)
            })
        });
        stalled.then_some(Cause::Stall)
    }

    /// The step of the run was claimed, and nobody knows what became of it: why.
    pub(super) fn cause_of_unknown(&self, name: &str, wanted: &str) -> Option<Cause> {
        let begun = self.lines.iter().find_map(|line| match &line.note {
            Note::Began { run, step, leg } if run == name && step == wanted => Some(leg),
            _ => None,
        });
        if let Some(leg) = begun {
            return self.cause(leg);
        }
        // Claimed and no more: by whichever leg had the run and met its end over it.
        let legs = self.lines.iter().filter_map(|line| match &line.note {
            Note::Leg { run, leg } if run == name => Some(leg),
            _ => None,
        });
        { legs }.find_map(|leg| self.cause(leg))
    }

    /// Why a run that its client left has not come as far as it can without anybody; nothing if it has.
    pub(super) fn is_behind(&self, name: &str, asks: bool) -> Option<String> {
        // A step that was claimed by a worker that died before it began is passed as unknown.
        let happened = |wanted: &str| {
            self.lines.iter().any(|line| match &line.note {
                Note::Effect { run, step, .. }
                | Note::Began { run, step, .. }
                | Note::Unknown { run, step } => run == name && step == wanted,
                _ => false,
            })
        };
        // Without an answer it comes to the question, which stands behind the charge.
        let last = if asks { "charge" } else { "end" };
        (!happened(last)).then(|| format!("{name} was left alone and has not come to `{last}`"))
    }

    /// Whether anybody ever worked on the run.
    pub(super) fn was_begun(&self, name: &str) -> bool {
        self.lines.iter().any(|line| matches!(&line.note, Note::Leg { run, .. } if run == name))
    }
}
