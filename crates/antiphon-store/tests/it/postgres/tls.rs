//! TLS, with an authority of our own.

use antiphon_store::{
    Error, Store as _,
    postgres::{Postgres, PostgresConfig},
};
use bytes::Bytes;
use sqlx::{Connection, PgConnection};

use super::server::Server;
use crate::certificates::{Certificates, text};

#[tokio::test]
async fn connection_is_encrypted_and_the_authority_is_checked() {
    let certificates = Certificates::make();
    let Some(server) = Server::start_tls(&certificates) else { return };
    let url = |mode: &str, authority: String| {
        format!("{}?sslmode={mode}&sslrootcert={authority}", server.url("owner"))
    };
    let good = url("verify-full", text(&certificates.authority()));
    let store = Postgres::connect(PostgresConfig::new(good)).await.unwrap().store();
    store.create("key", Bytes::new(), None).await.unwrap();

    let mut connection = PgConnection::connect(&server.url("owner")).await.unwrap();
    let encrypted: Vec<bool> = sqlx::query_scalar(
        "select ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'antiphon'",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert!(!encrypted.is_empty() && encrypted.iter().all(|encrypted| *encrypted), "{encrypted:?}");

    let bad = url("verify-full", text(&certificates.stranger()));
    let refused = Postgres::connect(PostgresConfig::new(bad)).await;
    assert!(
        matches!(&refused, Err(Error::Config { problem }) if problem.contains("TLS with PostgreSQL")),
        "{refused:?}"
    );
}
