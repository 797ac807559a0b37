//! Large pages, long waits, and races that no law knows of.

use std::{collections::BTreeSet, time::Duration};

use antiphon_store::{
    Bus, ENTRY_COST, Error, MAX_VALUE, NewJob, Queue, QueueConfig, Store,
    conformance::service,
    postgres::{Postgres, PostgresConfig},
};
use bytes::Bytes;
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

use super::{URL, open};
use crate::unique;

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn page_is_bounded_in_bytes_and_nothing_is_left_out() {
    let Some(postgres) = open(&unique("pages")).await else { return };
    let store = postgres.store();
    let large = Bytes::from(vec![7; MAX_VALUE]);
    let mut keys = BTreeSet::new();
    for number in 0..20 {
        // Every fourth has expired, and is only in the way.
        let expired = number % 4 == 3;
        let key = format!("large/{number:02}");
        store.create(&key, large.clone(), expired.then_some(Duration::ZERO)).await.unwrap();
        if !expired {
            keys.insert(key);
        }
    }
    let mut cursor = None;
    loop {
        let page = store.list("large/", cursor.as_ref(), usize::MAX).await.unwrap();
        let bytes: usize = page.items.iter().map(|record| record.value.len()).sum();
        assert!(bytes < 4 * 1024 * 1024 + MAX_VALUE, "{bytes}");
        for record in page.items {
            assert!(keys.remove(&record.key), "{} came twice", record.key);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert!(keys.is_empty(), "{keys:?}");
}

#[tokio::test]
async fn reading_is_bounded_in_bytes_and_goes_on() {
    let Some(postgres) = open(&unique("reading")).await else { return };
    let store = postgres.store();
    for at in 0..20 {
        let entry = Bytes::from(vec![u8::try_from(at).unwrap(); MAX_VALUE - ENTRY_COST]);
        store.append("log", at, vec![entry]).await.unwrap();
    }
    let mut read = 0;
    while read < 20 {
        let entries = store.read("log", read, usize::MAX).await.unwrap();
        assert!((1..=9).contains(&entries.len()), "{}", entries.len());
        for entry in entries {
            assert_eq!(u64::from(entry[0]), read);
            read += 1;
        }
    }
    assert!(store.read("log", read, usize::MAX).await.unwrap().is_empty());
    assert!(store.read("log", u64::MAX, 1).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn log_deleted_under_its_writers_has_no_holes() {
    let Some(postgres) = open(&unique("holes")).await else { return };
    let write = || async {
        let store = postgres.store();
        let mut at = 0;
        for _ in 0..200 {
            match store.append("log", at, vec![Bytes::new(), Bytes::new()]).await {
                Ok(length) => at = length,
                Err(Error::LogConflict { expected, found, .. }) => {
                    assert_ne!(expected, found);
                    at = found;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    let delete = || async {
        for _ in 0..100 {
            postgres.store().delete_log("log").await.unwrap();
        }
    };
    tokio::join!(write(), write(), delete(), write(), delete());

    let store = postgres.store();
    let Err(Error::LogConflict { found, .. }) = store.append("log", u64::MAX, vec![Bytes::new()]).await
    else {
        panic!("no log is so long");
    };
    assert_eq!(store.read("log", 0, 1000).await.unwrap().len() as u64, found);
}

#[tokio::test]
async fn job_nobody_told_of_is_found_by_polling() {
    let Some(url) = service(URL) else { return };
    let space = unique("polled");
    let config = PostgresConfig::new(&url).with_space(&space).with_poll(Duration::from_millis(50));
    let queue = Postgres::connect(config).await.unwrap().queue(QueueConfig::default());
    let waiting = tokio::spawn(async move { queue.lease("jobs", 1, LONG).await });
    let mut connection = PgConnection::connect(&url).await.unwrap();
    sqlx::query(
        "insert into antiphon.jobs (space, queue, id, payload, due_at) values ($1, 'jobs', 'a', '', now())",
    )
    .bind(&space)
    .execute(&mut connection)
    .await
    .unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_push_of_many_wakes_as_many_workers_as_there_are_jobs() {
    let Some(url) = service(URL) else { return };
    // Nobody polls: whoever is not woken waits for too long.
    let config = PostgresConfig::new(&url).with_space(unique("woken")).with_poll(10 * LONG);
    let here = Postgres::connect(config.clone()).await.unwrap().queue(QueueConfig::default());
    let elsewhere = Postgres::connect(config).await.unwrap().queue(QueueConfig::default());
    let workers: Vec<_> = (0..20)
        .map(|_| {
            let queue = here.clone();
            tokio::spawn(async move { queue.lease("jobs", 1, 10 * LONG).await.unwrap().len() })
        })
        .collect();
    for number in 0..20 {
        elsewhere.push("jobs", NewJob::new(format!("{number}"), "")).await.unwrap();
    }
    for worker in workers {
        assert_eq!(timeout(LONG, worker).await.unwrap().unwrap(), 1);
    }
}

#[tokio::test]
async fn last_subscriber_of_a_topic_ends_the_listening() {
    let Some(url) = service(URL) else { return };
    let application = unique("listener");
    let sign = if url.contains('?') { '&' } else { '?' };
    let config = PostgresConfig::new(format!("{url}{sign}application_name={application}"));
    let bus = Postgres::connect(config.with_space(unique("bus"))).await.unwrap().bus();
    let first = bus.subscribe("topic").await.unwrap();
    let second = bus.subscribe("topic").await.unwrap();
    let mut other = bus.subscribe("other").await.unwrap();

    let mut connection = PgConnection::connect(&url).await.unwrap();
    let mut last_said = async || -> String {
        // What a connection said last, without the channel's name.
        sqlx::query_scalar(
            "select split_part(query, ' ', 1) from pg_stat_activity
            where application_name = $1 and query ilike '%listen%'",
        )
        .bind(&application)
        .fetch_one(&mut connection)
        .await
        .unwrap()
    };
    drop(first);
    bus.publish("other", Bytes::new()).await.unwrap();
    other.next().await.unwrap();
    assert_eq!(last_said().await, "LISTEN");
    drop(second);
    timeout(LONG, async { while last_said().await != "UNLISTEN" {} }).await.unwrap();
}
