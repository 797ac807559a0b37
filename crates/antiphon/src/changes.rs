//! Notifications to clients about changed lists and resources.

use std::{fmt, sync::Arc};

use antiphon_transport::session::ChangeId;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::url_elicitation::MAX_ELICITATION_ID;

/// A handle that notifies clients of changed lists and resources.
///
/// An MCP 2025-11-25 client receives the notification in its session. An MCP 2026-07-28 client receives the
/// notification over an open subscription.
///
/// If the server has a [backend](crate::ServerBuilder::with_backend), the clients of all replicas are notified. If you
/// announce a change several times within 20 ms, the clients receive only one notification.
///
/// The handle is cheap to clone, and you can use the handle from any thread.
#[derive(Clone, Debug)]
pub struct Changes {
    sender: broadcast::Sender<ChangeNotice>,
    /// The object that announces changes to the other replicas, if the server has a backend.
    others: Option<Arc<dyn Announce>>,
}

/// An object that exchanges change announcements with the other replicas.
pub(crate) trait Announce: Send + Sync + fmt::Debug {
    /// Announces a change to all replicas, including this replica.
    fn announce(self: Arc<Self>, change: Change);

    /// Starts the background work: receiving changes from the other replicas, and deleting expired records. A second
    /// call does nothing.
    fn begin(self: Arc<Self>);
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Change {
    Tools,
    /// The list of tools has changed for one session or one principal. The value is the name of the session or
    /// principal.
    ToolsOf(String),
    Prompts,
    Resources,
    Resource(String),
    /// The user has finished on the web page of the elicitation with this ID. Only the sessions that received the
    /// elicitation are notified.
    ElicitationComplete(String),
    /// An unknown change: the replica may have missed announcements, so any list or resource may have changed.
    Any,
}

/// A change that the server must announce to clients.
#[derive(Clone, Debug)]
pub(crate) struct ChangeNotice {
    pub(crate) change: Change,
    /// The ID of the announcement. A client can receive the same announcement from several replicas. With this ID, the
    /// server detects duplicates and sends only one notification to the client.
    pub(crate) id: Option<ChangeId>,
}

/// The number of changes that the channel buffers. If a client does not read fast enough and more changes wait, the
/// client receives [`Change::Any`] instead of the oldest changes.
const BACKLOG: usize = 256;

impl Default for Changes {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG), others: None }
    }
}

impl Changes {
    /// Creates a handle that notifies the clients of all replicas.
    pub(crate) fn shared(sender: broadcast::Sender<ChangeNotice>, others: Arc<dyn Announce>) -> Self {
        Self { sender, others: Some(others) }
    }

    /// Notifies clients that the list of tools has changed.
    pub fn tools(&self) {
        self.send(Change::Tools);
    }

    /// Notifies the clients of one session or one principal that their list of tools has changed.
    pub(crate) fn tools_of(&self, name: impl Into<String>) {
        self.send(Change::ToolsOf(name.into()));
    }

    /// Notifies clients that the list of prompts has changed.
    pub fn prompts(&self) {
        self.send(Change::Prompts);
    }

    /// Notifies clients that the list of resources has changed.
    pub fn resources(&self) {
        self.send(Change::Resources);
    }

    /// Notifies the clients that have subscribed to `uri` that the contents of this resource have changed.
    pub fn resource(&self, uri: impl Into<String>) {
        self.send(Change::Resource(uri.into()));
    }

    /// Notifies the sessions that received the elicitation `id` that the user has finished on the web page of this
    /// elicitation.
    pub(crate) fn elicitation_complete(&self, id: impl Into<String>) {
        let id = id.into();
        // Sessions store only elicitation IDs of up to `MAX_ELICITATION_ID` bytes.
        if id.len() <= MAX_ELICITATION_ID {
            self.send(Change::ElicitationComplete(id));
        }
    }

    /// Starts the background work of a replica, if the server has a backend.
    pub(crate) fn begin(&self) {
        if let Some(others) = &self.others {
            Arc::clone(others).begin();
        }
    }

    fn send(&self, change: Change) {
        match &self.others {
            Some(others) => Arc::clone(others).announce(change),
            // The send fails if no client listens, which is a normal case.
            None => drop(self.sender.send(ChangeNotice { change, id: None })),
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ChangeNotice> {
        self.sender.subscribe()
    }

    pub(crate) fn channel() -> broadcast::Sender<ChangeNotice> {
        broadcast::Sender::new(BACKLOG)
    }
}
