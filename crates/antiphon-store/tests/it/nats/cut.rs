//! What becomes of everything when the server goes and comes back.

use std::time::{Duration, Instant};

use antiphon_store::{
    Bus as _, Error, Event, NewJob, Pushed, Queue as _, QueueConfig, Store as _,
    nats::{Nats, NatsConfig},
};
use bytes::Bytes;

use super::server::Server;

const SECOND: Duration = Duration::from_secs(1);

async fn connect(server: &Server) -> Nats {
    let config = NatsConfig::new(server.url()).with_connect_timeout(SECOND).with_timeout(SECOND);
    Nats::connect(config).await.unwrap()
}

/// Calls until the server is there again.
async fn persist<T>(mut call: impl AsyncFnMut() -> Result<T, Error>) -> T {
    let began = Instant::now();
    loop {
        match call().await {
            Ok(value) => return value,
            Err(error) => assert!(error.is_transient() && began.elapsed() < 20 * SECOND, "{error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_end_in_time_while_the_server_is_away() {
    let Some(mut server) = Server::start(&[]) else { return };
    let nats = connect(&server).await;
    let (store, queue, bus) = (nats.store(), nats.queue(QueueConfig::default()), nats.bus());
    let revision = store.create("key", Bytes::new(), None).await.unwrap();
    queue.lease("work", 1, Duration::ZERO).await.unwrap();
    server.kill();
    let began = Instant::now();
    let errors = [
        store.get("key").await.err(),
        store.create("other", Bytes::new(), Some(SECOND)).await.err(),
        store.update("key", Bytes::new(), None, revision).await.err(),
        store.append("log", 0, vec![Bytes::new()]).await.err(),
        store.list("", None, 1).await.err(),
        queue.push("work", NewJob::new("a", "")).await.err(),
        queue.lease("work", 1, SECOND).await.err(),
        bus.publish("topic", Bytes::new()).await.err(),
        bus.subscribe("topic").await.err(),
    ];
    for error in &errors {
        assert!(error.as_ref().is_some_and(Error::is_transient), "{errors:?}");
    }
    assert!(began.elapsed() < 30 * SECOND, "it took {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_work_again_when_the_server_is_back() {
    let Some(mut server) = Server::start(&[]) else { return };
    let nats = connect(&server).await;
    let (store, queue, bus) = (nats.store(), nats.queue(QueueConfig::default()), nats.bus());
    let mut subscription = bus.subscribe("topic").await.unwrap();
    let revision = store.create("key", "kept".into(), None).await.unwrap();
    store.append("log", 0, vec!["one".into()]).await.unwrap();
    queue.push("work", NewJob::new("a", "x")).await.unwrap();
    let job = queue.lease("work", 1, SECOND).await.unwrap().pop().unwrap();
    server.kill();
    server.resume();
    let record = persist(async || store.get("key").await).await.unwrap();
    assert_eq!((record.value, record.revision), (Bytes::from("kept"), revision));
    assert_eq!(store.append("log", 1, vec!["two".into()]).await.unwrap(), 2);
    assert_eq!(store.read("log", 0, 10).await.unwrap(), ["one", "two"]);
    assert_eq!(queue.push("work", NewJob::new("a", "x")).await.unwrap(), Pushed::Duplicate);
    assert!(queue.lease("work", 1, SECOND).await.unwrap().is_empty(), "the job is leased");
    queue.ack(&job.lease).await.unwrap();
    // There is one gap when the connection breaks and one when it is whole again: the last is the one that counts.
    assert_eq!(subscription.next().await, Some(Event::Gap));
    while bus.publish("topic", "heard".into()).await.is_err() {}
    loop {
        match subscription.next().await {
            Some(Event::Gap) => {}
            other => break assert_eq!(other, Some(Event::Message("heard".into()))),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_has_one_holder_though_the_server_forgets_what_it_handed_out() {
    const JOBS: usize = 200;
    let Some(mut server) = Server::start(&[]) else { return };
    let nats = connect(&server).await;
    let queue = nats.queue(QueueConfig::default());
    for number in 0..JOBS {
        queue.push("work", NewJob::new(format!("job-{number}"), "")).await.unwrap();
    }
    // Consumers are written to disk ten times a second, so the server knows nothing of the last of these.
    let mut held = Vec::new();
    while held.len() < JOBS {
        held.extend(queue.lease("work", 7, SECOND).await.unwrap());
    }
    server.kill();
    server.resume();
    let again = persist(async || queue.lease("work", JOBS, 3 * SECOND).await).await;
    assert!(again.is_empty(), "{again:?}");
    for job in held {
        queue.ack(&job.lease).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_worker_outlives_the_server() {
    let Some(mut server) = Server::start(&[]) else { return };
    let nats = connect(&server).await;
    let queue = nats.queue(QueueConfig::default());
    queue.lease("work", 1, Duration::ZERO).await.unwrap();
    let worker = persist(async || queue.lease("work", 1, 60 * SECOND).await);
    let cut = async {
        // It has to be waiting for this to mean anything; there is nothing to see that by.
        tokio::time::sleep(SECOND / 2).await;
        server.kill();
        server.resume();
        persist(async || queue.push("work", NewJob::new("a", "x")).await).await;
        Instant::now()
    };
    let (jobs, pushed) = tokio::join!(worker, cut);
    assert!(pushed.elapsed() < 10 * SECOND, "it was told after {:?}", pushed.elapsed());
    assert_eq!(jobs[0].id(), "a");
}
