//! A server that starts before its backend waits for the backend. A server whose settings cannot work does not wait.

use std::time::Duration;

use antiphon_store::{Backend, Error, QueueConfig, conformance::service};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

use crate::free_port;

/// Forwards connections on `port` to `target`, from half a second from now. The first connection is closed at once.
fn forward_later(port: u16, target: String) {
    tokio::spawn(async move {
        sleep(Duration::from_millis(500)).await;
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
        drop(listener.accept().await.expect("a connection"));
        loop {
            let (mut near, _) = listener.accept().await.expect("a connection");
            let target = target.clone();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(target).await.expect("the backend accepts connections");
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
}

/// Splits a URL into the text before the address, the address, and the text after the address.
fn split(url: &str) -> (String, String, String) {
    let start = url.find('@').or_else(|| url.find("//").map(|at| at + 1)).expect("a URL") + 1;
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    (url[..start].to_owned(), url[start..end].to_owned(), url[end..].to_owned())
}

async fn backend_that_starts_later(variable: &str) {
    let Some(url) = service(variable) else { return };
    let (before, target, after) = split(&url);
    let port = free_port();
    let url = format!("{before}127.0.0.1:{port}{after}");
    let once = format!("{url}{}patience=0", if after.contains('?') { "&" } else { "?" });
    let space = crate::unique("later");

    let refused = Backend::connect(&once, &space, QueueConfig::default()).await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    forward_later(port, target);
    let start = Instant::now();
    let backend = Backend::connect(&url, &space, QueueConfig::default()).await.expect("a connection");
    assert!(start.elapsed() > Duration::from_millis(400), "{:?}", start.elapsed());
    backend.queue.ping().await.expect("the backend answers");
}

#[tokio::test]
async fn postgres_that_starts_later_is_used() {
    backend_that_starts_later("ANTIPHON_TEST_POSTGRES_URL").await;
}

#[tokio::test]
async fn redis_that_starts_later_is_used() {
    backend_that_starts_later("ANTIPHON_TEST_REDIS_URL").await;
}

#[tokio::test]
async fn nats_that_starts_later_is_used() {
    backend_that_starts_later("ANTIPHON_TEST_NATS_URL").await;
}

/// Connects with settings that cannot work, and checks that `connect` does not try again.
async fn is_refused_at_once(url: &str, part: &str) {
    let start = Instant::now();
    let refused = Backend::connect(url, "refused", QueueConfig::default()).await;
    let Err(Error::Config { problem }) = &refused else { panic!("{refused:?}") };
    assert!(problem.contains(part), "{problem}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test]
async fn wrong_password_is_reported_at_once() {
    let Some(url) = service("ANTIPHON_TEST_POSTGRES_URL") else { return };
    let (_, address, after) = split(&url);
    let url = format!("postgres://nobody-with-this-name:wrong@{address}{after}");
    is_refused_at_once(&url, "PostgreSQL refuses the connection").await;
}

#[tokio::test]
async fn user_who_must_not_create_tables_is_reported_at_once() {
    let Some(url) = service("ANTIPHON_TEST_POSTGRES_URL") else { return };
    let role = crate::unique("reader");
    let admin = sqlx::PgPool::connect(&url).await.unwrap();
    let create = format!("create role {role} login password 'secret'");
    sqlx::query(sqlx::AssertSqlSafe(create)).execute(&admin).await.unwrap();
    let (_, address, after) = split(&url);
    let separator = if after.contains('?') { '&' } else { '?' };
    let url = format!("postgres://{role}:secret@{address}{after}{separator}schema={role}");
    is_refused_at_once(&url, "the tables in PostgreSQL cannot be created").await;
    sqlx::query(sqlx::AssertSqlSafe(format!("drop role {role}"))).execute(&admin).await.unwrap();
}

#[tokio::test]
async fn replicas_on_a_single_nats_server_are_reported_at_once() {
    let Some(url) = service("ANTIPHON_TEST_NATS_URL") else { return };
    let separator = if url.contains('?') { '&' } else { '?' };
    let prefix = crate::unique("replicas");
    let url = format!("{url}{separator}replicas=3&prefix={prefix}");
    is_refused_at_once(&url, "replicas").await;
}
