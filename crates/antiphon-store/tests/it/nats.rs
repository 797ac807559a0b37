//! The laws on NATS, and what is particular to it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod cluster;
mod cut;
mod schedules;
mod server;
mod timers;
#[cfg(feature = "tls")]
mod tls;

use antiphon_store::{
    Backend, QueueConfig,
    conformance::service,
    nats::{Nats, NatsConfig},
};

/// Opens a space on the server that the environment names.
pub(crate) async fn open(space: &str) -> Option<Nats> {
    let url = service("ANTIPHON_TEST_NATS_URL")?;
    Some(Nats::connect(NatsConfig::new(url).with_space(space)).await.unwrap())
}

async fn backend(space: String, config: QueueConfig) -> Option<Backend> {
    Some(open(&space).await?.backend(config))
}

antiphon_store::backend_laws!(backend);
