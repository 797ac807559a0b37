use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A question to the client.
    Ask,
    /// A side effect that was recorded.
    Step,
    /// A loop that was folded into its state.
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

/// A digest of what was asked or done, to notice when the code no longer does the same.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of a kind and a list of parts. Their boundaries count.
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

/// What the code wants: the kind, a label for people, and a fingerprint for the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    pub(crate) kind: Kind,
    /// Shared, because an op goes from the code to a slot to an entry.
    pub(crate) label: Arc<str>,
    pub(crate) fingerprint: Fingerprint,
}

/// `value` as JSON with its keys in order, for fingerprints.
///
/// Whether a map keeps the order of its keys is a feature of `serde_json` that any crate of a program
/// can turn on. A run that began in a program without that crate must go on in one with it.
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

/// Longer labels are cut: a journal travels with every round.
const LABEL_CHARS: usize = 60;

impl Op {
    /// A question; its fingerprint covers the whole request.
    pub fn ask(label: &str, request: &Value) -> Self {
        Self::ask_parts(label, &[canonical(request).as_bytes()])
    }

    /// A question; its fingerprint covers `parts`, for when writing out the request would cost more.
    pub fn ask_parts(label: &str, parts: &[&[u8]]) -> Self {
        Self::new(Kind::Ask, label, parts)
    }

    /// A step; its fingerprint is its label, because its closure cannot be read.
    pub fn step(label: &str) -> Self {
        Self::new(Kind::Step, label, &[label.as_bytes()])
    }

    /// A loop that keeps its state in the journal.
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
