//! What clients are told of while a server runs.

use std::{fmt, sync::Arc};

use antiphon_transport::session::ChangeId;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::url_elicitation::MAX_ELICITATION_ID;

/// Tells clients that lists or resources have changed: those with a 2025-11-25 session at once,
/// those on 2026-07-28 over the subscriptions they keep open.
///
/// With a [backend](crate::ServerBuilder::with_backend) it tells the clients of all replicas, and the same
/// change said several times within a moment is said once.
///
/// Cloning it clones the handle; it may be kept and used from anywhere.
#[derive(Clone, Debug)]
pub struct Changes {
    sender: broadcast::Sender<ChangeNotice>,
    /// The other replicas, if there are any.
    others: Option<Arc<dyn Announce>>,
}

/// This replica among the others.
pub(crate) trait Announce: Send + Sync + fmt::Debug {
    /// Announces a change to all replicas, this one included.
    fn announce(self: Arc<Self>, change: Change);

    /// Begins to listen to the others and to remove what has expired in the store, unless it has begun.
    fn begin(self: Arc<Self>);
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
    /// The user is done with the web page of this elicitation. Only the sessions that sent the user there are told.
    ElicitationComplete(String),
    /// Nobody knows which: some news may have been missed.
    Any,
}

/// A change that clients are to hear of.
#[derive(Clone, Debug)]
pub(crate) struct ChangeNotice {
    pub(crate) change: Change,
    /// Which announcement it is, where several replicas may pass it on to one client.
    pub(crate) id: Option<ChangeId>,
}

/// A client slower than this many changes misses some; it is told of the next and looks again.
const BACKLOG: usize = 256;

impl Default for Changes {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG), others: None }
    }
}

impl Changes {
    /// Changes that all replicas tell of.
    pub(crate) fn shared(sender: broadcast::Sender<ChangeNotice>, others: Arc<dyn Announce>) -> Self {
        Self { sender, others: Some(others) }
    }

    /// The list of tools has changed.
    pub fn tools(&self) {
        self.send(Change::Tools);
    }

    /// The list of prompts has changed.
    pub fn prompts(&self) {
        self.send(Change::Prompts);
    }

    /// The list of resources has changed.
    pub fn resources(&self) {
        self.send(Change::Resources);
    }

    /// What can be read at `uri` has changed. Only who has subscribed to it is told.
    pub fn resource(&self, uri: impl Into<String>) {
        self.send(Change::Resource(uri.into()));
    }

    /// The user is done with the web page of the elicitation `id`.
    pub(crate) fn elicitation_complete(&self, id: impl Into<String>) {
        let id = id.into();
        // No session keeps a longer one.
        if id.len() <= MAX_ELICITATION_ID {
            self.send(Change::ElicitationComplete(id));
        }
    }

    /// Begins what goes on beside the requests, where there are replicas.
    pub(crate) fn begin(&self) {
        if let Some(others) = &self.others {
            Arc::clone(others).begin();
        }
    }

    fn send(&self, change: Change) {
        match &self.others {
            Some(others) => Arc::clone(others).announce(change),
            // Nobody listening is not a failure.
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
