use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::replicas::Replicas;
use crate::elicitation::MAX_ELICITATION_ID;

/// Tells clients that lists or resources have changed: those with a 2025-11-25 session at once,
/// those on 2026-07-28 over the subscriptions they keep open.
///
/// With a [backend](crate::ServerBuilder::with_backend) it tells the clients of all replicas, and the same
/// change said several times within a moment is said once.
///
/// Cloning it clones the handle; it may be kept and used from anywhere.
#[derive(Clone, Debug)]
pub struct Changes {
    sender: broadcast::Sender<Told>,
    replicas: Option<Arc<Replicas>>,
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
pub(crate) struct Told {
    pub(crate) change: Change,
    /// Which announcement it is, where several replicas may pass it on to one client.
    pub(crate) id: Option<ChangeId>,
}

/// Which announcement of a change it is, among those of all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangeId(pub(crate) Arc<str>);

/// A client slower than this many changes misses some; it is told of the next and looks again.
const BACKLOG: usize = 256;

impl Default for Changes {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG), replicas: None }
    }
}

impl Changes {
    /// Changes that all replicas tell of.
    pub(super) fn shared(sender: broadcast::Sender<Told>, replicas: Arc<Replicas>) -> Self {
        Self { sender, replicas: Some(replicas) }
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

    fn send(&self, change: Change) {
        match &self.replicas {
            Some(replicas) => replicas.announce(change),
            // Nobody listening is not a failure.
            None => drop(self.sender.send(Told { change, id: None })),
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Told> {
        self.sender.subscribe()
    }

    pub(super) fn channel() -> broadcast::Sender<Told> {
        broadcast::Sender::new(BACKLOG)
    }
}
