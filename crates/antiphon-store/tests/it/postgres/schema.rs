//! Migrations, rights and what is shown of the configuration.

use antiphon_store::{
    Error, Store,
    conformance::service,
    postgres::{Postgres, PostgresConfig},
};
use bytes::Bytes;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::{URL, server::Server};
use crate::unique;

#[tokio::test]
async fn ten_replicas_that_start_at_once_migrate_once() {
    let Some(url) = service(URL) else { return };
    let schema = unique("ten");
    let config = PostgresConfig::new(&url).with_schema(&schema).with_max_connections(2);
    let replicas = futures_util::future::join_all((0..10).map(|_| Postgres::connect(config.clone()))).await;
    for (number, replica) in replicas.into_iter().enumerate() {
        replica.unwrap().store().create(&format!("{number}"), Bytes::new(), None).await.unwrap();
    }
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let sql = format!("select count(*) from {schema}.migrations");
    let count: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap();
    assert_eq!(count, 2, "each file once");
    connection.execute(AssertSqlSafe(format!("drop schema {schema} cascade"))).await.unwrap();
}

#[tokio::test]
async fn owner_of_the_schema_needs_no_other_right() {
    let Some(server) = Server::start() else { return };
    let mut connection = PgConnection::connect(&server.url("owner")).await.unwrap();
    connection.execute("create role plain login; create schema antiphon authorization plain").await.unwrap();
    let config = PostgresConfig::new(server.url("plain"));

    let early = Postgres::connect(config.clone().with_migrate(false)).await.unwrap_err();
    assert!(matches!(early, Error::Config { .. }), "{early:?}");
    Postgres::migrate(&config).await.unwrap();
    let late = Postgres::connect(config.clone().with_migrate(false)).await.unwrap();
    late.store().create("key", Bytes::new(), None).await.unwrap();

    let elsewhere = Postgres::connect(config.with_schema("elsewhere")).await.unwrap_err();
    assert!(matches!(elsewhere, Error::Config { .. }), "{elsewhere:?}");
}

#[tokio::test]
async fn what_cannot_work_is_refused_at_once() {
    for config in [
        PostgresConfig::new("mysql://localhost"),
        PostgresConfig::new("postgres://localhost:port"),
        PostgresConfig::new("postgres://localhost").with_schema("a\"b"),
        PostgresConfig::new("postgres://localhost").with_schema("pg_own"),
        PostgresConfig::new("postgres://localhost").with_max_connections(0),
        PostgresConfig::new("postgres://localhost").with_listen_url("nowhere"),
    ] {
        let error = Postgres::connect(config).await.unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error:?}");
    }
    let error = Postgres::connect(PostgresConfig::new("postgres://localhost").with_space("a/b")).await;
    assert!(matches!(error, Err(Error::BadName { .. })), "{error:?}");
}

#[tokio::test]
async fn credentials_are_not_shown() {
    let secret = "postgres://somebody:hidden@127.0.0.1:1/database?sslkey=hidden";
    let config = PostgresConfig::new(secret).with_listen_url(secret);
    let shown = format!("{config:?}");
    assert!(shown.contains("127.0.0.1:1/database"), "{shown}");
    assert!(!shown.contains("hidden") && !shown.contains("somebody"), "{shown}");
    let shown = format!("{:?}", PostgresConfig::new("postgres://somebody:hidden@host:port/database"));
    assert!(!shown.contains("hidden"), "{shown}");

    let Some(server) = Server::start() else { return };
    let url = server.url("owner:hidden");
    let postgres = Postgres::connect(PostgresConfig::new(url)).await.unwrap();
    let shown = format!(
        "{postgres:?} {:?} {:?} {:?}",
        postgres.store(),
        postgres.bus(),
        postgres.backend(antiphon_store::QueueConfig::default())
    );
    assert!(!shown.contains("hidden"), "{shown}");
}
