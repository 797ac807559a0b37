//! IDs that contain the name of a replica and the number of a session part.

use std::{fmt, future::Future, str::FromStr};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, NumberOrString, RequestId, ServerJsonRpcMessage, ServerNotification},
    transport::{Transport, WorkerTransport, streamable_http_server::session::local::LocalSessionWorker},
};

use super::NAME;
use antiphon_transport::drain::Counted;

/// The ID of the part of a session at one replica: the ID of the replica, and the number of the part in this replica.
///
/// The ID of a session part is unique. Because of the unique prefix, a replica can always assign an answer to its
/// question. The prefix works even if the session is restored, or if another replica receives the answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LocalSessionId {
    pub(super) replica: String,
    pub(super) number: u64,
}

impl fmt::Display for LocalSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.replica, self.number)
    }
}

/// The number that identifies one request to the client, or one event stream, within a part of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Numbered {
    pub(super) part: LocalSessionId,
    pub(super) number: i64,
}

impl fmt::Display for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.part, self.number)
    }
}

impl FromStr for Numbered {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut pieces = text.split('-');
        // The ID comes from a client, and it becomes part of a name in the store.
        let is_replica =
            |name: &&str| name.len() == NAME && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let replica = pieces.next().filter(is_replica).ok_or(())?.to_owned();
        let number = pieces.next().and_then(|piece| piece.parse().ok()).ok_or(())?;
        let part = LocalSessionId { replica, number };
        let number = pieces.next().and_then(|piece| piece.parse().ok()).ok_or(())?;
        if pieces.next().is_some() { Err(()) } else { Ok(Self { part, number }) }
    }
}

/// Returns the ID of the request that `message` answers. Returns `None` if the ID in `message` is not the ID of a
/// replica's request.
pub(super) fn answered(message: &ClientJsonRpcMessage) -> Option<Numbered> {
    let id = match message {
        ClientJsonRpcMessage::Response(response) => &response.id,
        ClientJsonRpcMessage::Error(error) => error.id.as_ref()?,
        _ => return None,
    };
    match id {
        NumberOrString::String(id) => id.parse().ok(),
        NumberOrString::Number(_) => None,
    }
}

/// Replaces the ID of an answer with `number`, the number that the SDK gave to the question.
pub(super) fn readdress(message: &mut ClientJsonRpcMessage, number: i64) {
    match message {
        ClientJsonRpcMessage::Response(response) => response.id = RequestId::Number(number),
        ClientJsonRpcMessage::Error(error) => error.id = Some(RequestId::Number(number)),
        _ => {}
    }
}

/// The transport of a session part. The transport adds the ID of the session part to the IDs of requests to the
/// client.
///
/// The SDK numbers requests from 0 in every replica, so the numbers of the SDK are not unique.
pub(crate) struct Marked {
    pub(super) inner: Counted<WorkerTransport<LocalSessionWorker>>,
    pub(super) part: LocalSessionId,
}

impl Marked {
    fn mark(&self, id: &mut RequestId) {
        if let NumberOrString::Number(number) = *id {
            let marked = Numbered { part: self.part.clone(), number }.to_string();
            *id = RequestId::String(marked.into());
        }
    }
}

impl Transport<RoleServer> for Marked {
    type Error = <WorkerTransport<LocalSessionWorker> as Transport<RoleServer>>::Error;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match &mut message {
            ServerJsonRpcMessage::Request(request) => self.mark(&mut request.id),
            ServerJsonRpcMessage::Notification(notification) => {
                // The notification cancels a question.
                if let ServerNotification::CancelledNotification(cancelled) = &mut notification.notification
                    && let Some(id) = &mut cancelled.params.request_id
                {
                    self.mark(id);
                }
            }
            _ => {}
        }
        self.inner.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<ClientJsonRpcMessage>> + Send {
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written_and_nothing_else_is() {
        let id = Numbered { part: LocalSessionId { replica: "abcdefghij".into(), number: 7 }, number: 12 };
        assert_eq!(id.to_string(), "abcdefghij-7-12");
        assert_eq!(id.to_string().parse(), Ok(id));
        for other in [
            "",
            "0",
            "abcdefghij-b-c",
            "abcdefghij-1",
            "abcdefghij-1-2-3",
            "abc-1-2",
            "abcdefgh/j-1-2",
            "abcdefghij--1-2",
            "abcdefghij-1-99999999999999999999",
        ] {
            assert_eq!(other.parse::<Numbered>(), Err(()), "{other}");
        }
    }
}
