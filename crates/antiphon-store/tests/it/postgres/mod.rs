//! The laws, kept by PostgreSQL, and what is PostgreSQL's alone.

mod away;
mod limits;
mod scale;
mod schema;
mod server;
#[cfg(feature = "tls")]
mod tls;

use std::time::Duration;

use antiphon_store::{
    Backend, QueueConfig,
    conformance::service,
    postgres::{Postgres, PostgresConfig},
};

const URL: &str = "ANTIPHON_TEST_POSTGRES_URL";

/// The test database, in a space of one's own.
pub(crate) async fn open(space: &str) -> Option<Postgres> {
    let config = PostgresConfig::new(service(URL)?).with_space(space).with_max_connections(8);
    // Other tests use the processors too, so an operation can wait long for a connection of the pool.
    let config = config.with_connect_timeout(Duration::from_secs(30));
    Some(Postgres::connect(config).await.expect("the test database takes connections"))
}

async fn backend(space: String, config: QueueConfig) -> Option<Backend> {
    Some(open(&space).await?.backend(config))
}

antiphon_store::backend_laws!(backend);
