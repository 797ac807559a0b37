//! Messages from the log of a session. A stored message is sent exactly as it was written.

use rmcp::model::{
    CustomNotification, CustomRequest, CustomResult, JsonRpcError, RequestId, ServerJsonRpcMessage,
    ServerNotification, ServerRequest, ServerResult,
};
use serde_json::{Map, Value, json};

/// A message to the client, from the log of a session.
///
/// The SDK must not parse a stored message. The SDK would choose the first type that matches, and could then send a
/// different message.
#[derive(Debug)]
pub(super) struct StoredMessage(ServerJsonRpcMessage);

impl StoredMessage {
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let text = message;
        let mut message: Map<String, Value> = serde_json::from_slice(text).ok()?;
        if message.contains_key("method") && !message.contains_key("params") {
            // A message without parameters loses nothing if the SDK parses it. As a custom message, the message would
            // get the parameters `null`.
            return serde_json::from_slice(text).map(Self).ok();
        }
        let id = match message.remove("id") {
            Some(id) => Some(serde_json::from_value::<RequestId>(id).ok()?),
            None => None,
        };
        let method = message.get("method").and_then(Value::as_str).map(ToOwned::to_owned);
        let params = message.remove("params");
        Some(Self(match (method, id) {
            (Some(method), Some(id)) => ServerJsonRpcMessage::request(
                ServerRequest::CustomRequest(CustomRequest::new(method, params)),
                id,
            ),
            (Some(method), None) => notification(method, params),
            (None, id) => match (message.remove("result"), id) {
                (Some(result), Some(id)) => {
                    ServerJsonRpcMessage::response(ServerResult::CustomResult(CustomResult::new(result)), id)
                }
                (_, id) => {
                    let error = serde_json::from_value(message.remove("error")?).ok()?;
                    ServerJsonRpcMessage::Error(JsonRpcError::new(id, error))
                }
            },
        }))
    }

    /// Returns whether the stored message is the response to a request of the client.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self.0, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))
    }
}

impl From<StoredMessage> for ServerJsonRpcMessage {
    fn from(message: StoredMessage) -> Self {
        message.0
    }
}

/// Creates a message which informs the client that some events of a stream are missing.
pub(super) fn missing() -> StoredMessage {
    let data = "some notifications of this stream were dropped while no client was connected";
    let params = json!({"level": "warning", "logger": "antiphon", "data": data});
    StoredMessage(notification("notifications/message".into(), Some(params)))
}

/// Creates a notification that the list `list` has changed.
pub(super) fn changed(list: &str) -> StoredMessage {
    StoredMessage(notification(format!("notifications/{list}/list_changed"), Some(json!({}))))
}

fn notification(method: String, params: Option<Value>) -> ServerJsonRpcMessage {
    let notification = CustomNotification::new(method, params);
    ServerJsonRpcMessage::notification(ServerNotification::CustomNotification(notification))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_as_it_was_written() {
        for message in [
            json!({"jsonrpc": "2.0", "id": "a-1-0", "method": "elicitation/create", "params": {"x": 1, "_meta": {"y": 2}}}),
            json!({"jsonrpc": "2.0", "id": 5, "result": {"content": [], "structuredContent": {"tools": []}, "_meta": {"a": 1}}}),
            json!({"jsonrpc": "2.0", "id": 5, "error": {"code": -32603, "message": "no", "data": 1}}),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
            json!({"jsonrpc": "2.0", "id": "a-1-1", "method": "roots/list"}),
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": null}}),
        ] {
            let read = StoredMessage::read(message.to_string().as_bytes()).unwrap();
            assert_eq!(serde_json::to_value(read.0).unwrap(), message);
        }
        for message in ["", "[]", "{}", r#"{"id": 1}"#, r#"{"id": {}, "result": {}}"#] {
            assert!(StoredMessage::read(message.as_bytes()).is_none(), "{message}");
        }
    }
}
