//! The laws, kept by Redis, alone and in a cluster, and what is Redis's alone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod away;
mod layout;
mod nodes;
mod sentinel;
mod server;
#[cfg(feature = "tls")]
mod tls;
mod waiting;

use antiphon_store::{
    Backend, QueueConfig,
    conformance::service,
    redis::{Redis, RedisConfig},
};

/// The test server, in a space of one's own.
pub(crate) async fn open(space: &str) -> Option<Redis> {
    let url = service("ANTIPHON_TEST_REDIS_URL")?;
    Some(Redis::connect(RedisConfig::new(url).with_space(space)).await.unwrap())
}

async fn backend(space: String, config: QueueConfig) -> Option<Backend> {
    Some(open(&space).await?.backend(config))
}

antiphon_store::backend_laws!(backend);

/// The same laws where a script that touches two slots is refused.
mod cluster {
    use super::{Backend, QueueConfig, Redis, RedisConfig, server::Server};
    use tokio::sync::OnceCell;

    static SERVER: OnceCell<Server> = OnceCell::const_new();

    async fn backend(space: String, config: QueueConfig) -> Option<Backend> {
        let url = match std::env::var("ANTIPHON_TEST_REDIS_CLUSTER_URL") {
            Ok(url) => url,
            Err(_) => SERVER.get_or_init(Server::start_cluster).await.url(),
        };
        let settings = RedisConfig::new(url).with_cluster(true).with_space(space);
        Some(Redis::connect(settings).await.unwrap().backend(config))
    }

    antiphon_store::backend_laws!(backend);
}
