use tokio::sync::broadcast;

/// Tells clients that lists or resources have changed: those with a 2025-11-25 session at once,
/// those on 2026-07-28 over the subscriptions they keep open.
///
/// Cloning it clones the handle; it may be kept and used from anywhere.
#[derive(Clone, Debug)]
pub struct Changes {
    sender: broadcast::Sender<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

/// A client slower than this many changes misses some; it is told of the next and looks again.
const BACKLOG: usize = 256;

impl Default for Changes {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG) }
    }
}

impl Changes {
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

    fn send(&self, change: Change) {
        // Nobody listening is not a failure.
        let _ = self.sender.send(change);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.sender.subscribe()
    }
}
