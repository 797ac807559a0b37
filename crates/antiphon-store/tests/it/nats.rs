//! The laws on NATS, and what is particular to it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod cut;
mod server;

use std::sync::Arc;

use antiphon_store::{
    Bus, Queue, QueueConfig, Store,
    conformance::service,
    nats::{Nats, NatsConfig},
};

/// Opens a space on the server that the environment names.
pub(crate) async fn open(space: &str) -> Option<Nats> {
    let url = service("ANTIPHON_TEST_NATS_URL")?;
    Some(Nats::connect(NatsConfig::new(url).with_space(space)).await.unwrap())
}

async fn store(space: String) -> Option<Arc<dyn Store>> {
    Some(Arc::new(open(&space).await?.store()))
}

async fn queue(space: String, config: QueueConfig) -> Option<Arc<dyn Queue>> {
    Some(Arc::new(open(&space).await?.queue(config)))
}

async fn bus(space: String) -> Option<Arc<dyn Bus>> {
    Some(Arc::new(open(&space).await?.bus()))
}

antiphon_store::store_laws!(store);
antiphon_store::queue_laws!(queue);
antiphon_store::bus_laws!(bus);

// The same laws, over a connection that fails, delays and lies.
mod flaky {
    antiphon_store::store_laws!(flaky super::store);
    antiphon_store::queue_laws!(flaky super::queue);
    antiphon_store::bus_laws!(flaky super::bus);
}
