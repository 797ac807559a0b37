//! The replicas' scenarios, over real services: those that `cargo xtask services up` starts.

use antiphon_store::{QueueConfig, conformance::service, nats, postgres, redis};

use crate::replicas::{Opener, scenarios};

/// A part of a service that no other test has.
fn space() -> String {
    use std::time::{SystemTime, UNIX_EPOCH};
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    format!("replicas-{}-{now}", std::process::id())
}

mod over_redis {
    use super::*;

    fn open() -> Option<Opener> {
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

    fn open() -> Option<Opener> {
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

    fn open() -> Option<Opener> {
        let config = nats::NatsConfig::new(service("ANTIPHON_TEST_NATS_URL")?).with_space(space());
        Some(Opener::new(move || {
            let config = config.clone();
            async move { nats::Nats::connect(config).await.unwrap().backend(QueueConfig::default()) }
        }))
    }

    scenarios!(open());
}
