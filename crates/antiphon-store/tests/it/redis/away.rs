//! A server that is away, comes back, or was never there.

use std::time::{Duration, Instant};

use antiphon_store::{
    Bus, Error, Event, NewJob, Queue, QueueConfig, Store,
    redis::{Redis, RedisConfig},
};
use tokio::time::timeout;

use super::server::Server;

const SOON: Duration = Duration::from_secs(10);

fn config(server: &Server) -> RedisConfig {
    RedisConfig::new(server.url())
        .with_connect_timeout(Duration::from_secs(1))
        .with_timeout(Duration::from_secs(2))
}

async fn survives_a_restart(server: &mut Server, config: RedisConfig) {
    let redis = Redis::connect(config).await.unwrap();
    let (store, queue, bus) = (redis.store(), redis.queue(QueueConfig::default()), redis.bus());
    let revision = store.create("kept", "1".into(), None).await.unwrap();
    let mut subscription = bus.subscribe("topic").await.unwrap();

    server.kill();
    let begun = Instant::now();
    let error = store.update("kept", "lost".into(), None, revision).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let error = queue.push("queue", NewJob::new("job", "")).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(begun.elapsed() < 2 * SOON, "{:?}", begun.elapsed());
    server.resume().await;

    let kept = timeout(SOON, async {
        loop {
            match store.get("kept").await {
                Ok(record) => return record.unwrap(),
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        }
    });
    assert_eq!(kept.await.unwrap().value, "1");
    assert_eq!(timeout(SOON, subscription.next()).await.unwrap(), Some(Event::Gap));
    bus.publish("topic", "again".into()).await.unwrap();
    assert_eq!(timeout(SOON, subscription.next()).await.unwrap(), Some(Event::Message("again".into())));
    store.update("kept", "2".into(), None, revision).await.unwrap();
}

#[tokio::test]
async fn restarted_server_is_found_again() {
    let mut server = Server::start(&[]).await;
    let config = config(&server);
    survives_a_restart(&mut server, config).await;
}

#[tokio::test]
async fn restarted_cluster_is_found_again() {
    let mut server = Server::start_cluster().await;
    let config = config(&server).with_cluster(true);
    survives_a_restart(&mut server, config).await;
}

#[tokio::test]
async fn worker_waits_through_a_restart_that_it_does_not_notice() {
    let mut server = Server::start(&[]).await;
    let redis = Redis::connect(config(&server)).await.unwrap();
    let queue = redis.queue(QueueConfig::default());
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move {
            loop {
                match queue.lease("queue", 1, SOON).await {
                    Ok(jobs) => return jobs,
                    Err(error) => assert!(error.is_transient(), "{error:?}"),
                }
            }
        }
    });
    queue.push("other", NewJob::new("job", "")).await.unwrap();
    server.kill();
    server.resume().await;
    let pushed = timeout(SOON, async { while queue.push("queue", NewJob::new("job", "")).await.is_err() {} });
    pushed.await.unwrap();
    assert_eq!(timeout(SOON, waiting).await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn silent_server_leaves_it_open_what_was_done() {
    let server = Server::start(&[]).await;
    let redis = Redis::connect(config(&server)).await.unwrap();
    let store = redis.store();
    store.create("first", "".into(), None).await.unwrap();

    server.signal("-STOP");
    let begun = Instant::now();
    let error = store.create("second", "".into(), None).await.unwrap_err();
    server.signal("-CONT");
    assert!(matches!(error, Error::Backend { .. }), "{error:?}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // Here it was done.
    let seen = timeout(SOON, async { while store.get("second").await.unwrap().is_none() {} });
    seen.await.unwrap();
}

#[tokio::test]
async fn absent_server_is_told_in_time() {
    let begun = Instant::now();
    let config = RedisConfig::new("redis://127.0.0.1:1").with_connect_timeout(Duration::from_secs(1));
    for config in [config.clone(), config.with_cluster(true)] {
        let error = Redis::connect(config).await.unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn forgotten_scripts_are_told_again() {
    let server = Server::start(&[]).await;
    let redis = Redis::connect(config(&server)).await.unwrap();
    let mut connection = server.client().get_multiplexed_async_connection().await.unwrap();
    for key in ["a", "b"] {
        redis.store().create(key, "".into(), None).await.unwrap();
        redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await.unwrap();
    }
    assert!(redis.store().get("b").await.unwrap().is_some());
}

#[tokio::test]
async fn full_server_takes_no_more_and_lets_work_be_done() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]).await;
    let redis = Redis::connect(config(&server)).await.unwrap();
    let (store, queue) = (redis.store(), redis.queue(QueueConfig::default()));
    let revision = store.create("kept", "".into(), None).await.unwrap();
    queue.push("queue", NewJob::new("job", "")).await.unwrap();
    let mut connection = server.client().get_multiplexed_async_connection().await.unwrap();
    redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).exec_async(&mut connection).await.unwrap();

    let error = store.create("more", "".into(), None).await.unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    let error = queue.push("queue", NewJob::new("more", "")).await.unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    let jobs = queue.lease("queue", 1, Duration::ZERO).await.unwrap();
    queue.ack(&jobs[0].lease).await.unwrap();
    store.delete("kept", revision).await.unwrap();
}
