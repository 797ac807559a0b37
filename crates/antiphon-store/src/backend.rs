use std::{sync::Arc, time::Duration};

use crate::{
    bus::Bus,
    queue::Queue,
    retrying::{Retrying, RetryingConfig},
    store::Store,
};

/// A store, a queue and a bus: what a server is given to share with its replicas.
///
/// They need not be of one kind: a PostgreSQL store goes well with a NATS bus.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backend {
    /// Where records and logs are kept.
    pub store: Arc<dyn Store>,
    /// Where jobs wait for workers.
    pub queue: Arc<dyn Queue>,
    /// Where replicas tell each other.
    pub bus: Arc<dyn Bus>,
    patience: Option<Duration>,
}

impl Backend {
    /// Joins the three.
    pub fn new(store: impl Store, queue: impl Queue, bus: impl Bus) -> Self {
        Self { store: Arc::new(store), queue: Arc::new(queue), bus: Arc::new(bus), patience: None }
    }

    /// Takes the bus of another kind.
    #[must_use]
    pub fn with_bus(mut self, bus: impl Bus) -> Self {
        self.bus = Arc::new(bus);
        self
    }

    /// Takes the queue of another kind.
    #[must_use]
    pub fn with_queue(mut self, queue: impl Queue) -> Self {
        self.queue = Arc::new(queue);
        self
    }

    /// Sets for how long [`retrying`](Self::retrying) makes a call again that fails for want of the backend, and so for how
    /// long a server's calls outlast a failover. Default: 30 seconds.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Retries failed calls, and finds out what became of uncertain writes: see [`Retrying`]. A server does this to its own
    /// backend. Do it yourself for a backend that you use beside it.
    #[must_use]
    pub fn retrying(self) -> Self {
        let mut config = RetryingConfig::default();
        config.patience = self.patience.unwrap_or(config.patience);
        Self {
            store: Arc::new(Retrying::new(self.store).with_config(config.clone())),
            queue: Arc::new(Retrying::new(self.queue).with_config(config.clone())),
            bus: Arc::new(Retrying::new(self.bus).with_config(config)),
            patience: self.patience,
        }
    }
}
