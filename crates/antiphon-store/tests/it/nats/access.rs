//! Who may connect, and to what.

use std::time::{Duration, Instant};

use antiphon_store::{
    Error, Store as _,
    nats::{Nats, NatsConfig},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
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

/// A server in the place of another could else ask for the password in clear, just by not asking for TLS.
#[tokio::test]
async fn password_is_not_sent_in_clear_where_one_url_says_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let said = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let info = r#"INFO {"server_id":"x","version":"2.11.0","max_payload":1048576,"tls_required":false}"#;
        stream.write_all(format!("{info}\r\n").as_bytes()).await.unwrap();
        let mut said = vec![0; 4096];
        let read = stream.read(&mut said).await.unwrap();
        said.truncate(read);
        said
    });
    let config = NatsConfig::new(format!("tls://user:hush@127.0.0.1:1,nats://127.0.0.1:{port}"))
        .with_connect_timeout(Duration::from_secs(5));
    let refused = Nats::connect(config).await;
    assert!(refused.is_err(), "{refused:?}");
    let said = said.await.unwrap();
    assert_eq!(
        said.first(),
        Some(&0x16),
        "a handshake was expected, not {:?}",
        String::from_utf8_lossy(&said)
    );
}
