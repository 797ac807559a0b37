use crate::{
    backend::Backend,
    error::{Error, Result},
    memory::Memory,
    queue::QueueConfig,
};

impl Backend {
    /// Connects to the engine of the URL, and returns a backend.
    ///
    /// The URL starts with `postgres://`, `redis://`, `rediss://`, `nats://` or `tls://` (NATS with TLS). `memory:`
    /// creates a backend in the memory of this process.
    ///
    /// `space` is the namespace of a service. All replicas of a service must use the same space. Services that share
    /// an engine must use different spaces. To set other options, use the configuration type and the `connect`
    /// function of the engine, such as `PostgresConfig` and `Postgres::connect`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Config`] if the URL cannot be used or the feature of its engine is not enabled. Returns the
    /// error of the engine if the connection fails.
    #[cfg_attr(
        not(any(feature = "nats", feature = "postgres", feature = "redis")),
        expect(clippy::unused_async, reason = "without an engine there is nothing to connect to")
    )]
    pub async fn connect(url: &str, space: &str, config: QueueConfig) -> Result<Self> {
        let scheme = url.split(':').next().unwrap_or_default();
        let _ = space;
        match scheme {
            "memory" => Ok(Memory::default().backend(config)),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                use crate::postgres::{Postgres, PostgresConfig};
                let postgres = Postgres::connect(PostgresConfig::new(url).with_space(space)).await?;
                Ok(postgres.backend(config))
            }
            #[cfg(feature = "redis")]
            "redis" | "rediss" => {
                use crate::redis::{Redis, RedisConfig};
                Ok(Redis::connect(RedisConfig::new(url).with_space(space)).await?.backend(config))
            }
            #[cfg(feature = "nats")]
            "nats" | "tls" => {
                use crate::nats::{Nats, NatsConfig};
                Ok(Nats::connect(NatsConfig::new(url).with_space(space)).await?.backend(config))
            }
            #[cfg(not(feature = "postgres"))]
            "postgres" | "postgresql" => Err(missing("postgres")),
            #[cfg(not(feature = "redis"))]
            "redis" | "rediss" => Err(missing("redis")),
            #[cfg(not(feature = "nats"))]
            "nats" | "tls" => Err(missing("nats")),
            // The URL can contain a password, so the error does not include it.
            _ => Err(Error::Config {
                problem: "the scheme of the backend URL is unknown; use `postgres://`, `redis://`, `rediss://`, `nats://`, `tls://` or `memory:`".into(),
            }),
        }
    }
}

#[cfg(not(all(feature = "nats", feature = "postgres", feature = "redis")))]
fn missing(feature: &str) -> Error {
    Error::Config {
        problem: format!(
            "this program was built without the feature `{feature}` of `antiphon-store`; enable the feature, \
             and build the program again"
        ),
    }
}
