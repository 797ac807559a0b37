//! The replicas' scenarios, over real services: those that `cargo xtask services up` starts.

use antiphon_store::{QueueConfig, nats, postgres, redis};

use crate::replicas::{Opener, scenarios};

/// Where a service is. Without one there is nothing to test, except in CI, where that is a failure.
#[expect(clippy::print_stdout, reason = "who runs the tests should know what they do not test")]
fn service(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    assert!(url.is_some() || std::env::var_os("CI").is_none(), "set {variable}: `cargo xtask services up`");
    if url.is_none() {
        println!("skipped: {variable} is not set");
    }
    url
}

/// A part of a service that no other test has.
fn space() -> String {
    use std::time::{SystemTime, UNIX_EPOCH};
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    format!("replicas-{}-{now}", std::process::id())
}

mod over_redis {
    use super::*;

    async fn open() -> Option<Opener> {
        let config = redis::RedisConfig::new(service("ANTIPHON_TEST_REDIS_URL")?).with_space(space());
        Some(Opener::new(move || {
            let config = config.clone();
            async move { redis::Redis::connect(config).await.unwrap().backend(QueueConfig::default()) }
        }))
    }

    scenarios!(open());
}

mod over_postgres {
    use super::*;

    async fn open() -> Option<Opener> {
        let url = service("ANTIPHON_TEST_POSTGRES_URL")?;
        let config = postgres::PostgresConfig::new(url).with_space(space()).with_max_connections(8);
        Some(Opener::new(move || {
            let config = config.clone();
            async move { postgres::Postgres::connect(config).await.unwrap().backend(QueueConfig::default()) }
        }))
    }

    scenarios!(open());
}

mod over_nats {
    use super::*;

    async fn open() -> Option<Opener> {
        let config = nats::NatsConfig::new(service("ANTIPHON_TEST_NATS_URL")?).with_space(space());
        Some(Opener::new(move || {
            let config = config.clone();
            async move { nats::Nats::connect(config).await.unwrap().backend(QueueConfig::default()) }
        }))
    }

    scenarios!(open());
}
