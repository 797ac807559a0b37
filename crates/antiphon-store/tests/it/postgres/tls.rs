//! TLS, with an authority of our own.

use antiphon_store::{
    Error, Store as _,
    postgres::{Postgres, PostgresConfig},
};
use bytes::Bytes;
use sqlx::{Connection, PgConnection};

use super::server::Server;
use crate::certificates::{CASES, Certificates, text};

#[tokio::test]
async fn certificates_of_both_sides_are_checked() {
    let certificates = Certificates::make();
    let Some(mut server) = Server::start() else { return };
    for case in CASES {
        server.use_tls(&certificates, case.server);
        let mut url = format!(
            "{}?sslmode=verify-full&sslrootcert={}",
            server.url("owner"),
            text(&certificates.path(case.authority))
        );
        if let Some(client) = case.client {
            let (pem, key) = (text(&certificates.path(client)), text(&certificates.key_path(client)));
            url = format!("{url}&sslcert={pem}&sslkey={key}");
        }
        let connected = Postgres::connect(PostgresConfig::new(&url)).await;
        let Some(word) = case.problem else {
            let store = connected.unwrap().store();
            store.create("key", Bytes::new(), None).await.unwrap();
            let mut connection = PgConnection::connect(&url).await.unwrap();
            let encrypted: Vec<bool> = sqlx::query_scalar(
                "select ssl from pg_stat_ssl join pg_stat_activity using (pid)
                 where application_name = 'antiphon'",
            )
            .fetch_all(&mut connection)
            .await
            .unwrap();
            assert!(!encrypted.is_empty() && encrypted.iter().all(|encrypted| *encrypted), "{encrypted:?}");
            drop(store);
            continue;
        };
        assert!(
            matches!(&connected, Err(Error::Config { problem })
                if problem.contains("PostgreSQL") && problem.contains(word)),
            "{}: {connected:?}",
            case.name
        );
    }
}
