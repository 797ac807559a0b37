//! TLS, with an authority of our own, and other ways to log in.

use antiphon_store::{
    Error, Store as _,
    nats::{Nats, NatsConfig},
};
use bytes::Bytes;

use super::server::Server;
use crate::certificates::{CASES, Certificates, text};

fn start(certificates: &Certificates, certificate: &str) -> Option<Server> {
    let (key, pem) = (text(&certificates.key_path(certificate)), text(&certificates.path(certificate)));
    let authority = text(&certificates.path("authority"));
    Server::start(&["--tlsverify", "--tlscert", &pem, "--tlskey", &key, "--tlscacert", &authority])
}

#[tokio::test]
async fn certificates_of_both_sides_are_checked() {
    let certificates = Certificates::make();
    for case in CASES {
        let Some(server) = start(&certificates, case.server) else { return };
        let url = format!("tls://localhost:{}", server.port());
        let mut config = NatsConfig::new(&url).with_authority(certificates.pem(case.authority));
        if let Some(client) = case.client {
            config = config.with_client_certificate(certificates.pem(client), certificates.key(client));
        }
        let connected = Nats::connect(config).await;
        match case.problem {
            None => drop(connected.unwrap().store().create("key", Bytes::new(), None).await.unwrap()),
            Some(word) => assert!(
                matches!(&connected, Err(Error::Config { problem })
                    if problem.contains("TLS with NATS") && problem.contains(word)),
                "{}: {connected:?}",
                case.name
            ),
        }
    }
}

#[tokio::test]
async fn url_names_the_files_of_certificates() {
    let certificates = Certificates::make();
    let Some(server) = start(&certificates, "server") else { return };
    let url = |key: &str| {
        format!(
            "tls://localhost:{}?sslrootcert={}&sslcert={}&sslkey={}",
            server.port(),
            text(&certificates.path("authority")),
            text(&certificates.path("client")),
            text(&certificates.key_path(key))
        )
    };
    Nats::connect(NatsConfig::new(url("client"))).await.unwrap();
    let mixed = Nats::connect(NatsConfig::new(url("foreign"))).await;
    assert!(matches!(&mixed, Err(Error::Config { .. })), "{mixed:?}");
}

#[tokio::test]
async fn system_authorities_are_the_default() {
    let certificates = Certificates::make();
    let Some(server) = start(&certificates, "server") else { return };
    let config = NatsConfig::new(format!("tls://localhost:{}", server.port()));
    let with_client =
        config.clone().with_client_certificate(certificates.pem("client"), certificates.key("client"));
    for config in [config, with_client] {
        let refused = Nats::connect(config).await;
        assert!(
            matches!(&refused, Err(Error::Config { problem }) if problem.contains("TLS with NATS")),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn values_that_are_not_pem_are_rejected() {
    let config = NatsConfig::new("tls://localhost:1");
    for config in [
        config.clone().with_authority("no certificate"),
        config.clone().with_client_certificate("no certificate", "no key"),
        config.with_credentials("no credentials"),
    ] {
        let refused = Nats::connect(config).await;
        assert!(matches!(&refused, Err(Error::Config { .. })), "{refused:?}");
    }
}

/// The seed and the public key of the example in the documentation of NATS.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

#[tokio::test]
async fn nkey_logs_in() {
    let folder = std::env::temp_dir().join(crate::unique("antiphon-nkey"));
    std::fs::create_dir(&folder).unwrap();
    let (settings, seed) = (folder.join("nats.conf"), folder.join("seed"));
    std::fs::write(&settings, format!("authorization {{ users: [ {{ nkey: {PUBLIC} }} ] }}")).unwrap();
    std::fs::write(&seed, format!("{SEED}\n")).unwrap();
    let Some(server) = Server::start(&["-c", &text(&settings)]) else { return };
    let url = server.url();
    Nats::connect(NatsConfig::new(format!("{url}?nkey={}", text(&seed)))).await.unwrap();
    let refused = Nats::connect(NatsConfig::new(url)).await;
    assert!(matches!(&refused, Err(Error::Config { .. })), "{refused:?}");
    std::fs::remove_dir_all(folder).unwrap();
}
