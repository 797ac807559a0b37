//! What must not grow with the tables: counting, updating, removing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use antiphon_store::{
    Depth, EXACT_DEPTH, Error, NewJob, Queue, QueueConfig, Store,
    conformance::service,
    postgres::{Postgres, PostgresConfig},
};
use bytes::Bytes;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use super::URL;
use crate::unique;

/// A schema of a test's own, a handle on it and a connection beside it.
struct Schema {
    name: String,
    postgres: Postgres,
    connection: PgConnection,
}

impl Schema {
    async fn open(name: &str, config: impl FnOnce(String) -> PostgresConfig) -> Option<Self> {
        let url = service(URL)?;
        let name = unique(name);
        let config = config(url.clone()).with_schema(&name).with_max_connections(4);
        let postgres = Postgres::connect(config).await.unwrap();
        let mut connection = PgConnection::connect(&url).await.unwrap();
        connection.execute(AssertSqlSafe(format!("set search_path to {name}"))).await.unwrap();
        Some(Self { name, postgres, connection })
    }

    async fn run(&mut self, sql: &str) {
        self.connection.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
    }

    async fn number(&mut self, sql: &str) -> i64 {
        let row = self.connection.fetch_one(AssertSqlSafe(sql.to_owned())).await.unwrap();
        row.try_get(0).unwrap()
    }

