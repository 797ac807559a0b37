//! Opens a store of any kind by name.

use antiphon_store::{Backend, QueueConfig, Result};
use serde::{Deserialize, Serialize};

/// The servers that a backend can stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// Redis, not a cluster.
    Redis,
    /// NATS with JetStream.
    Nats,
}

impl Engine {
    /// Connects to the server at `url`.
    ///
    /// # Errors
    ///
    /// When it is away.
    pub async fn open(self, url: &str, space: &str, queue: QueueConfig) -> Result<Backend> {
        use antiphon_store::{nats, postgres, redis};
        Ok(match self {
            Self::Postgres => {
                let config = postgres::PostgresConfig::new(url).with_space(space);
                postgres::Postgres::connect(config).await?.backend(queue)
            }
            Self::Redis => {
                let config = redis::RedisConfig::new(url).with_space(space);
                redis::Redis::connect(config).await?.backend(queue)
            }
            Self::Nats => {
                let config = nats::NatsConfig::new(url).with_space(space);
                nats::Nats::connect(config).await?.backend(queue)
            }
        })
    }
}
