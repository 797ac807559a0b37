//! The trace of a run, for hosts that display traces, such as `antiphon studio`.
//!
//! A trace contains the keys of journal entries, but never the recorded values. A server sends traces only if you call
//! [`with_traces`](crate::ServerBuilder::with_traces).

use std::time::Instant;

use antiphon_replay::{Entry, Journal, Key, Machine, Outcome};
use serde_json::{Value, json};

use crate::{base::now_millis, url_elicitation::Channel};

/// The `_meta` key under which a response contains the trace.
pub(crate) const META: &str = "antiphon/trace";

/// The trace of one leg.
#[derive(Debug)]
pub(crate) struct Trace {
    replica: String,
    round: u32,
    /// The keys of the entries that the journal contained at the start of the leg.
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

    /// Returns the trace of the leg. `journal` is the journal at the end of the leg.
    pub(crate) fn end<'a>(
        &self,
        journal: Option<&Journal>,
        asks: impl Iterator<Item = &'a Key>,
        ended: Ended,
    ) -> Value {
        let entries = journal.iter().flat_map(|journal| &journal.entries).enumerate();
        // A loop removes entries from the journal. So an entry counts as replayed only if its position has not changed
        // since the start of the leg.
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

/// Returns the entries of a task's journal, in the format of a trace.
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
    let mut shown =
        json!({"key": entry.key, "op": op(&entry.describe()), "outcome": outcome, "replayed": replayed});
    if let Some(via) = via(entry) {
        shown["via"] = via.into();
    }
    shown
}

/// Returns the channel through which a user answered: `client`, `app`, `page` or `relay`. Returns `None` if the entry
/// does not contain the answer of a user.
pub(crate) fn via(entry: &Entry) -> Option<&'static str> {
    let Outcome::Answer(answer) = &entry.outcome else { return None };
    matches!(op(&entry.describe()), "elicit" | "visit").then(|| Channel::of(answer).name())
}

/// Returns the first word of a description: `step`, `fold`, `elicit`, `sample`, `visit` or `roots`. The rest of the
/// description can contain the text of a question, so the trace does not contain the rest. Only the recipient of a
/// question is allowed to read the text of the question.
fn op(described: &str) -> &str {
    let kind = described.strip_prefix("ask ").unwrap_or(described);
    kind.split(' ').next().unwrap_or_default()
}
