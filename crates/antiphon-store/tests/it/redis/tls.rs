//! TLS, with an authority of our own.

use antiphon_store::{
    Error, Store as _,
    redis::{Redis, RedisConfig},
};
use bytes::Bytes;

use super::server::Server;
use crate::certificates::{CASES, Certificates, text};

#[tokio::test]
async fn certificates_of_both_sides_are_checked() {
    let certificates = Certificates::make();
    for case in CASES {
        let server = Server::start_tls(&certificates, case.server).await;
        let url = format!("rediss://localhost:{}", server.port());
        for cluster in [false, true] {
            let mut config =
                RedisConfig::new(&url).with_authority(certificates.pem(case.authority)).with_cluster(cluster);
            if let Some(client) = case.client {
                config = config.with_client_certificate(certificates.pem(client), certificates.key(client));
            }
            let connected = Redis::connect(config).await;
            match case.problem {
                // The server is not a cluster.
                None if cluster => assert!(connected.is_err()),
                None => drop(connected.unwrap().store().create("key", Bytes::new(), None).await.unwrap()),
                Some(word) => assert!(
                    matches!(&connected, Err(Error::Config { problem })
                        if problem.contains("TLS with Redis") && problem.contains(word)),
                    "{}: {connected:?}",
                    case.name
                ),
            }
        }
    }
}

#[tokio::test]
async fn url_names_the_files_of_certificates() {
    let certificates = Certificates::make();
    let server = Server::start_tls(&certificates, "server").await;
    let url = format!(
        "rediss://localhost:{}?sslrootcert={}&sslcert={}&sslkey={}",
        server.port(),
        text(&certificates.path("authority")),
        text(&certificates.path("client")),
        text(&certificates.key_path("client"))
    );
    Redis::connect(RedisConfig::new(url)).await.unwrap();
}
