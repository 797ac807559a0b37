//! Workers that wait.

use std::time::{Duration, Instant};

use antiphon_store::{
    NewJob, Queue, QueueConfig,
    redis::{Redis, RedisConfig},
};
use tokio::task::JoinSet;

use super::{open, server::Server};
use crate::unique;

const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_waiting_workers_is_woken_for_a_job() {
    let space = unique("many");
    let mut workers = JoinSet::new();
    let mut queues = Vec::new();
    for _ in 0..3 {
        let Some(redis) = open(&space).await else { return };
        let queue = redis.queue(QueueConfig::default());
        for _ in 0..20 {
            let queue = queue.clone();
            workers.spawn(async move { queue.lease("queue", 1, LONG).await.unwrap() });
        }
        queues.push(queue);
    }
    let pushes = (0..60).map(|at| queues[at % 3].push("queue", NewJob::new(format!("job-{at}"), "")));
    futures_util::future::try_join_all(pushes).await.unwrap();
    let begun = Instant::now();
    while let Some(jobs) = workers.join_next().await {
        assert_eq!(jobs.unwrap().len(), 1);
    }
    // A wake that was lost would be made up for after a second, one worker a time.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn worker_that_gave_up_takes_nobodys_turn() {
    let Some(redis) = open(&unique("gave-up")).await else { return };
    let queue = redis.queue(QueueConfig::default());
    let patient = tokio::spawn({
        let queue = queue.clone();
        async move { queue.lease("queue", 1, LONG).await.unwrap() }
    });
    for _ in 0..20 {
        // Dropped in the middle of its wait.
        drop(tokio::time::timeout(Duration::from_millis(5), queue.lease("queue", 1, LONG)).await);
    }
    queue.push("queue", NewJob::new("job", "")).await.unwrap();
    assert_eq!(tokio::time::timeout(LONG, patient).await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn worker_without_a_connection_to_wait_on_asks_again() {
    let server = Server::start(&[]).await;
    let config = RedisConfig::new(server.url()).with_max_waiting_queues(0);
    let queue = Redis::connect(config).await.unwrap().queue(QueueConfig::default());
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.lease("queue", 1, LONG).await.unwrap() }
    });
    queue.push("queue", NewJob::new("job", "").with_delay(Duration::from_millis(50))).await.unwrap();
    assert_eq!(tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn thousand_waiting_workers_share_three_connections() {
    let server = Server::start(&[]).await;
    let queue = Redis::connect(RedisConfig::new(server.url())).await.unwrap().queue(QueueConfig::default());
    let mut workers = JoinSet::new();
    for _ in 0..1000 {
        let queue = queue.clone();
        workers.spawn(async move { queue.lease("queue", 1, Duration::from_millis(1500)).await.unwrap() });
    }
    while queue.depth("queue").await.is_err() {}
    let mut connection = server.client().get_multiplexed_async_connection().await.unwrap();
    let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut connection).await.unwrap();
    // One is that of this test itself.
    assert!(clients.lines().count() <= 3, "{clients}");
    while let Some(jobs) = workers.join_next().await {
        assert!(jobs.unwrap().is_empty());
    }
}
