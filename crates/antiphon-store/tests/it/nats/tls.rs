//! TLS, with an authority of our own.

use antiphon_store::{
    Error, Store as _,
    nats::{Nats, NatsConfig},
};
use bytes::Bytes;

use super::server::Server;
use crate::certificates::{Certificates, text};

#[tokio::test]
async fn connection_is_encrypted_and_the_authority_is_checked() {
    let certificates = Certificates::make();
    let (certificate, key) = (text(&certificates.server()), text(&certificates.server_key()));
    let Some(server) = Server::start(&["--tls", "--tlscert", &certificate, "--tlskey", &key]) else { return };
    let url = format!("tls://localhost:{}", server.port());
    let config = |authority| NatsConfig::new(&url).with_authority(std::fs::read(authority).unwrap());
    let nats = Nats::connect(config(certificates.authority())).await.unwrap();
    nats.store().create("key", Bytes::new(), None).await.unwrap();

    for wrong in [config(certificates.stranger()), NatsConfig::new(&url)] {
        let refused = Nats::connect(wrong).await;
        assert!(
            matches!(&refused, Err(Error::Config { problem }) if problem.contains("TLS with NATS")),
            "{refused:?}"
        );
    }
    let empty = Nats::connect(NatsConfig::new(&url).with_authority("no certificate")).await;
    assert!(matches!(&empty, Err(Error::Config { .. })), "{empty:?}");
}
