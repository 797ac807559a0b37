//! What happens while the server is away or slow, and when it is back.

use std::time::{Duration, Instant};

use antiphon_store::{
    Bus, Error, Event, NewJob, Queue, QueueConfig, Store,
    conformance::service,
    postgres::{Postgres, PostgresConfig},
};
use bytes::Bytes;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::timeout;

use super::{URL, server::Server};
use crate::unique;

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);

/// Publishes until the subscription hears it, for a replica cannot know when another one listens again.
async fn hears_again(bus: &dyn Bus, subscription: &mut antiphon_store::Subscription) {
    let mut heard_gap = false;
    timeout(LONG, async {
        loop {
            bus.publish("topic", Bytes::from_static(b"after")).await.ok();
            match timeout(SHORT, subscription.next()).await {
                Ok(Some(Event::Gap)) => heard_gap = true,
                Ok(Some(Event::Message(event))) if event == "after" => return,
                Ok(other) => panic!("{other:?}"),
                Err(_) => {}
            }
        }
    })
    .await
    .expect("it hears again");
    assert!(heard_gap);
}

#[tokio::test]
async fn after_a_restart_the_same_handle_works() {
    let Some(server) = Server::start() else { return };
    let postgres = Postgres::connect(server.config()).await.unwrap();
    let store = postgres.store();
    let first = store.create("before", Bytes::from_static(b"kept"), None).await.unwrap();

    server.down();
    server.up();

    // Nothing was under way, so nothing need fail: connections of before are tried before they are used.
    let mut subscription = postgres.bus().subscribe("topic").await.unwrap();
    let record = timeout(LONG, async {
        loop {
            match store.get("before").await {
                Ok(record) => return record.unwrap(),
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        }
    })
    .await
    .unwrap();
    assert_eq!((&*record.value, record.revision), (&b"kept"[..], first));
    let second = store.update("before", Bytes::new(), None, first).await.unwrap();
    assert_ne!(first, second);
    postgres.bus().publish("topic", Bytes::new()).await.unwrap();
    assert_eq!(subscription.next().await, Some(Event::Message(Bytes::new())));
}

#[tokio::test]
async fn subscription_gets_a_gap_and_goes_on_after_a_restart() {
    let Some(server) = Server::start() else { return };
    let postgres = Postgres::connect(server.config()).await.unwrap();
    let bus = postgres.bus();
    let mut subscription = bus.subscribe("topic").await.unwrap();
    bus.publish("topic", Bytes::from_static(b"before")).await.unwrap();
    assert_eq!(subscription.next().await, Some(Event::Message(Bytes::from_static(b"before"))));

    server.down();
    server.up();
    hears_again(&bus, &mut subscription).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_waits_through_a_restart() {
    let Some(server) = Server::start() else { return };
    // Nobody polls: only what listens can tell that the server is back.
    let url = format!("{}?application_name=worker", server.url("owner"));
    let worker = Postgres::connect(PostgresConfig::new(url).with_poll(LONG)).await.unwrap();
    let worker = worker.queue(QueueConfig::default());
    let waiting = tokio::spawn(async move {
        let mut failures = 0;
        loop {
            match worker.lease("jobs", 1, LONG).await {
                Ok(jobs) => return (jobs, failures),
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
            failures += 1;
        }
    });
    let mut connection = PgConnection::connect(&server.url("owner")).await.unwrap();
    let waits = "select exists (
        select from pg_stat_activity as looking, pg_stat_activity as listening
        where looking.application_name = 'worker' and looking.query like '%min(due_at)%'
            and listening.application_name = 'worker' and listening.query like 'LISTEN%'
            and looking.query_start > listening.query_start)";
    let waits = async || -> bool { sqlx::query_scalar(waits).fetch_one(&mut connection).await.unwrap() };
    timeout(LONG, eventually(waits)).await.unwrap();

    let server = tokio::task::spawn_blocking(move || {
        server.down();
        server.up();
        server
    });
    let server = server.await.unwrap();
    let elsewhere = Postgres::connect(server.config()).await.unwrap().queue(QueueConfig::default());
    elsewhere.push("jobs", NewJob::new("after", "")).await.unwrap();
    let (jobs, failures) = timeout(LONG, waiting).await.unwrap().unwrap();
    assert_eq!(jobs[0].id(), "after");
    // One, if the server went down just while it looked.
    assert!(failures <= 1, "{failures}");
}

async fn eventually(mut happened: impl AsyncFnMut() -> bool) {
    while !happened().await {}
}

#[tokio::test]
async fn without_a_server_operations_end_in_time_and_did_nothing() {
    let Some(server) = Server::start() else { return };
    let config = server.config().with_connect_timeout(SHORT).with_operation_timeout(SHORT);
    let postgres = Postgres::connect(config.clone()).await.unwrap();
    let mut subscription = postgres.bus().subscribe("topic").await.unwrap();
    server.down();
    // The subscription's connection was the first to notice: all others are tried before they are used.
    let (store, queue, bus) = (postgres.store(), postgres.queue(QueueConfig::default()), postgres.bus());
    let begun = Instant::now();
    let results = tokio::join!(
        store.create("key", Bytes::new(), None),
        bus.publish("topic", Bytes::new()),
        bus.subscribe("other"),
        queue.lease("jobs", 1, SHORT),
        Postgres::connect(config),
    );
    assert!(begun.elapsed() < 8 * SHORT, "{:?}", begun.elapsed());
    assert!(results.0.is_err_and(|error| error.is_transient()));
    assert!(results.1.is_err_and(|error| error.is_transient()));
    assert!(matches!(results.2, Err(Error::Busy { .. })));
    assert!(results.3.is_err_and(|error| error.is_transient()));
    assert!(matches!(results.4, Err(Error::Busy { .. })), "{:?}", results.4);

    server.up();
    hears_again(&bus, &mut subscription).await;
    assert_eq!(store.get("key").await.unwrap(), None);
}

#[tokio::test]
async fn operation_that_does_not_end_is_uncertain_and_a_full_pool_is_busy() {
    let Some(url) = service(URL) else { return };
    let schema = unique("slow");
    // The server does not end it either: what a URL sets stays.
    let separator = if url.contains('?') { '&' } else { '?' };
    let patient = format!("{url}{separator}options=-c%20statement_timeout%3D1h%20-c%20lock_timeout%3D1h");
    let config = PostgresConfig::new(&patient).with_schema(&schema).with_max_connections(1);
    let config = config.with_connect_timeout(SHORT).with_operation_timeout(4 * SHORT);
    let postgres = Postgres::connect(config).await.unwrap();
    let store = postgres.store();

    let mut other = PgConnection::connect(&url).await.unwrap();
    other.execute(AssertSqlSafe(format!("begin; lock table {schema}.records"))).await.unwrap();
    let (slow, refused) = tokio::join!(biased;
        store.create("slow", Bytes::new(), None),
        store.create("refused", Bytes::new(), None),
    );
    assert!(matches!(slow, Err(Error::Backend { .. })), "{slow:?}");
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");

    other.execute(AssertSqlSafe("commit".to_owned())).await.unwrap();
    // The server ends the cancelled statement a moment later, and the pool has one connection.
    let record = timeout(LONG, async {
        loop {
            match store.get("refused").await {
                Ok(record) => return record,
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        }
    });
    assert_eq!(record.await.unwrap(), None);
    other.execute(AssertSqlSafe(format!("drop schema {schema} cascade"))).await.unwrap();
}
