//! Sends the messages of a client over the current connection of the client.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    RoleClient,
    model::{ClientNotification, ClientRequest, JsonRpcMessage, ProtocolVersion, RequestId},
    service::TxJsonRpcMessage,
};
use tokio::sync::watch;

use super::Outbox;
use crate::{Error, Result};

/// The state that the transport shares with the futures that send messages.
pub(super) struct Shared<O> {
    pub(super) outbox: watch::Sender<Exit<O>>,
    pub(super) open: Mutex<Open>,
}

/// The connection over which the client currently sends messages.
pub(super) enum Exit<O> {
    /// The outbox of the connection with this number.
    Up(O, u64),
    /// The client is not connected now.
    Down,
    Over,
}

/// The requests on the connection `number` that have no response.
#[derive(Default)]
pub(super) struct Open {
    pub(super) number: u64,
    pub(super) requests: HashSet<RequestId>,
    /// The ID and the text of the `initialize` request, which the client repeats on a new connection.
    pub(super) initialize: Option<(RequestId, String)>,
    pub(super) initialized: Option<String>,
    pub(super) version: Option<ProtocolVersion>,
}

impl<O> Shared<O> {
    pub(super) fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Outbox> Shared<O> {
    pub(super) async fn send(&self, message: &TxJsonRpcMessage<RoleClient>, text: String) -> Result<()> {
        let mut exits = self.outbox.subscribe();
        let outbox = loop {
            let (outbox, number) = match &*exits
                .wait_for(|exit| !matches!(exit, Exit::Down))
                .await
                .map_err(|_| Error::Closed)?
            {
                Exit::Up(outbox, number) => (outbox.clone(), *number),
                Exit::Down | Exit::Over => return Err(Error::Closed),
            };
            // Invariant: a request is sent only if it was recorded as open on the same connection.
            if self.open().note(message, &text, number) {
                break outbox;
            }
            exits.changed().await.map_err(|_| Error::Closed)?;
        };
        let sent = outbox.send(text).await;
        if let (Err(_), JsonRpcMessage::Request(request)) = (&sent, message) {
            self.open().requests.remove(&request.id);
        }
        sent
    }
}

impl Open {
    /// Records that a message is sent on the connection with the number `number`. Returns `false` if this connection is
    /// already lost.
    fn note(&mut self, message: &TxJsonRpcMessage<RoleClient>, text: &str, number: u64) -> bool {
        if self.number != number {
            return false;
        }
        match message {
            JsonRpcMessage::Request(request) => {
                self.requests.insert(request.id.clone());
                if matches!(request.request, ClientRequest::InitializeRequest(_)) {
                    self.initialize = Some((request.id.clone(), text.to_owned()));
                }
            }
            JsonRpcMessage::Notification(notification)
                if matches!(notification.notification, ClientNotification::InitializedNotification(_)) =>
            {
                self.initialized = Some(text.to_owned());
            }
            _ => {}
        }
        true
    }
}
