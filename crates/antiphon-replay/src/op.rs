use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The kind of a call that the code makes, and the kind of the journal entry of this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A question that is sent to the client.
    Ask,
    /// A side effect whose result is recorded in the journal.
    Step,
    /// A loop whose state replaces the entries of its earlier iterations.
    Fold,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ask => "ask",
            Self::Step => "step",
            Self::Fold => "fold",
        })
    }
}

/// A digest of a question's request or of a step's label. If the digest on replay differs from the digest in the
/// journal, the code has changed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Computes the fingerprint of a kind and a list of parts. The fingerprint also depends on the boundaries between
    /// the parts.
    fn of(kind: Kind, parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        hash.update([kind as u8]);
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        Self(u64::from_le_bytes(first))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A description of a call that the code makes: its kind, a readable label, and a fingerprint for comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    pub(crate) kind: Kind,
    /// The readable label. The label is an `Arc`, because an op is copied from the code to a slot and to a journal
    /// entry.
    pub(crate) label: Arc<str>,
    pub(crate) fingerprint: Fingerprint,
}

/// Serializes `value` as JSON with sorted keys, so that equal values have equal fingerprints.
///
/// Some programs enable the feature of `serde_json` that keeps the insertion order of maps. With sorted keys, a run
/// can start in a program without this `serde_json` feature and continue in a program with the feature.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (i, (key, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        leaf => text.push_str(&leaf.to_string()),
    }
}

/// The maximum length of a label in characters. A label that is longer than this length is shortened, because the
/// journal is sent with every round.
const LABEL_CHARS: usize = 60;

impl Op {
    /// Creates the description of a question. The fingerprint of the question covers the whole request.
    pub fn ask(label: &str, request: &Value) -> Self {
        Self::ask_parts(label, &[canonical(request).as_bytes()])
    }

    /// Creates the description of a question whose fingerprint covers only `parts`. Use `ask_parts` if serializing the
    /// whole request of a question is expensive.
    pub fn ask_parts(label: &str, parts: &[&[u8]]) -> Self {
        Self::new(Kind::Ask, label, parts)
    }

    /// Creates the description of a step. The fingerprint of a step covers only the label, because closures cannot be
    /// compared.
    pub fn step(label: &str) -> Self {
        Self::new(Kind::Step, label, &[label.as_bytes()])
    }

    /// Creates the description of a loop whose state is kept in the journal.
    pub fn fold(label: &str) -> Self {
        Self::new(Kind::Fold, label, &[label.as_bytes()])
    }

    fn new(kind: Kind, label: &str, parts: &[&[u8]]) -> Self {
        let fingerprint = Fingerprint::of(kind, parts);
        let label = match label.char_indices().nth(LABEL_CHARS) {
            Some((cut, _)) => format!("{}…", &label[..cut]).into(),
            None => label.into(),
        };
        Self { kind, label, fingerprint }
    }
}
