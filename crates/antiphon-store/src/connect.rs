use std::time::Duration;

use crate::{
    backend::Backend,
    error::{Error, Result},
    memory::Memory,
    queue::QueueConfig,
    retrying::{RetryingConfig, repeat},
};

/// The pause after the first failed connection.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

impl Backend {
    /// Connects to the engine that `url` names, and returns a backend on this engine.
    ///
    /// The URL starts with `postgres://`, `redis://`, `rediss://`, `nats://` or `tls://` (NATS with TLS). `memory:`
    /// creates a backend in the memory of this process. The URL parameter `patience` sets
    /// [`with_patience`](Self::with_patience), in seconds.
    ///
    /// If the engine cannot be reached, `connect` logs a warning and tries again, for the time of `patience`. So a
    /// server can start before its database, or during a failover. Without the parameter, `connect` tries for 30
    /// seconds. With `patience=0`, `connect` tries once. When the time is over, `connect` still waits for the end of an
    /// attempt that is running.
    ///
    /// `space` is the namespace of a service in the engine. All replicas of a service must use the same space. Two
    /// services that share an engine must use different spaces. To set other options, use the configuration type and
    /// the `connect` function of the engine, such as `PostgresConfig` and `Postgres::connect`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Config`] if the URL cannot be used or the feature of its engine is not enabled. Returns the
    /// error of the engine if the connection fails.
    pub async fn connect(url: &str, space: &str, config: QueueConfig) -> Result<Self> {
        #[cfg(not(any(feature = "nats", feature = "postgres", feature = "redis")))]
        let (url, patience) = (url.to_owned(), None);
        #[cfg(any(feature = "nats", feature = "postgres", feature = "redis"))]
        let (url, patience) = {
            let mut parameters = crate::parameters::Parameters::of(url);
            let patience = parameters.seconds("patience")?;
            (parameters.url(), patience)
        };
        let retrying = RetryingConfig::default().with_pause(FIRST_PAUSE);
        let retrying = patience.into_iter().fold(retrying, RetryingConfig::with_patience);
        let before_retry = |error: &Error, attempt: u32| {
            if attempt == 1 {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                tracing::warn!(
                    %error,
                    cause,
                    "the backend cannot be used yet; connecting is tried again for the time of `patience`"
                );
            }
        };
        let backend = repeat(&retrying, before_retry, || Self::open(&url, space, config.clone())).await?;
        Ok(patience.into_iter().fold(backend, Self::with_patience))
    }

    /// Connects to the engine that a URL names. The URL can contain only parameters of that engine.
    #[cfg_attr(
        not(any(feature = "nats", feature = "postgres", feature = "redis")),
        expect(clippy::unused_async, reason = "without an engine there is nothing to connect to")
    )]
    async fn open(url: &str, space: &str, config: QueueConfig) -> Result<Self> {
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

#[cfg(all(test, feature = "nats", feature = "postgres", feature = "redis", feature = "tls"))]
mod tests {
    use std::fs;

    use crate::{
        backend::Backend, error::Result, nats::NatsConfig, postgres::PostgresConfig, queue::QueueConfig,
        redis::RedisConfig,
    };

    /// Checks a URL in the way in which `connect` checks the URL before the first connection.
    fn check(url: &str) -> Result<()> {
        if url.starts_with("postgres:") {
            let config = PostgresConfig::new(url).with_parameters()?;
            config.check()?;
            config.options()?;
            config.listen_options()?;
        } else if url.starts_with("rediss:") {
            let config = RedisConfig::new(url).with_parameters()?;
            config.check()?;
            config.servers()?;
        } else {
            let config = NatsConfig::new(url).with_parameters()?;
            config.servers()?;
            config.tls()?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn patience_is_read_before_the_connection_is_opened() {
        let error =
            Backend::connect("nats://h?patience=soon", "s", QueueConfig::default()).await.unwrap_err();
        assert!(error.to_string().contains("`patience`"), "{error}");
        let error = Backend::connect("redis://h:1?patience=90&pace=1", "s", QueueConfig::default())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("`pace`"), "{error}");
    }

    #[test]
    fn urls_of_managed_backends_in_the_guide_are_valid() {
        let guides = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides");
        let page = format!("{guides}/managed-backends.md");
        let recipes = fs::read_to_string(&page).unwrap();
        let reference = fs::read_to_string(format!("{guides}/backends.md")).unwrap();
        let schemes = ["postgres://", "rediss://", "tls://"];
        let is_url = |text: &&str| schemes.iter().any(|it| text.starts_with(it) && text.len() > it.len());
        let urls: Vec<&str> = recipes.split('`').filter(is_url).collect();
        assert!(urls.len() > 10, "{urls:?}");
        for url in urls {
            // The driver of PostgreSQL ignores unknown parameters.
            let query = url.split_once('?').map_or("", |(_, query)| query);
            for name in query.split('&').filter_map(|pair| pair.split('=').next()).filter(|it| !it.is_empty())
            {
                assert!(reference.contains(&format!("`{name}`")), "`{name}` is not documented: {url}");
            }
            // This test accepts any existing file as the credentials file, because only `connect` parses the
            // credentials.
            let url = url.replace("/run/secrets/onboarding/antiphon.creds", &page);
            check(&url).unwrap_or_else(|error| panic!("{url}: {error}"));
        }
    }
}
