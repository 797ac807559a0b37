use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The kind of a call or an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A question to the client.
    Ask,
    /// A side effect whose result is recorded.
    Step,
    /// A loop whose state replaces its earlier entries.
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

/// A digest of a request or a label. A different digest on replay means that the code changed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Computes the fingerprint of a kind and a list of parts. The boundaries between the parts are included.
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

/// A call of the code: its kind, a readable label, and a fingerprint for comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    pub(crate) kind: Kind,
    /// An `Arc`, because an op is copied from the code to a slot and to an entry.
    pub(crate) label: Arc<str>,
    pub(crate) fingerprint: Fingerprint,
}

/// Serializes `value` as JSON with sorted keys, for fingerprints.
///
/// Any crate of a program can enable the feature of `serde_json` that keeps maps in insertion order. A run that
/// started in a program without that feature must be able to continue in a program with it.
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

/// The maximum length of a label in characters. Longer labels are cut because a journal is sent with every round.
const LABEL_CHARS: usize = 60;

impl Op {
    /// Creates a question. Its fingerprint covers the whole request.
    pub fn ask(label: &str, request: &Value) -> Self {
        Self::ask_parts(label, &[canonical(request).as_bytes()])
    }

    /// Creates a question whose fingerprint covers `parts`. Use it if serializing the whole request would cost
    /// more.
    pub fn ask_parts(label: &str, parts: &[&[u8]]) -> Self {
        Self::new(Kind::Ask, label, parts)
    }

    /// Creates a step. Its fingerprint is computed from its label, because a closure cannot be compared.
    pub fn step(label: &str) -> Self {
        Self::new(Kind::Step, label, &[label.as_bytes()])
    }

    /// Creates a loop that keeps its state in the journal.
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn equal_json_is_written_alike_in_whatever_order_its_keys_came() {
        let one: Value = serde_json::from_str(r#"{"b": [1, {"d": "\"", "c": null}], "a": 0.5}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a": 0.5, "b": [1, {"c": null, "d": "\""}]}"#).unwrap();
        assert_eq!(canonical(&one), r#"{"a":0.5,"b":[1,{"c":null,"d":"\""}]}"#);
        assert_eq!(canonical(&one), canonical(&other));
        assert_eq!(Op::ask("?", &one), Op::ask("?", &json!(other)));
    }
}