    /// Waits until no statement of the test runs any more. The server reports an error before it becomes idle.
    async fn wait_until_idle(&mut self, running: &str) {
        let end = Instant::now() + Duration::from_secs(10);
        while self.number(running).await > 0 {
            assert!(Instant::now() < end, "a cancelled statement still runs");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn close(mut self) {
        let sql = format!("drop schema {} cascade", self.name);
        self.run(&sql).await;
    }
}

#[tokio::test]
async fn depth_of_a_long_queue_is_estimated_by_index() {
    let Some(mut schema) = Schema::open("depth", PostgresConfig::new).await else { return };
    schema
        .run(
            "insert into jobs (space, queue, id, payload, due_at)
            select 'antiphon', case when i <= 40000 then 'long' else 'short' end, 'job-' || i, '', now()
            from generate_series(1, 44000) as i",
        )
        .await;
    schema.run("analyze jobs").await;
    let queue = schema.postgres.queue(QueueConfig::default());
    let exact = Depth { waiting: EXACT_DEPTH, ..Depth::default() };
    assert_eq!(queue.depth("short").await.unwrap(), exact, "up to here it is counted");
    queue.push("short", NewJob::new("one-more", "")).await.unwrap();
    assert!(queue.depth("short").await.unwrap().estimated);
    let long = queue.depth("long").await.unwrap();
    assert!(long.estimated && (36_000..44_000).contains(&long.waiting), "{long:?}");

    schema.run("begin").await;
    schema.run("select from depth('antiphon', 'long', '30 s', 4000)").await;
    let whole = "select seq_scan from pg_stat_xact_user_tables where relname = 'jobs' and schemaname = current_schema()";
    assert_eq!(schema.number(whole).await, 0, "the table was read");
    let read = "select sum(idx_tup_read)::bigint from pg_stat_xact_all_indexes where relname = 'jobs' and schemaname = current_schema()";
    let read = match schema.connection.fetch_one(AssertSqlSafe(read.to_owned())).await {
        Ok(row) => row.try_get(0).unwrap_or(0),
        Err(_) => 0,
    };
    assert!(read <= 12_100, "{read} entries were read");
    schema.run("rollback").await;
    schema.close().await;
}

#[tokio::test]
async fn update_of_a_record_touches_no_index() {
    let Some(mut schema) = Schema::open("hot", PostgresConfig::new).await else { return };
    let store = schema.postgres.store();
    let day = Duration::from_secs(24 * 60 * 60);
    let mut revision = store.create("task/1", Bytes::from_static(b"value"), Some(day)).await.unwrap();
    for number in 0_u64..100 {
        // As a run does: always to the same end, which is nearer each time.
        let left = day.saturating_sub(Duration::from_millis(number));
        revision = store.update("task/1", Bytes::from_static(b"value"), Some(left), revision).await.unwrap();
    }
    let began = Instant::now();
    loop {
        let of = |what: &str| {
            format!(
                "select {what} from pg_stat_user_tables where relname = 'records' and schemaname = current_schema()"
            )
        };
        if schema.number(&of("n_tup_upd")).await == 100 {
            let hot = schema.number(&of("n_tup_hot_upd")).await;
            assert!(hot >= 75, "{hot} of 100 updates were HOT");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "the statistics have not come");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    schema.close().await;
}

#[tokio::test]
async fn record_that_lives_longer_than_it_was_to_is_not_claimed_and_shows_when_it_expires() {
    let Some(mut schema) = Schema::open("lazy", PostgresConfig::new).await else { return };
    let store = schema.postgres.store();
    let short = Duration::from_millis(1500);
    for number in 0..20 {
        let key = format!("session/{number}");
        let revision = store.create(&key, Bytes::new(), Some(short)).await.unwrap();
        if number < 10 {
            store.update(&key, Bytes::new(), Some(Duration::from_secs(600)), revision).await.unwrap();
        }
    }
    // Many that live on are in front of them.
    schema
        .run(
            "insert into records (space, key, value, expires_at, claim_at)
            select 'antiphon', 'session/x' || i, '', now() + interval '1 h', now() - interval '1 h'
            from generate_series(1, 3000) as i",
        )
        .await;
    tokio::time::sleep(short).await;
    let claimed = store.claim_expired("session/", Duration::from_secs(60), 64).await.unwrap();
    assert_eq!(claimed.len(), 10, "those that have expired are found behind those that have not");
    assert_eq!(schema.number("select count(*) from records where claim_at <= now()").await, 0);
    schema.close().await;
}

#[tokio::test]
async fn statement_that_takes_too_long_is_ended_by_the_server() {
    let name = unique("slow");
    let limit = Duration::from_secs(3);
    let config = |url: String| {
        let sign = if url.contains('?') { '&' } else { '?' };
        PostgresConfig::new(format!("{url}{sign}application_name={name}")).with_operation_timeout(limit)
    };
    let Some(mut schema) = Schema::open("slow", config).await else { return };
    schema
        .run(
            "create or replace function depth(
                in_space text, in_queue text, in_lease interval, in_most bigint,
                out waiting bigint, out leased bigint, out dead bigint, out estimated boolean
            ) language plpgsql as $$ begin perform pg_sleep(60); end $$",
        )
        .await;
    let running = format!(
        "select count(*) from pg_stat_activity where application_name = '{name}' and state = 'active'"
    );
    let began = Instant::now();
    let slow = schema.postgres.queue(QueueConfig::default()).depth("work").await;
    assert!(matches!(slow, Err(Error::Busy { .. })), "nothing was done: {slow:?}");
    assert!(began.elapsed() < 5 * limit, "{:?}", began.elapsed());
    schema.wait_until_idle(&running).await;

    let store = schema.postgres.store();
    let revision = store.create("key", Bytes::new(), None).await.unwrap();
    schema.run("begin; select from records for update").await;
    let locked = store.update("key", Bytes::new(), None, revision).await;
    assert!(matches!(locked, Err(Error::Busy { .. })), "nothing was done: {locked:?}");
    schema.wait_until_idle(&running).await;
    schema.run("rollback").await;
    store.update("key", Bytes::new(), None, revision).await.unwrap();
    schema.close().await;
}

/// What a replica of commit e3c8b05 says to the database, while the schema is that of now.
#[tokio::test]
async fn statements_of_the_release_before_work_on_the_schema_of_now() {
    let Some(mut schema) = Schema::open("before", PostgresConfig::new).await else { return };
    let store = schema.postgres.store();
    schema
        .run(
            "insert into records as record (space, key, value, expires_at, claim_at)
            values ('antiphon', 'old/1', 'x', now() + interval '200 ms', now() + interval '200 ms'),
                ('antiphon', 'old/2', 'x', now() + interval '200 ms', now() + interval '200 ms')",
        )
        .await;
    schema
        .run(
            "update records set value = 'y', revision = nextval('revisions'),
                expires_at = now() + interval '1 h', claim_at = now() + interval '1 h'
            where space = 'antiphon' and key = 'old/2'",
        )
        .await;
    let revision = store.create("new/1", Bytes::new(), Some(Duration::from_secs(2))).await.unwrap();
    store.update("new/1", Bytes::new(), Some(Duration::from_secs(600)), revision).await.unwrap();
    // Longer than what was said of it first.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let claim = "select count(*) from claim('antiphon', interval '1 ms', 100, null, '', E'\\x7f')";
    assert_eq!(schema.number(claim).await, 1, "only `old/1` has expired");
    tokio::time::sleep(Duration::from_millis(10)).await;
    let claimed = store.claim_expired("old/", Duration::from_secs(60), 10).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].key, "old/1");
    assert!(store.get("old/2").await.unwrap().is_some() && store.get("new/1").await.unwrap().is_some());
    let leased = "select count(*) from lease('antiphon', 'work', 10, interval '30 s', 16)";
    schema.postgres.queue(QueueConfig::default()).push("work", NewJob::new("a", "x")).await.unwrap();
    assert_eq!(schema.number(leased).await, 1);
    schema.close().await;
}

#[tokio::test]
async fn revision_that_a_failover_has_lost_is_not_given_again() {
    let Some(mut schema) = Schema::open("lost", PostgresConfig::new).await else { return };
    let lost = schema.postgres.store().create("key", Bytes::new(), None).await.unwrap();
    // As on a standby that never heard of it.
    schema.run("delete from records; select setval('revisions', 1)").await;
    let config = PostgresConfig::new(service(URL).unwrap()).with_schema(&schema.name);
    let store = Postgres::connect(config).await.unwrap().store();
    let again = store.create("key", Bytes::new(), None).await.unwrap();
    assert!(again.0 > lost.0, "{again:?} comes after {lost:?}");
    schema.close().await;
}
