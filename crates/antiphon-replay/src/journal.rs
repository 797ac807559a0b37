use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{Fingerprint, FormatError, Key, Kind, Op};

/// The journal format this version writes. It reads this one and every older one.
pub const FORMAT: u32 = 1;

/// What a run has seen so far: everything needed to bring its code back to where it was.
///
/// The field names on disk and on the wire are short because a journal travels with every round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    #[serde(rename = "v")]
    version: u32,
    /// The run this journal belongs to; idempotency keys begin with it.
    pub run: String,
    /// How many rounds the run has taken.
    #[serde(rename = "r")]
    pub round: u32,
    /// Completions, in the order in which the code saw them.
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Entry>,
    /// Questions that were asked and not yet answered.
    #[serde(rename = "a", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<Key, Asked>,
    /// What was said and is not to be said again.
    #[serde(rename = "s", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub said: BTreeSet<String>,
    /// Where whoever traces the run finds its beginning again. The machine does not look at it.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl Journal {
    /// An empty journal for the run `run`.
    pub fn new(run: impl Into<String>) -> Self {
        Self {
            version: FORMAT,
            run: run.into(),
            round: 0,
            entries: Vec::new(),
            asked: BTreeMap::new(),
            said: BTreeSet::new(),
            trace: None,
        }
    }

    /// Reads a journal of this or an older format.
    pub fn from_json(bytes: &[u8]) -> Result<Self, FormatError> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        match serde_json::from_slice::<Self>(bytes) {
            Ok(journal) if (1..=FORMAT).contains(&journal.version) => Ok(journal),
            Ok(Self { version, .. }) => Err(FormatError::Unknown { found: version }),
            // What a newer version wrote may not be readable as a journal at all.
            Err(error) => match serde_json::from_slice::<Version>(bytes) {
                Ok(Version { v }) if !(1..=FORMAT).contains(&v) => Err(FormatError::Unknown { found: v }),
                _ => Err(error.into()),
            },
        }
    }

    /// The journal as it was before the failures it ends with, so that what failed is tried again. Failures that are
    /// final, and those the code went on after, stay.
    #[must_use]
    pub fn without_last_failures(mut self) -> Self {
        let failed = |entry: &Entry| {
            entry.kind != Kind::Fold
                && matches!(&entry.outcome, Outcome::Failed(failure) if !failure.terminal)
        };
        while self.entries.last().is_some_and(failed) {
            self.entries.pop();
        }
        self
    }

    /// Writes the journal in format [`FORMAT`].
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a journal holds only JSON values and string keys")
    }
}

/// One completion.
///
/// Written as a row, `[key, kind, label, fingerprint, turn, outcome]`: there are many of them, and
/// their field names would be most of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Whose completion this is.
    pub key: Key,
    pub(crate) kind: Kind,
    /// Empty where it is the key's own name.
    label: Arc<str>,
    pub(crate) fingerprint: Fingerprint,
    /// How often a loop has gone around.
    pub(crate) turn: u32,
    /// What came of it.
    pub outcome: Outcome,
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { key, kind, label, fingerprint, turn, outcome } = self;
        (key, kind, label, fingerprint, turn, outcome).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (key, kind, label, fingerprint, turn, outcome) = Deserialize::deserialize(deserializer)?;
        Ok(Self { key, kind, label, fingerprint, turn, outcome })
    }
}

impl Entry {
    pub(crate) fn new(key: Key, op: Op, outcome: Outcome) -> Self {
        let label = if *op.label == *key.name() { Arc::default() } else { op.label };
        Self { key, kind: op.kind, label, fingerprint: op.fingerprint, turn: 0, outcome }
    }

    pub(crate) fn with_turn(mut self, turn: u32) -> Self {
        self.turn = turn;
        self
    }

    /// The entry's kind and label, as drift errors show it.
    pub fn describe(&self) -> String {
        let label = if self.label.is_empty() { self.key.name() } else { &*self.label };
        format!("{} {label}", self.kind)
    }
}

/// What came of a question or a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The client's answer, as it came.
    Answer(Value),
    /// The question could not be asked of this client. Recorded, because a client may declare other
    /// capabilities in the next round and the code has already taken its turn on this one.
    Refused(String),
    /// The value a step returned, or the state a loop had reached.
    Done(Value),
    /// The error a step returned, or the error a client answered with.
    Failed(Failure),
}

/// An error, as far as it can be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The error and its causes, in words.
    #[serde(rename = "m")]
    pub message: String,
    /// The JSON-RPC code, where a client answered with an error.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Whether trying again is pointless.
    #[serde(rename = "t", default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// The kind of error, in the driver's own encoding. `None` for a plain error, and in journals that were written
    /// before this field existed.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Value>,
}

/// A question that is out with the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    #[serde(rename = "f")]
    pub(crate) fingerprint: Fingerprint,
    /// How often the code has changed its wording since it was first asked.
    #[serde(rename = "w", default, skip_serializing_if = "is_zero")]
    pub(crate) reworded: u8,
}

fn is_zero<N: Default + PartialEq>(n: &N) -> bool {
    *n == N::default()
}
