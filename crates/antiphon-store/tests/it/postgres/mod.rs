//! The laws, kept by PostgreSQL, and what is PostgreSQL's alone.

mod away;
mod limits;
mod schema;
mod server;

use std::sync::Arc;

use antiphon_store::{
    Bus, Queue, QueueConfig, Store,
    conformance::service,
    postgres::{Postgres, PostgresConfig},
};

const URL: &str = "ANTIPHON_TEST_POSTGRES_URL";

/// The test database, in a space of one's own.
pub(crate) async fn open(space: &str) -> Option<Postgres> {
    let config = PostgresConfig::new(service(URL)?).with_space(space).with_max_connections(8);
    Some(Postgres::connect(config).await.expect("the test database takes connections"))
}

/// A name that nobody else has.
fn unique(name: &str) -> String {
    let mut random = [0; 8];
    getrandom::fill(&mut random).expect("there is randomness");
    format!("{name}_{:016x}", u64::from_ne_bytes(random))
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

mod flaky {
    antiphon_store::store_laws!(flaky super::store);
    antiphon_store::queue_laws!(flaky super::queue);
    antiphon_store::bus_laws!(flaky super::bus);
}
