use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{Fingerprint, FormatError, Key, Kind, Op};

/// The version of the journal format that this crate writes. [`Journal::from_json`] reads journals with this format
/// version and all older format versions.
pub const FORMAT: u32 = 1;

/// The ordered results of a run's finished questions and steps.
///
/// With the journal, a replay brings the code of a run back to the point where the run was suspended. The field names
/// of a journal are short in JSON, because the journal is sent in every round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    #[serde(rename = "v")]
    version: u32,
    /// The ID of the run. The idempotency keys of the run's steps start with this ID.
    pub run: String,
    /// The number of rounds that the run has had so far.
    #[serde(rename = "r")]
    pub round: u32,
    /// The results of finished questions, steps and loop iterations, in the order in which the code received them.
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Entry>,
    /// The questions that were sent to the client and that have no answer yet.
    #[serde(rename = "a", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<Key, Asked>,
    /// The names of messages that the run has sent and must not send again.
    /// [`Machine::say_once`](crate::Machine::say_once) adds these names.
    #[serde(rename = "s", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub said: BTreeSet<String>,
    /// The trace context in which the run started. The driver (the caller of this crate) decides the format of the
    /// trace context. The replay machine does not read the trace context.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl Journal {
    /// Creates an empty journal for the run with the ID `run`.
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

    /// Reads a journal from JSON, in the format version [`FORMAT`] or an older format version.
    ///
    /// # Errors
    ///
    /// Returns [`FormatError::Unknown`] if the journal has an unknown format version, and [`FormatError::Malformed`]
    /// if the bytes cannot be parsed as a journal.
    pub fn from_json(bytes: &[u8]) -> Result<Self, FormatError> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        match serde_json::from_slice::<Self>(bytes) {
            Ok(journal) if (1..=FORMAT).contains(&journal.version) => Ok(journal),
            Ok(Self { version, .. }) => Err(FormatError::Unknown { found: version }),
            // A journal in a newer format can have fields that this version cannot parse, so read only the format
            // version.
            Err(error) => match serde_json::from_slice::<Version>(bytes) {
                Ok(Version { v }) if !(1..=FORMAT).contains(&v) => Err(FormatError::Unknown { found: v }),
                _ => Err(error.into()),
            },
        }
    }

    /// Removes the failed entries at the end of the journal, so that a replay tries the failed work again.
    ///
    /// Terminal failures stay in the journal. A failure before another entry also stays in the journal, because the
    /// code has already reacted to the failure.
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

    /// Serializes the journal as JSON, in the format version [`FORMAT`].
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a journal holds only JSON values and string keys")
    }
}

/// An entry of a journal: the result of one question, step or loop iteration.
///
/// An entry is serialized as an array, `[key, kind, label, fingerprint, turn, outcome]`. With field names for each
/// entry, the names would make up most of the size of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key of the question, step or loop.
    pub key: Key,
    pub(crate) kind: Kind,
    /// The label of the entry. If the label is equal to the name in the key, this field contains an empty text.
    label: Arc<str>,
    pub(crate) fingerprint: Fingerprint,
    /// The number of completed iterations of a loop. For questions and steps, the number of iterations is 0.
    pub(crate) turn: u32,
    /// The result of the question, step or loop iteration.
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

    /// Returns the kind and the label of the entry, for example `step charge`.
    pub fn describe(&self) -> String {
        let label = if self.label.is_empty() { self.key.name() } else { &*self.label };
        format!("{} {label}", self.kind)
    }
}

/// The result of a question, a step or a loop iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The answer of the client to a question, unchanged.
    Answer(Value),
    /// The question could not be sent to the client. The text is the reason. The journal keeps the reason, because the
    /// code has already reacted to the refusal. Without the recorded reason, the replay would have another result if
    /// the client declares other capabilities in the next round.
    Refused(String),
    /// The value that a step returned, or the state after a loop iteration.
    Done(Value),
    /// The error that a step returned, or the error with which a client answered a question.
    Failed(Failure),
}

/// An error, in the form in which a journal stores errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The messages of the error and of its causes, as one text.
    #[serde(rename = "m")]
    pub message: String,
    /// The JSON-RPC error code, if a client answered a question with an error.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Whether the error is final, so that a retry is pointless.
    #[serde(rename = "t", default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// The kind of the error, in a JSON format that the driver (the caller of this crate) decides. The kind is `None`
    /// for a plain error, and in journals that were written before the field `kind` existed.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Value>,
}

/// A question that was sent to the client and that has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    #[serde(rename = "f")]
    pub(crate) fingerprint: Fingerprint,
    /// The number of rounds in which the code changed the text of this question.
    #[serde(rename = "w", default, skip_serializing_if = "is_zero")]
    pub(crate) reworded: u8,
}

fn is_zero<N: Default + PartialEq>(n: &N) -> bool {
    *n == N::default()
}
