//! What a run did, told to whoever called: for hosts that show it, such as `antiphon studio`.
//!
//! It names entries, and never a value of one. A server tells it only if it was built
//! [so](crate::ServerBuilder::with_traces).

use std::time::Instant;

use antiphon_replay::{Entry, Journal, Key, Machine, Outcome};
use serde_json::{Value, json};

use crate::base::now_millis;

/// Where an answer's `_meta` says what its run did.
pub(crate) const META: &str = "antiphon/trace";

/// A leg that is to be told of.
#[derive(Debug)]
pub(crate) struct Trace {
    replica: String,
    round: u32,
    /// What the leg began with.
    brought: Vec<Key>,
    at: u64,
    began: Instant,
}

/// How a leg ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    Suspended,
    Returned,
    Failed,
}

impl Trace {
    pub(crate) fn begin(replica: &str, machine: Option<&Machine>) -> Self {
        let journal = machine.map(Machine::journal);
        let brought = journal.iter().flat_map(|journal| &journal.entries).map(|entry| entry.key.clone());
        Self {
            replica: replica.to_owned(),
            round: journal.map_or(0, |journal| journal.round) + 1,
            brought: brought.collect(),
            at: now_millis(),
            began: Instant::now(),
        }
    }

    /// What the leg did, that ended with this journal.
    pub(crate) fn end<'a>(
        &self,
        journal: Option<&Journal>,
        asks: impl Iterator<Item = &'a Key>,
        ended: Ended,
    ) -> Value {
        let entries = journal.iter().flat_map(|journal| &journal.entries).enumerate();
        // A loop forgets what it did: an entry was brought if it is where it was.
        let entries = entries.map(|(at, entry)| described(entry, self.brought.get(at) == Some(&entry.key)));
        json!({
            "run": journal.map(|journal| journal.run.as_str()).filter(|run| !run.is_empty()),
            "replica": self.replica,
            "leg": self.round,
            "round": self.round,
            "startedAt": self.at,
            "tookMs": u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "entries": entries.collect::<Value>(),
            "asks": asks.map(ToString::to_string).collect::<Value>(),
            "ended": match ended {
                Ended::Suspended => "suspended",
                Ended::Returned => "returned",
                Ended::Failed => "failed",
            },
        })
    }
}

/// The entries of a task's journal.
pub(crate) fn entries(journal: &Journal) -> Value {
    journal.entries.iter().map(|entry| described(entry, false)).collect()
}

fn described(entry: &Entry, replayed: bool) -> Value {
    let outcome = match &entry.outcome {
        Outcome::Answer(_) => "answered",
        Outcome::Done(_) => "done",
        Outcome::Failed(_) => "failed",
        Outcome::Refused(_) => "refused",
    };
    json!({"key": entry.key, "op": op(&entry.describe()), "outcome": outcome, "replayed": replayed})
}

/// `step`, `fold`, `elicit`, `sample`, `visit` or `roots`: the rest of what is kept for people may hold what only the
/// one who was asked may see.
fn op(described: &str) -> &str {
    let kind = described.strip_prefix("ask ").unwrap_or(described);
    kind.split(' ').next().unwrap_or_default()
}
