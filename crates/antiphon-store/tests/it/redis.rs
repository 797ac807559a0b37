//! The laws, kept by Redis, alone and in a cluster, and what is Redis's alone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod away;
mod layout;
mod nodes;
mod server;
mod waiting;

use std::sync::Arc;

use antiphon_store::{
    Bus, Queue, QueueConfig, Store,
    conformance::service,
    redis::{Redis, RedisConfig},
};

/// The test server, in a space of one's own.
pub(crate) async fn open(space: &str) -> Option<Redis> {
    let url = service("ANTIPHON_TEST_REDIS_URL")?;
    Some(Redis::connect(RedisConfig::new(url).with_space(space)).await.unwrap())
}

/// A name that nobody else has.
fn unique(name: &str) -> String {
    let mut random = [0; 8];
    getrandom::fill(&mut random).unwrap();
    format!("{name}-{:016x}", u64::from_ne_bytes(random))
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

/// The same laws where a script that touches two slots is refused.
mod cluster {
    use super::{Arc, Bus, Queue, QueueConfig, Redis, RedisConfig, Store, server::Server};
    use tokio::sync::OnceCell;

    static SERVER: OnceCell<Server> = OnceCell::const_new();

    async fn open(space: String) -> Redis {
        let url = match std::env::var("ANTIPHON_TEST_REDIS_CLUSTER_URL") {
            Ok(url) => url,
            Err(_) => SERVER.get_or_init(Server::start_cluster).await.url(),
        };
        Redis::connect(RedisConfig::new(url).with_cluster(true).with_space(space)).await.unwrap()
    }

    async fn store(space: String) -> Option<Arc<dyn Store>> {
        Some(Arc::new(open(space).await.store()))
    }

    async fn queue(space: String, config: QueueConfig) -> Option<Arc<dyn Queue>> {
        Some(Arc::new(open(space).await.queue(config)))
    }

    async fn bus(space: String) -> Option<Arc<dyn Bus>> {
        Some(Arc::new(open(space).await.bus()))
    }

    antiphon_store::store_laws!(store);
    antiphon_store::queue_laws!(queue);
    antiphon_store::bus_laws!(bus);
}
