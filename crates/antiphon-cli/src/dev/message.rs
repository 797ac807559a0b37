//! Parses and writes JSON-RPC messages, one message per line.

use std::collections::BTreeMap;

use serde_json::{Value, json, value::RawValue};

/// A message whose values keep their original JSON text.
#[derive(Clone, Debug)]
pub(super) struct Message(BTreeMap<String, Box<RawValue>>);

/// The kind of a message. The IDs of messages are JSON text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request { id: String, method: String },
    Notification { method: String },
    Response { id: String },
}

impl Message {
    /// Parses a message from a line. Returns `None` if the line is not a JSON-RPC message.
    pub(super) fn read(line: &str) -> Option<Self> {
        let message = Self(serde_json::from_str(line).ok()?);
        message.0.contains_key("jsonrpc").then_some(message)
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        let id = self.0.get("id").map(|id| id.get().to_owned());
        let method = self.0.get("method").and_then(|method| serde_json::from_str(method.get()).ok());
        Some(match (id, method) {
            (Some(id), Some(method)) => Kind::Request { id, method },
            (None, Some(method)) => Kind::Notification { method },
            (Some(id), None) => Kind::Response { id },
            (None, None) => return None,
        })
    }

    /// Returns a member of the message, or null.
    pub(super) fn get(&self, name: &str) -> Value {
        self.0.get(name).and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or(Value::Null)
    }

    /// Sets a member of the message.
    pub(super) fn set(&mut self, name: &str, value: &Value) {
        // A `Value` can always be converted to JSON text.
        if let Ok(value) = serde_json::value::to_raw_value(value) {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// Sets the ID, which is JSON text.
    pub(super) fn set_id(&mut self, id: &str) {
        self.set("id", &parsed(id));
    }

    /// Returns the message as a line without a line break.
    pub(super) fn line(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_default().replace('\n', " ")
    }
}

/// Returns a notification.
pub(super) fn notification(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

/// Returns an error response. `id` is JSON text.
pub(super) fn error(id: &str, message: &str) -> String {
    // This error code is in the range that JSON-RPC reserves for implementations.
    json!({"jsonrpc": "2.0", "id": parsed(id), "error": {"code": -32000, "message": message}}).to_string()
}

/// Returns the result of a tool that failed. `id` is JSON text.
pub(super) fn failed_call(id: &str, text: &str, in_session: bool) -> String {
    let mut result = json!({"isError": true, "content": [{"type": "text", "text": text}]});
    if !in_session {
        result["resultType"] = json!("complete");
    }
    json!({"jsonrpc": "2.0", "id": parsed(id), "result": result}).to_string()
}

pub(super) fn parsed(id: &str) -> Value {
    serde_json::from_str(id).unwrap_or(Value::Null)
}
