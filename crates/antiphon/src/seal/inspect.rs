//! The inspection of a sealed state, for operators and tool authors who have the encryption key.

use antiphon_replay::Outcome;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Binding, OpenError, STORED, SealConfig, TIMES};
use crate::base::{now_millis, timestamp};

/// The call that a sealed state belongs to. If you describe a different call, the sealed state cannot be decrypted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SealedCall {
    /// The audience: the server's name, or the text that is set with [`SealConfig::with_audience`].
    pub audience: String,
    /// The principal (the authenticated caller). The `String` is empty if the server does not authenticate callers.
    pub principal: String,
    /// The MCP method of the call, for example `tools/call`.
    pub method: String,
    /// The name of the tool or prompt, or the URI of the resource.
    pub name: String,
    /// The arguments of the call, as a JSON object.
    pub arguments: Value,
}

impl SealedCall {
    /// Creates the description of a call of `tool`, without arguments and without a principal.
    pub fn new(audience: impl Into<String>, tool: impl Into<String>) -> Self {
        Self {
            audience: audience.into(),
            principal: String::new(),
            method: "tools/call".to_owned(),
            name: tool.into(),
            arguments: json!({}),
        }
    }

    /// Sets the principal (the authenticated caller). Default: empty.
    #[must_use]
    pub fn with_principal(mut self, principal: impl Into<String>) -> Self {
        self.principal = principal.into();
        self
    }

    /// Sets the MCP method, for example `prompts/get` or `resources/read`. Default: `tools/call`.
    #[must_use]
    pub fn with_method(mut self, method: impl Into<String>) -> Self {
        self.method = method.into();
        self
    }

    /// Sets the arguments of the call. Default: `{}`.
    #[must_use]
    pub fn with_arguments(mut self, arguments: Value) -> Self {
        self.arguments = arguments;
        self
    }
}

/// The data that a decrypted sealed state contains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SealedRun {
    /// The format version of the sealed state.
    pub version: u8,
    /// The ID of the encryption key that encrypted the sealed state.
    pub key: u8,
    /// The time at which the server encrypted the sealed state, as an ISO 8601 timestamp.
    pub issued: String,
    /// The time at which the sealed state expires, as an ISO 8601 timestamp.
    pub expires: String,
    /// Whether the sealed state has expired.
    pub expired: bool,
    /// Whether the store contains the journal, because the journal is too long for a `requestState`. If `true`, the
    /// sealed state contains only the name of the journal. The fields `run`, `round`, `entries` and `pending` are then
    /// empty or 0.
    pub apart: bool,
    /// The ID of the run.
    pub run: Option<String>,
    /// The number of rounds that the run has used so far.
    pub round: u32,
    /// The journal's entries, oldest first.
    pub entries: Vec<SealedEntry>,
    /// The question keys of the questions that have no answer yet.
    pub pending: Vec<String>,
}

/// An entry of the journal: the result of a finished question, a finished step or a finished loop iteration.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SealedEntry {
    /// The question key, or the key of the step.
    pub key: String,
    /// The kind and the label of the entry, for example `step charge`. For a question, the label contains the beginning
    /// of the question's text.
    pub op: String,
    /// How the question or step ended: `answered`, `done`, `failed` or `refused`.
    pub outcome: &'static str,
    /// The structure of the recorded value: the fields and types, without the data. For a failure, `shape` is the error
    /// message.
    pub shape: Value,
    /// The recorded value. The recorded value can contain secrets of the caller.
    pub value: Value,
}

/// The reason why a sealed state cannot be decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InspectError {
    /// The text is not a sealed state, or this version of Antiphon does not support the format of the sealed state.
    Malformed,
    /// The sealed state was encrypted with a key that is not in the key ring. The `u8` is the ID of this key.
    UnknownKey(u8),
    /// The decryption failed. Possible causes are a different encryption key, a different call, or a changed sealed
    /// state. Decryption cannot distinguish these causes.
    Closed,
}

impl std::fmt::Display for InspectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed => f.write_str("the text is not a `requestState`, or it is incomplete"),
            Self::UnknownKey(id) => write!(f, "the `requestState` is encrypted with key {id}, which is not in the key ring"),
            Self::Closed => f.write_str("the `requestState` cannot be decrypted: the key or the call differs, or the state was changed"),
        }
    }
}

impl std::error::Error for InspectError {}

