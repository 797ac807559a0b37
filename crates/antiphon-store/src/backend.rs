use std::{sync::Arc, time::Duration};

use crate::{
    bus::Bus,
    queue::Queue,
    retrying::{Retrying, RetryingConfig},
    store::Store,
};

/// A store, a queue and a bus that a server shares with its replicas.
///
/// The store, the queue and the bus can use different engines, for example a PostgreSQL store with a NATS bus.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backend {
    /// The store for records and logs.
    pub store: Arc<dyn Store>,
    /// The queue for jobs.
    pub queue: Arc<dyn Queue>,
    /// The bus for events between replicas.
    pub bus: Arc<dyn Bus>,
    patience: Option<Duration>,
}

impl Backend {
    /// Creates a backend from a store, a queue and a bus.
    pub fn new(store: impl Store, queue: impl Queue, bus: impl Bus) -> Self {
        Self { store: Arc::new(store), queue: Arc::new(queue), bus: Arc::new(bus), patience: None }
    }

    /// Replaces the bus of this backend, for example with a bus of another engine.
    #[must_use]
    pub fn with_bus(mut self, bus: impl Bus) -> Self {
        self.bus = Arc::new(bus);
        self
    }

    /// Replaces the queue of this backend, for example with a queue of another engine.
    #[must_use]
    pub fn with_queue(mut self, queue: impl Queue) -> Self {
        self.queue = Arc::new(queue);
        self
    }

    /// Sets how long [`retrying`](Self::retrying) retries a failed call. If a database failover takes less time than
    /// this patience, the calls of the server succeed after the failover. Default: 30 seconds.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Wraps the store, the queue and the bus in [`Retrying`], which retries failed calls. A server wraps its own
    /// backend in [`Retrying`] automatically. Call `retrying` only for a backend that you use without a server.
    #[must_use]
    pub fn retrying(self) -> Self {
        let mut config = RetryingConfig::default();
        if let Some(patience) = self.patience {
            config = config.with_patience(patience);
        }
        Self {
            store: Arc::new(Retrying::new(self.store).with_config(config.clone())),
            queue: Arc::new(Retrying::new(self.queue).with_config(config.clone())),
            bus: Arc::new(Retrying::new(self.bus).with_config(config)),
            patience: self.patience,
        }
    }
}
