//! TLS, with an authority of our own.

use antiphon_store::{
    Error, Store as _,
    redis::{Redis, RedisConfig},
};
use bytes::Bytes;

use super::server::Server;
use crate::certificates::Certificates;

#[tokio::test]
async fn connection_is_encrypted_and_the_authority_is_checked() {
    let certificates = Certificates::make();
    let server = Server::start_tls(&certificates).await;
    let url = format!("rediss://localhost:{}", server.port());
    let config = |authority| RedisConfig::new(&url).with_authority(std::fs::read(authority).unwrap());
    let redis = Redis::connect(config(certificates.authority())).await.unwrap();
    redis.store().create("key", Bytes::new(), None).await.unwrap();

    let refused = Redis::connect(config(certificates.stranger())).await;
    assert!(
        matches!(&refused, Err(Error::Config { problem }) if problem.contains("TLS with Redis")),
        "{refused:?}"
    );
    let cluster = Redis::connect(config(certificates.stranger()).with_cluster(true)).await;
    assert!(cluster.is_err(), "{cluster:?}");
}
