//! Who may connect, and to what.

use std::time::{Duration, Instant};

use antiphon_store::{
    Error, Store as _,
    nats::{Nats, NatsConfig},
};

use super::server::Server;

const SMALL_MESSAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/nats/small-messages.conf");

#[tokio::test]
async fn credentials_in_the_url_are_used_and_not_shown() {
    let Some(server) = Server::start(&["--user", "us@er", "--pass", "hush:hush"]) else { return };
    let config = NatsConfig::new(format!("nats://us%40er:hush%3Ahush@127.0.0.1:{}", server.port()));
    let nats = Nats::connect(config).await.unwrap();
    let shown = format!("{nats:?} {:?} {:?}", nats.store(), nats.bus());
    assert!(!shown.contains("hush"), "{shown}");
    nats.store().create("key", "value".into(), None).await.unwrap();

    let wrong =
        Nats::connect(NatsConfig::new(format!("nats://us%40er:wrong@127.0.0.1:{}", server.port()))).await;
    assert!(matches!(wrong, Err(Error::Config { .. })), "{wrong:?}");
}

#[tokio::test]
async fn token_in_the_url_is_used() {
    let Some(server) = Server::start(&["--auth", "hush"]) else { return };
    Nats::connect(NatsConfig::new(format!("nats://hush@127.0.0.1:{}", server.port()))).await.unwrap();
}

#[tokio::test]
async fn absent_server_is_told_in_time() {
    let config = NatsConfig::new("nats://127.0.0.1:1").with_connect_timeout(Duration::from_millis(500));
    let began = Instant::now();
    let refused = Nats::connect(config).await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn replicas_are_refused_where_two_writers_could_win() {
    let Some(server) = Server::start(&[]) else { return };
    let refused = Nats::connect(NatsConfig::new(server.url()).with_replicas(3)).await;
    assert!(refused.is_err(), "this server is alone, and may be too old");
}

#[tokio::test]
async fn server_that_takes_only_small_messages_is_refused() {
    let Some(server) = Server::start(&["-c", SMALL_MESSAGES]) else { return };
    let refused = Nats::connect(NatsConfig::new(server.url())).await;
    assert!(
        matches!(&refused, Err(Error::Config { problem }) if problem.contains("max_payload")),
        "{refused:?}"
    );
}