impl SealConfig {
    /// Decrypts a sealed state that belongs to `call` and returns the content, even if the sealed state has expired.
    /// The method uses only the encryption keys and the limits of this `SealConfig`.
    ///
    /// The method `inspect` is for operators who have the encryption keys. If a server rejects the sealed state of a
    /// caller, the caller always receives the same error, without the reason.
    ///
    /// # Errors
    ///
    /// Returns [`InspectError`] if the state cannot be decrypted.
    pub fn inspect(&self, state: &str, call: &SealedCall) -> Result<SealedRun, InspectError> {
        let SealedCall { audience, principal, method, name, arguments } = call;
        let binding = Binding::new(audience, principal, method, name, arguments);
        let bytes = URL_SAFE_NO_PAD.decode(state.trim()).map_err(|_| InspectError::Malformed)?;
        let plain = self.decrypt(&bytes, &binding.0).map_err(|error| match error {
            OpenError::UnknownKey => InspectError::UnknownKey(bytes[1]),
            OpenError::Forged => InspectError::Closed,
            _ => InspectError::Malformed,
        })?;
        let (times, body) = plain.split_at(TIMES);
        let moment = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let (issued, expires) = (moment(&times[..8]), moment(&times[8..]));
        let mut run = SealedRun {
            version: bytes[0],
            key: bytes[1],
            issued: timestamp(issued),
            expires: timestamp(expires),
            expired: now_millis() > expires,
            apart: body.first() == Some(&STORED),
            run: None,
            round: 0,
            entries: Vec::new(),
            pending: Vec::new(),
        };
        if !run.apart {
            let journal = Self::read(body, self.max_kept_bytes).map_err(|_| InspectError::Malformed)?;
            run.entries = journal.entries.iter().map(entry).collect();
            run.pending = journal.asked.keys().map(ToString::to_string).collect();
            run.round = journal.round;
            run.run = Some(journal.run);
        }
        Ok(run)
    }
}

fn entry(entry: &antiphon_replay::Entry) -> SealedEntry {
    let (outcome, shape, value) = match &entry.outcome {
        Outcome::Answer(value) => ("answered", shape(value), value.clone()),
        Outcome::Done(value) => ("done", shape(value), value.clone()),
        Outcome::Failed(failure) => ("failed", json!(failure.message), json!(failure.message)),
        Outcome::Refused(why) => ("refused", json!(why), json!(why)),
    };
    SealedEntry { key: entry.key.to_string(), op: entry.describe(), outcome, shape, value }
}

/// Replaces all data in `value` with descriptions of the types, and keeps the names of the fields.
pub(crate) fn shape(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => json!("a boolean"),
        Value::Number(_) => json!("a number"),
        Value::String(text) => json!(format!("text of {} bytes", text.len())),
        Value::Array(items) => match items.as_slice() {
            [] => json!([]),
            [first] => json!([shape(first)]),
            [first, ..] => json!([shape(first), format!("and {} more", items.len() - 1)]),
        },
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use antiphon_replay::Journal;

    use std::time::SystemTime;

    use super::*;

    fn sealed(config: &SealConfig, now: SystemTime) -> String {
        let binding = Binding::new("shop", "", "tools/call", "buy", &json!({"item": "tea"}));
        config.seal(&Journal::new("run-1"), &binding, now).unwrap()
    }

    #[test]
    fn seal_opens_for_its_call_and_key_and_says_only_then_what_is_in_it() {
        let config = SealConfig::default();
        let state = sealed(&config, SystemTime::now());
        let call = SealedCall::new("shop", "buy").with_arguments(json!({"item": "tea"}));
        let run = config.inspect(&state, &call).unwrap();
        assert_eq!((run.run.as_deref(), run.expired, run.apart), (Some("run-1"), false, false));
        let other = call.clone().with_arguments(json!({"item": "gin"}));
        assert_eq!(config.inspect(&state, &other), Err(InspectError::Closed));
        let stranger = call.clone().with_principal("ada");
        assert_eq!(config.inspect(&state, &stranger), Err(InspectError::Closed));
        assert_eq!(SealConfig::default().inspect(&state, &call), Err(InspectError::Closed));
        assert_eq!(config.inspect("tea", &call), Err(InspectError::Malformed));
        let spare = SealConfig::default().with_keys(super::super::KeyRing::new(9, [7; 32]));
        assert!(matches!(spare.inspect(&state, &call), Err(InspectError::UnknownKey(_))));
    }

    #[test]
    fn expired_seal_is_shown_and_called_expired() {
        let config = SealConfig::default();
        let state = sealed(&config, SystemTime::UNIX_EPOCH);
        let call = SealedCall::new("shop", "buy").with_arguments(json!({"item": "tea"}));
        let run = config.inspect(&state, &call).unwrap();
        assert!(run.expired, "{run:?}");
        assert_eq!(run.issued, "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn handle_is_called_one() {
        let config = SealConfig::default();
        let binding = Binding::new("shop", "", "tools/call", "buy", &json!({}));
        let handle = super::super::Handle { name: [1; 16], bytes: 5 };
        let state = config.seal_handle(&handle, &binding, SystemTime::now());
        let run = config.inspect(&state, &SealedCall::new("shop", "buy")).unwrap();
        assert!(run.apart && run.run.is_none(), "{run:?}");
    }

    #[test]
    fn values_are_hidden_and_shapes_are_not() {
        let value =
            json!({"card": "4111", "cents": 5, "paid": true, "lines": [{"a": "b"}, 1, 2], "none": null});
        let shown = shape(&value);
        assert_eq!(
            shown,
            json!({
                "card": "text of 4 bytes", "cents": "a number", "paid": "a boolean",
                "lines": [{"a": "text of 1 bytes"}, "and 2 more"], "none": null,
            })
        );
    }
}
