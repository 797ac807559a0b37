//! Compares what processes noted with what is in the store at the end.

use std::collections::{BTreeMap, HashMap};

use antiphon_store::Depth;

use crate::note::{Note, Op};

mod jobs;
mod writes;

pub(crate) use self::jobs::Tally;

/// All that is known at the end.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// What all processes noted.
    pub(crate) notes: Vec<Note>,
    /// The history that each record is.
    pub(crate) records: BTreeMap<String, Vec<Op>>,
    /// The entries of each log.
    pub(crate) logs: BTreeMap<String, Vec<Entry>>,
    /// What is left in the queue.
    pub(crate) depth: Depth,
    /// How many jobs were to be done.
    pub(crate) jobs: u64,
    /// How long a lease lasts, in milliseconds.
    pub(crate) lease: u64,
}

/// One entry of a log: part `part` of `count` of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) op: Op,
    pub(crate) part: u64,
    pub(crate) count: u64,
}

/// Whether one law was kept.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) law: &'static str,
    /// How many things it was held against.
    pub(crate) examined: usize,
    pub(crate) complaints: Vec<String>,
}

impl Verdict {
    fn new(law: &'static str) -> Self {
        Self { law, examined: 0, complaints: Vec::new() }
    }

    /// Looks at one more thing.
    fn ensure(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        self.examined += 1;
        if !holds {
            self.complaints.push(complaint());
        }
    }
}

/// Holds everything against every law.
pub(crate) fn all(evidence: &Evidence) -> Vec<Verdict> {
    let mut verdicts = writes::all(evidence);
    verdicts.extend(jobs::all(evidence));
    verdicts
}

/// Counts of what happened to jobs.
pub(crate) fn tally(evidence: &Evidence) -> Tally {
    Tally::of(evidence)
}

/// The highest number among the writes that a task noted. It may have made one more, which it could not note.
fn last_noted(notes: &[Note]) -> HashMap<(u32, u32, u32), u32> {
    let mut last = HashMap::new();
    for note in notes {
        if let Note::Wrote { op, .. }
        | Note::MayHaveWritten { op, .. }
        | Note::Appended { op, .. }
        | Note::MayHaveAppended { op, .. } = note
        {
            let number = last.entry(op.task()).or_insert(0);
            *number = op.3.max(*number);
        }
    }
    last
}
