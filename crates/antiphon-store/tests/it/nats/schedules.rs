//! Long delays, which servers keep as schedules since NATS 2.12.

use std::time::{Duration, Instant};

use antiphon_store::{
    Job, NewJob, Pushed, Queue, QueueConfig,
    nats::{Nats, NatsConfig, NatsQueue},
};

use super::{cluster::program, server::Server};

/// Longer than the shortest delay that becomes a schedule.
const LONG: Duration = Duration::from_secs(12);

/// A job that comes later than this after its delay is late.
const LATE: Duration = Duration::from_secs(5);

/// The error of the estimate that each connection has of the server's clock.
const CLOCK: Duration = Duration::from_millis(50);

async fn connect(server: &Server) -> NatsQueue {
    loop {
        if let Ok(nats) = Nats::connect(NatsConfig::new(server.url()).with_space("schedules")).await {
            return nats.queue(QueueConfig::default());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for the only job, which is due after `LONG` from `began`.
async fn due(queue: &NatsQueue, began: Instant) -> Job {
    loop {
        let Some(job) = queue.lease("work", 1, Duration::from_millis(500)).await.unwrap().pop() else {
            assert!(began.elapsed() < LONG + LATE, "the job is late");
            continue;
        };
        assert!(began.elapsed() + CLOCK >= LONG, "the job came after {:?}", began.elapsed());
        return job;
    }
}

/// Returns the numbers of messages that the stream of jobs and its consumer still hold.
async fn held(server: &Server) -> (u64, usize) {
    let client = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let stream = client.get_stream("antiphon_v1_jobs").await.unwrap();
    let mut consumer: async_nats::jetstream::consumer::PullConsumer =
        stream.get_consumer("schedules,work,due").await.unwrap();
    (stream.cached_info().state.messages, consumer.info().await.unwrap().num_ack_pending)
}

#[tokio::test]
async fn long_delay_survives_a_restart_and_leaves_nothing_behind() {
    let Some(program) = program((2, 12)) else { return };
    let mut server = Server::start_program(&program, &[]);
    let (queue, began) = (connect(&server).await, Instant::now());
    let job = NewJob::new("a", "later").with_delay(LONG);
    assert_eq!(queue.push("work", job.clone()).await.unwrap(), Pushed::Added);
    assert!(queue.lease("work", 1, Duration::from_millis(300)).await.unwrap().is_empty());
    assert_eq!(held(&server).await, (2, 0), "the job and its schedule, and nothing in memory");
    assert_eq!(queue.depth("work").await.unwrap().waiting, 1);
    assert_eq!(queue.push("work", job).await.unwrap(), Pushed::Duplicate);
    server.kill();
    server.resume();

    let queue = connect(&server).await;
    let job = due(&queue, began).await;
    assert_eq!((&*job.payload, job.attempt), (&b"later"[..], 1));
    let began = Instant::now();
    queue.nack(&job.lease, LONG).await.unwrap();
    assert_eq!(queue.depth("work").await.unwrap().waiting, 1);
    assert_eq!(held(&server).await.1, 0, "a job that was given back is not in memory either");
    let job = due(&queue, began).await;
    assert_eq!((&*job.payload, job.attempt), (&b"later"[..], 2));
    queue.ack(&job.lease).await.unwrap();
    let acked = Instant::now();
    while held(&server).await != (0, 0) {
        assert!(acked.elapsed() < LATE, "{:?} are left", held(&server).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(queue.depth("work").await.unwrap(), antiphon_store::Depth::default());
}
