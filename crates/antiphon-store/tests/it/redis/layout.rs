//! How data are laid out, and who may see them.

use std::time::Duration;

use antiphon_store::{
    ENTRY_COST, Error, MAX_VALUE, NewJob, Pushed, QueueConfig, Store,
    redis::{Redis, RedisConfig},
};
use bytes::Bytes;

use super::{open, server::Server};
use crate::unique;

#[tokio::test]
async fn other_number_of_buckets_is_refused() {
    let server = Server::start(&[]).await;
    let config = RedisConfig::new(server.url());
    Redis::connect(config.clone()).await.unwrap();
    Redis::connect(config.clone()).await.unwrap();
    let error = Redis::connect(config.clone().with_buckets(8)).await.unwrap_err();
    assert!(error.to_string().contains("16 buckets"), "{error}");
    Redis::connect(config.with_buckets(8).with_space("other")).await.unwrap();
}

#[tokio::test]
async fn node_of_a_cluster_is_not_taken_for_a_single_server() {
    let server = Server::start_cluster().await;
    let error = Redis::connect(RedisConfig::new(server.url())).await.unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error:?}");
}

#[tokio::test]
async fn credentials_are_used_and_not_shown() {
    let server = Server::start(&["--requirepass", "s3cret"]).await;
    let url = server.url().replace("redis://", "redis://default:s3cret@");
    let redis = Redis::connect(RedisConfig::new(&url)).await.unwrap();
    let shown = format!("{redis:?} {:?} {:?}", redis.store(), redis.bus());
    assert!(shown.contains("127.0.0.1") && !shown.contains("s3cret"), "{shown}");

    for url in [server.url(), url.replace("s3cret", "wr0ng"), "redis://user:wr0ng@[".to_owned()] {
        let error = Redis::connect(RedisConfig::new(url)).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(matches!(error, Error::Config { .. }) && !shown.contains("wr0ng"), "{shown}");
    }
}

#[tokio::test]
async fn record_that_the_engine_dropped_leaves_no_trace() {
    let server = Server::start(&[]).await;
    let redis = Redis::connect(RedisConfig::new(server.url()).with_buckets(1)).await.unwrap();
    let store = redis.store();
    store.create("a/b", "".into(), Some(Duration::from_millis(1))).await.unwrap();
    store.create("a/c", "".into(), None).await.unwrap();

    let mut connection = server.client().get_multiplexed_async_connection().await.unwrap();
    let bucket = "antiphon:v1:{antiphon.0}";
    let left: i64 =
        redis::cmd("PTTL").arg(format!("{bucket}:r:a/b")).query_async(&mut connection).await.unwrap();
    assert!(left > 23 * 60 * 60 * 1000, "{left}");
    redis::cmd("DEL").arg(format!("{bucket}:r:a/b")).exec_async(&mut connection).await.unwrap();

    let page = store.list("a/", None, 10).await.unwrap();
    assert_eq!(page.items.len(), 1);
    assert!(store.claim_expired("", Duration::ZERO, 10).await.unwrap().is_empty());
    for (index, size) in [("i", 1), ("x", 0), ("x:a", 0)] {
        let found: i64 =
            redis::cmd("ZCARD").arg(format!("{bucket}:{index}")).query_async(&mut connection).await.unwrap();
        assert_eq!(found, size, "{index}");
    }
}

#[tokio::test]
async fn job_that_somebody_deleted_can_be_pushed_again() {
    let server = Server::start(&[]).await;
    let redis = Redis::connect(RedisConfig::new(server.url())).await.unwrap();
    let config = QueueConfig::default().with_lease(Duration::from_millis(100));
    let queue = redis.backend(config).queue;
    let mut connection = server.client().get_multiplexed_async_connection().await.unwrap();
    let (stream, due) = ("antiphon:v1:{antiphon.q.jobs}:s", "antiphon:v1:{antiphon.q.jobs}:due");
    let cut = "for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do redis.call('XDEL', KEYS[1], entry[1]) end";

    // One that waits, one that is leased, one that is delayed.
    queue.push("jobs", NewJob::new("waits", "1")).await.unwrap();
    redis::cmd("EVAL").arg(cut).arg(1).arg(stream).exec_async(&mut connection).await.unwrap();
    assert_eq!(queue.push("jobs", NewJob::new("waits", "1")).await.unwrap(), Pushed::Added);
    assert_eq!(queue.push("jobs", NewJob::new("waits", "1")).await.unwrap(), Pushed::Duplicate);
    let job = queue.lease("jobs", 1, Duration::ZERO).await.unwrap().remove(0);
    redis::cmd("EVAL").arg(cut).arg(1).arg(stream).exec_async(&mut connection).await.unwrap();
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(queue.lease("jobs", 1, Duration::ZERO).await.unwrap().is_empty());
    assert!(queue.ack(&job.lease).await.is_err());
    assert_eq!(queue.push("jobs", NewJob::new("waits", "1")).await.unwrap(), Pushed::Added);
    let job = queue.lease("jobs", 1, Duration::ZERO).await.unwrap().remove(0);
    queue.ack(&job.lease).await.unwrap();

    let later = || NewJob::new("delayed", "2").with_delay(Duration::from_secs(60));
    queue.push("jobs", later()).await.unwrap();
    redis::cmd("DEL").arg(due).exec_async(&mut connection).await.unwrap();
    assert_eq!(queue.push("jobs", later()).await.unwrap(), Pushed::Added);
    assert_eq!(queue.push("jobs", later()).await.unwrap(), Pushed::Duplicate);
}

#[tokio::test]
async fn claims_find_their_way_past_many_others() {
    let Some(redis) = open(&unique("deep")).await else { return };
    let store = redis.store();
    let soon = Some(Duration::from_millis(1));
    let others = (0..300).map(|at| {
        let store = store.clone();
        async move { store.create(&format!("a/other/{at}"), Bytes::new(), soon).await.unwrap() }
    });
    futures_util::future::join_all(others).await;
    store.create("a/mine/1", Bytes::new(), soon).await.unwrap();
    store.create("b/mine/1", Bytes::new(), soon).await.unwrap();
    let claimed = store.claim_expired("a/mine/", Duration::from_secs(60), 10).await.unwrap();
    assert_eq!(claimed.iter().map(|record| &record.key[..]).collect::<Vec<_>>(), ["a/mine/1"]);
    assert_eq!(store.claim_expired("", Duration::from_secs(60), 1000).await.unwrap().len(), 301);
}

#[tokio::test]
async fn pages_are_bounded_in_bytes() {
    let Some(redis) = open(&unique("bytes")).await else { return };
    let store = redis.store();
    for at in 0..20 {
        store.create(&format!("large/{at}"), vec![0; 400_000].into(), None).await.unwrap();
    }
    let (mut seen, mut after) = (0, None);
    loop {
        let page = store.list("large/", after.as_ref(), 100).await.unwrap();
        assert!(page.items.len() <= 4, "{}", page.items.len());
        seen += page.items.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, 20);
}

#[tokio::test]
async fn append_of_as_many_entries_as_may_be_is_kept_whole() {
    let Some(redis) = open(&unique("many")).await else { return };
    let store = redis.store();
    let entries = vec![Bytes::new(); MAX_VALUE / ENTRY_COST];
    let count = entries.len() as u64;
    assert_eq!(store.append("log", 0, entries).await.unwrap(), count);
    assert_eq!(store.read("log", count - 1, 10).await.unwrap(), [Bytes::new()]);
}
