//! Parses messages, and decides how to handle invalid messages.
//!
//! The servers and clients over WebSocket and HTTP+SSE use this module, so that all of them handle messages in the
//! same way.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage},
};
use serde::{Deserialize, de::IgnoredAny};

#[cfg(feature = "__server")]
use crate::weight::{MemoryBudget, Share, Weight};
use crate::{Error, Result, legacy_tasks};

/// The JSON-RPC code of errors that the transport itself creates. JSON-RPC reserves the code -32000 for
/// implementations.
pub const TRANSPORT_ERROR: i32 = -32000;

/// The differences between a server and a client when they handle messages.
pub(crate) trait Role: ServiceRole {
    /// The functions of [`legacy_tasks`] that convert incoming and outgoing messages.
    const INCOMING: fn(&[u8]) -> Option<Vec<u8>>;
    const OUTGOING: fn(&[u8]) -> Option<Vec<u8>>;

    /// Returns the ID of the request that a notification cancels.
    fn cancelled(notification: &mut Self::PeerNot) -> Option<&mut RequestId>;
}

#[cfg(feature = "__server")]
impl Role for rmcp::RoleServer {
    const INCOMING: fn(&[u8]) -> Option<Vec<u8>> = legacy_tasks::server_in;
    const OUTGOING: fn(&[u8]) -> Option<Vec<u8>> = legacy_tasks::server_out;

    fn cancelled(notification: &mut Self::PeerNot) -> Option<&mut RequestId> {
        let rmcp::model::ClientNotification::CancelledNotification(cancelled) = notification else {
            return None;
        };
        cancelled.params.request_id.as_mut()
    }
}

#[cfg(feature = "__client")]
impl Role for rmcp::RoleClient {
    const INCOMING: fn(&[u8]) -> Option<Vec<u8>> = legacy_tasks::client_in;
    const OUTGOING: fn(&[u8]) -> Option<Vec<u8>> = legacy_tasks::client_out;

    fn cancelled(notification: &mut Self::PeerNot) -> Option<&mut RequestId> {
        let rmcp::model::ServerNotification::CancelledNotification(cancelled) = notification else {
            return None;
        };
        cancelled.params.request_id.as_mut()
    }
}

/// The way in which the transport must handle an incoming message.
#[derive(Debug)]
pub(crate) enum Verdict<R: ServiceRole> {
    /// The transport delivers this message to the service.
    Deliver(RxJsonRpcMessage<R>),
    /// The transport sends this error to the peer, and delivers no message to the service.
    Answer(Refusal),
    /// The transport ignores the message.
    Ignore,
}

/// An error that the transport sends to the peer.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) id: Option<RequestId>,
    pub(crate) error: ErrorData,
}

impl Refusal {
    pub(crate) fn new(id: Option<RequestId>, code: ErrorCode, message: &'static str) -> Self {
        Self { id, error: ErrorData::new(code, message, None) }
    }

    pub(crate) fn to_json(&self) -> String {
        let error = rmcp::model::JsonRpcError::new(self.id.clone(), self.error.clone());
        serde_json::to_string(&error).unwrap_or_default()
    }
}

/// The requests of the peer that have no response yet.
///
/// The SDK spawns a task for each request and for each response. So a queue in the transport does not limit the number
/// of open requests. `Inbox` limits the number of open requests.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    open: Arc<Mutex<Open>>,
    limit: usize,
    /// Whether the inbox converts incoming messages for the tasks of MCP 2025-11-25.
    revises: bool,
}

impl Inbox {
    /// Creates an inbox for at most `limit` open requests. If `revises` is true, the inbox converts incoming messages
    /// for the tasks of MCP 2025-11-25.
    pub(crate) fn new(limit: usize, revises: bool) -> Self {
        Self { open: Arc::default(), limit, revises }
    }

