use antiphon::store::nats::{Nats, NatsConfig};

// ANCHOR: postgres
use antiphon::store::{
    Backend, QueueConfig,
    postgres::{Postgres, PostgresConfig},
};
use antiphon::{
    ServerBuilder,
    prelude::*,
    seal::{KeyRing, SealConfig},
};

async fn trips() -> Result<ServerBuilder> {
    let url = std::env::var("DATABASE_URL")?;
    let backend = Postgres::connect(PostgresConfig::new(url)).await?.backend(QueueConfig::default());
    let keys: KeyRing = std::env::var("SEAL_KEYS")?.parse()?; // the same for all replicas
    let seal = SealConfig::default().with_keys(keys);
    Ok(Server::builder("trips", "1.0.0").with_backend(backend).with_seal(seal))
}
// ANCHOR_END: postgres

// ANCHOR: mixed
async fn mixed(database_url: String, nats_url: String) -> Result<Backend> {
    let postgres = Postgres::connect(PostgresConfig::new(database_url)).await?;
    let nats = Nats::connect(NatsConfig::new(nats_url)).await?;
    Ok(postgres.backend(QueueConfig::default()).with_bus(nats.bus()))
}
// ANCHOR_END: mixed