    /// Parses a message, and returns how the transport must handle the message.
    pub(crate) fn judge<R: Role>(&self, bytes: &[u8]) -> Verdict<R> {
        let revised = if self.revises { (R::INCOMING)(bytes) } else { None };
        let bytes = revised.as_deref().unwrap_or(bytes);
        let mut message = match serde_json::from_slice::<RxJsonRpcMessage<R>>(bytes) {
            Ok(message) => message,
            Err(error) => return misread(bytes, &error),
        };
        match &mut message {
            JsonRpcMessage::Request(request) => {
                let mut open = self.open();
                let alias = open.alias(&request.id);
                if open.ids.contains(&alias) {
                    // No error is sent, because a response with this ID would end the request that is in progress.
                    tracing::debug!(id = %request.id, "a request was dropped: a request with the same ID is in progress");
                    return Verdict::Ignore;
                }
                if open.ids.len() >= self.limit {
                    return Verdict::Answer(Refusal::new(
                        Some(request.id.clone()),
                        ErrorCode(TRANSPORT_ERROR),
                        "too many requests are open: wait for answers, then try again",
                    ));
                }
                open.ids.insert(alias.clone());
                request.id = alias;
            }
            JsonRpcMessage::Notification(notification) => {
                if let Some(id) = R::cancelled(&mut notification.notification) {
                    let mut open = self.open();
                    *id = open.alias(id);
                    open.ids.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Verdict::Deliver(message)
    }

    /// Records that the request with this ID has a response.
    pub(crate) fn settle(&self, id: &RequestId) {
        self.open().ids.remove(id);
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory limits for messages from the clients of a server.
#[cfg(feature = "__server")]
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// The maximum memory for parsing one message, in bytes.
    pub(crate) max_parsed: usize,
    /// The memory budget for all messages together.
    pub(crate) budget: MemoryBudget,
}

/// Methods for servers, which limit the memory for untrusted messages.
#[cfg(feature = "__server")]
impl Inbox {
    /// Parses a message if enough memory is available. A delivered message uses its share of the memory budget until
    /// the share is dropped.
    pub(crate) fn judge_within(
        &self,
        bytes: &[u8],
        room: &Room,
    ) -> (Verdict<rmcp::RoleServer>, Option<Share>) {
        let weight = Weight::of(bytes);
        if let Err(too_heavy) = weight.check(room.max_parsed) {
            let error = ErrorData::invalid_request(too_heavy.to_string(), None);
            return (unread(bytes, error), None);
        }
        let Some(mut share) = room.budget.take(weight.parsed()) else {
            const BUSY: &str = "messages take too much memory at once; try again later";
            return (unread(bytes, ErrorData::new(ErrorCode(TRANSPORT_ERROR), BUSY, None)), None);
        };
        let verdict = self.judge(bytes);
        share.shrink(weight.kept());
        (verdict, Some(share))
    }
}

/// Returns how the transport must handle a message that the inbox does not parse because of `error`.
#[cfg(feature = "__server")]
fn unread<R: Role>(bytes: &[u8], error: ErrorData) -> Verdict<R> {
    match serde_json::from_slice::<Shape>(bytes) {
        Ok(shape) => shape.verdict(error),
        Err(_) => answer(Refusal { id: None, error }),
    }
}

/// Methods for clients, which can open a new connection after a lost connection.
#[cfg(feature = "__client")]
impl Inbox {
    /// Prepares the inbox for the next connection, and returns the open requests of the old connection. On the next
    /// connection, requests of the peer get new IDs, because a new session can reuse the IDs of the old session. A
    /// late answer to an old question must not become the answer to a new question.
    pub(crate) fn renew(&self, number: u64) -> Vec<RequestId> {
        let mut open = self.open();
        open.prefix = Some(format!("{number}~"));
        open.ids.drain().collect()
    }

    /// Returns the original ID that the peer has sent for an open request.
    pub(crate) fn original(&self, alias: &RequestId) -> Option<RequestId> {
        let open = self.open();
        if !open.ids.contains(alias) {
            return None;
        }
        let (Some(prefix), RequestId::String(text)) = (&open.prefix, alias) else {
            return Some(alias.clone());
        };
        let (kind, id) = text.strip_prefix(prefix.as_str())?.split_at_checked(1)?;
        if kind == "n" { id.parse().ok().map(RequestId::Number) } else { Some(RequestId::String(id.into())) }
    }
}

#[derive(Debug, Default)]
struct Open {
    ids: HashSet<RequestId>,
    /// The prefix for the IDs of requests on this connection. The first connection has no prefix.
    prefix: Option<String>,
}

impl Open {
    fn alias(&self, id: &RequestId) -> RequestId {
        match (&self.prefix, id) {
            (None, id) => id.clone(),
            (Some(prefix), RequestId::Number(number)) => {
                RequestId::String(format!("{prefix}n{number}").into())
            }
            (Some(prefix), RequestId::String(text)) => RequestId::String(format!("{prefix}s{text}").into()),
        }
    }
}

/// Returns the ID of the request to which a message responds.
pub(crate) fn answered<R: ServiceRole>(message: &TxJsonRpcMessage<R>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

/// Serializes a message. A response that is too long becomes an error response, so that the peer does not wait
/// forever.
pub(crate) fn write<R: Role>(message: &TxJsonRpcMessage<R>, limit: usize) -> Result<String> {
    let mut text = serde_json::to_string(message).map_err(|error| Error::Json(Box::new(error)))?;
    if let Some(revised) = (R::OUTGOING)(text.as_bytes()).and_then(|bytes| String::from_utf8(bytes).ok()) {
        text = revised;
    }
    if text.len() <= limit {
        return Ok(text);
    }
    let bytes = text.len();
    match answered::<R>(message) {
        Some(id) => {
            tracing::warn!(%id, bytes, limit, "a response is too long; an error is sent instead");
            let error = ErrorData::internal_error(
                format!("the answer has {bytes} bytes, more than the limit of {limit}: ask for less"),
                None,
            );
            Ok(Refusal { id: Some(id.clone()), error }.to_json())
        }
        None => Err(Error::TooLarge { bytes, limit }),
    }
}

/// The fields of a message that show whether it is a request, a response or a notification.
#[derive(Deserialize)]
struct Shape {
    id: Option<Id>,
    method: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Text(String),
    Unusable(IgnoredAny),
}

fn misread<R: Role>(bytes: &[u8], error: &serde_json::Error) -> Verdict<R> {
    // The text of the error is not logged, because this text can quote the message.
    tracing::debug!(kind = ?error.classify(), column = error.column(), "a message cannot be parsed");
    let Ok(shape) = serde_json::from_slice::<Shape>(bytes) else {
        let refusal = if serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
            Refusal::new(
                None,
                ErrorCode::INVALID_REQUEST,
                "not a JSON-RPC message: send one object at a time",
            )
        } else {
            Refusal::new(None, ErrorCode::PARSE_ERROR, "the message is not valid JSON")
        };
        return answer(refusal);
    };
    shape.verdict(ErrorData::new(ErrorCode::INVALID_REQUEST, "not a JSON-RPC message", None))
}

impl Shape {
    /// Returns how the transport must handle a message that the inbox does not deliver because of `error`.
    fn verdict<R: Role>(self, error: ErrorData) -> Verdict<R> {
        let unusable = matches!(self.id, Some(Id::Unusable(_)));
        let id = match self.id {
            Some(Id::Number(number)) => Some(RequestId::Number(number)),
            Some(Id::Text(text)) => Some(RequestId::String(text.into())),
            Some(Id::Unusable(_)) | None => None,
        };
        match (id, self.method.is_some()) {
            // This side waits for a response to its request, so this side must receive an error in place of the invalid
            // response.
            (Some(id), false) if self.result.is_some() || self.error.is_some() => {
                let error = ErrorData::internal_error("the peer's answer cannot be read", None);
                Verdict::Deliver(JsonRpcMessage::error(error, Some(id)))
            }
            // A notification needs no response.
            (None, true) if !unusable => Verdict::Ignore,
            (id, _) => answer(Refusal { id, error }),
        }
    }
}

/// Returns how the transport must handle an invalid message to which a server responds with an error. Only servers
/// answer invalid messages. If clients also answered invalid messages, a client and a server could exchange errors
/// forever.
fn answer<R: Role>(refusal: Refusal) -> Verdict<R> {
    if R::IS_CLIENT { Verdict::Ignore } else { Verdict::Answer(refusal) }
}

#[cfg(test)]
#[cfg(feature = "__server")]
mod tests {
    use rmcp::RoleServer;

    use super::*;

    fn check(inbox: &Inbox, text: &str, expect: &str) {
        let found = match inbox.judge::<RoleServer>(text.as_bytes()) {
            Verdict::Deliver(message) => {
                format!("deliver {}", serde_json::to_string(&message).unwrap())
            }
            Verdict::Answer(refusal) => format!("answer {:?} {}", refusal.id, refusal.error.code.0),
            Verdict::Ignore => "ignore".into(),
        };
        assert!(found.starts_with(expect), "{text}\n  found {found}\n  expected {expect}");
    }

    #[test]
    fn what_cannot_be_read_is_answered_as_json_rpc_says() {
        let inbox = Inbox::new(2, false);
        check(&inbox, "", "answer None -32700");
        check(&inbox, "{", "answer None -32700");
        check(&inbox, "[]", "answer None -32600");
        check(&inbox, "17", "answer None -32600");
        check(&inbox, "{}", "answer None -32600");
        check(&inbox, r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, "answer Some(Number(7)) -32600");
        check(&inbox, r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "answer None -32600");
        check(&inbox, r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, "answer None -32600");
        check(&inbox, &"[".repeat(1_000_000), "answer None -32700");
    }

    #[test]
    fn an_answer_that_cannot_be_read_still_ends_the_wait_for_it() {
        let inbox = Inbox::new(2, false);
        check(&inbox, r#"{"jsonrpc":"2.0","id":3,"error":5}"#, r#"deliver {"jsonrpc":"2.0","id":3,"error""#);
    }

    #[test]
    fn a_request_is_open_until_it_is_answered_or_taken_back() {
        let ping = |id: i64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let inbox = Inbox::new(2, false);
        check(&inbox, &ping(1), "deliver");
        check(&inbox, &ping(1), "ignore");
        check(&inbox, &ping(2), "deliver");
        check(&inbox, &ping(3), "answer Some(Number(3)) -32000");
        inbox.settle(&RequestId::Number(1));
        check(&inbox, &ping(3), "deliver");
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
        check(&inbox, cancelled, "deliver");
        check(&inbox, &ping(4), "deliver");
    }

    #[test]
    fn message_is_read_only_if_there_is_memory_for_it() {
        let inbox = Inbox::new(8, false);
        let room = Room { max_parsed: 1 << 20, budget: MemoryBudget::new(2 << 20) };
        let call = |id: i64, params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x","params":{{"a":{params}}}}}"#)
        };
        let dense = format!("[{}0]", "0,".repeat(100_000));
        let (verdict, _) = inbox.judge_within(call(1, &dense).as_bytes(), &room);
        let Verdict::Answer(refusal) = verdict else { panic!("{verdict:?}") };
        assert_eq!(
            (refusal.id, refusal.error.code),
            (Some(RequestId::Number(1)), ErrorCode::INVALID_REQUEST)
        );
        assert!(refusal.error.message.contains("`max_parsed_bytes`"), "{}", refusal.error.message);
        let long = call(2, &format!("\"{}\"", "x".repeat(200_000)));
        let (verdict, share) = inbox.judge_within(long.as_bytes(), &room);
        assert!(matches!(verdict, Verdict::Deliver(_)), "{verdict:?}");
        let others = room.budget.take(1 << 20).unwrap();
        let again = long.replace(":2,", ":3,");
        let (verdict, _) = inbox.judge_within(again.as_bytes(), &room);
        let Verdict::Answer(refusal) = verdict else { panic!("{verdict:?}") };
        assert_eq!((refusal.id, refusal.error.code.0), (Some(RequestId::Number(3)), TRANSPORT_ERROR));
        drop((share, others));
        assert!(matches!(inbox.judge_within(again.as_bytes(), &room), (Verdict::Deliver(_), Some(_))));
        let answer = format!(r#"{{"jsonrpc":"2.0","id":9,"result":{{"a":{dense}}}}}"#);
        assert!(matches!(
            inbox.judge_within(answer.as_bytes(), &room),
            (Verdict::Deliver(JsonRpcMessage::Error(_)), _)
        ));
        let note = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"a":{dense}}}}}"#);
        assert!(matches!(inbox.judge_within(note.as_bytes(), &room), (Verdict::Ignore, None)));
    }

    #[cfg(feature = "__client")]
    #[test]
    fn a_question_of_a_lost_connection_is_not_one_of_the_next() {
        let inbox = Inbox::new(2, false);
        let (number, text) = (RequestId::Number(1), RequestId::String("1".into()));
        check(&inbox, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, r#"deliver {"jsonrpc":"2.0","id":1,"#);
        assert_eq!(inbox.original(&number), Some(number.clone()));
        assert_eq!(inbox.renew(2), std::slice::from_ref(&number));
        check(
            &inbox,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"deliver {"jsonrpc":"2.0","id":"2~n1","#,
        );
        check(
            &inbox,
            r#"{"jsonrpc":"2.0","id":"1","method":"ping"}"#,
            r#"deliver {"jsonrpc":"2.0","id":"2~s1","#,
        );
        assert_eq!(inbox.original(&number), None);
        assert_eq!(inbox.original(&RequestId::String("2~n1".into())), Some(number));
        assert_eq!(inbox.original(&RequestId::String("2~s1".into())), Some(text));
    }

    #[test]
    fn an_answer_that_is_too_long_becomes_one_that_says_so() {
        let text = "x".repeat(1_000);
        let error = ErrorData::internal_error(text, None);
        let message: TxJsonRpcMessage<RoleServer> = JsonRpcMessage::error(error, Some(RequestId::Number(1)));
        let written = write::<RoleServer>(&message, 500).unwrap();
        assert!(written.len() < 500 && written.contains(r#""id":1"#), "{written}");
    }
}
