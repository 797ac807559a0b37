//! Contract tests for [`Queue`].

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::{task::JoinSet, time::sleep};

use super::Queues;
use crate::{
    error::{Error, Result},
    queue::{Depth, Job, Lease, MAX_PAYLOAD, NewJob, Pushed, Queue, QueueConfig},
};

/// The duration of a lease that expires during a test.
const SHORT: Duration = Duration::from_millis(500);
/// The time that a test waits for a job that must not arrive.
const NONE: Duration = Duration::from_millis(250);
/// The maximum time until an expected job arrives.
const JOB_TIMEOUT: Duration = Duration::from_secs(20);

async fn push(queue: &dyn Queue, id: &str) -> Pushed {
    queue.push("work", NewJob::new(id, format!("payload of {id}"))).await.unwrap()
}

async fn lease(queue: &dyn Queue) -> Job {
    let job = queue.lease("work", 1, JOB_TIMEOUT).await.unwrap().pop();
    job.expect("there is a job to lease")
}

async fn assert_none(queue: &dyn Queue) {
    let jobs = queue.lease("work", 10, NONE).await.unwrap();
    assert!(jobs.is_empty(), "{jobs:?}");
}

/// Leases a job and calls `give_back` repeatedly, until the job is dead. Returns how many times the job was leased.
async fn until_dead(queue: &dyn Queue, give_back: impl AsyncFn(&Job)) -> u32 {
    let mut times = 0;
    loop {
        let jobs = queue.lease("work", 1, NONE).await.unwrap();
        if let Some(job) = jobs.first() {
            times += 1;
            give_back(job).await;
        } else if !dead(queue, 10).await.is_empty() {
            return times;
        }
    }
}

async fn dead(queue: &dyn Queue, limit: usize) -> Vec<String> {
    let mut ids = Vec::new();
    let mut after = None;
    loop {
        let page = queue.dead("work", after.as_ref(), limit).await.unwrap();
        assert!(page.items.len() <= limit, "a page has no more than was asked for");
        ids.extend(page.items.into_iter().map(|job| job.id));
        match page.next {
            Some(next) => after = Some(next),
            None => return ids,
        }
    }
}

fn short() -> QueueConfig {
    QueueConfig::default().with_lease(SHORT)
}

fn assert_lost(result: &Result<()>) {
    assert!(matches!(result, Err(Error::LeaseLost { .. })), "a lost lease was expected, not {result:?}");
}

/// Checks that a worker waited only for a short time. Over a faulty backend, the check allows a longer wait, because
/// each lost lease blocks the job until the lease expires.
fn assert_prompt(queues: &Queues, waited: Duration) {
    let limit = if queues.is_exact() { Duration::from_secs(5) } else { JOB_TIMEOUT };
    assert!(waited < limit, "it was told after {waited:?}");
}

/// Tests that any worker can lease a pushed job, through any handle.
pub async fn pushed_job_is_leased_with_its_payload(queues: &Queues) {
    let (one, two) = (queues.open().await, queues.open().await);
    assert_eq!(push(&*one, "a").await, Pushed::Added);
    let job = lease(&*two).await;
    assert_eq!((job.id(), job.payload.as_ref()), ("a", &b"payload of a"[..]));
    assert_eq!(job.lease.queue, "work");
    if queues.is_exact() {
        assert_eq!(job.attempt, 1);
    }
}

/// Tests that an acknowledged job is not leased again.
pub async fn acknowledged_job_is_gone(queues: &Queues) {
    let queue = queues.open_with(short()).await;
    push(&*queue, "a").await;
    queue.ack(&lease(&*queue).await.lease).await.unwrap();
    sleep(SHORT).await;
    assert_none(&*queue).await;
    assert!(dead(&*queue, 10).await.is_empty());
    assert_eq!(queue.depth("work").await.unwrap(), Depth::default());
}

/// Tests that no other worker receives a job while its lease is valid.
pub async fn leased_job_is_given_to_nobody_else(queues: &Queues) {
    let (one, two) = (queues.open().await, queues.open().await);
    push(&*one, "a").await;
    lease(&*one).await;
    assert_none(&*two).await;
    assert_none(&*one).await;
}

/// Tests that another worker can lease the job of a stopped worker, with the next attempt number.
pub async fn lapsed_lease_goes_to_the_next_worker(queues: &Queues) {
    let (one, two) = (queues.open_with(short()).await, queues.open_with(short()).await);
    push(&*one, "a").await;
    let first = lease(&*one).await;
    let second = lease(&*two).await;
    assert_eq!(second.id(), "a");
    assert_eq!(second.payload, first.payload);
    assert!(second.attempt > first.attempt);
    if queues.is_exact() {
        assert_eq!(second.attempt, 2);
    }
    two.ack(&second.lease).await.unwrap();
}

/// Tests that a worker cannot change its job after another worker has leased the job.
pub async fn lost_lease_changes_nothing(queues: &Queues) {
    let config = QueueConfig::default().with_lease(Duration::from_secs(2));
    let (one, two) = (queues.open_with(config.clone()).await, queues.open_with(config).await);
    push(&*one, "a").await;
    let first = lease(&*one).await;
    let second = lease(&*two).await;
    let ended = [
        one.extend(&first.lease).await,
        one.ack(&first.lease).await,
        one.nack(&first.lease, Duration::ZERO).await,
        one.bury(&first.lease).await,
    ];
    if queues.is_exact() {
        ended.iter().for_each(assert_lost);
    } else {
        assert_lost(&ended[0]);
    }
    assert!(dead(&*one, 10).await.is_empty());
    two.ack(&second.lease).await.unwrap();
    assert_none(&*one).await;
}

/// Tests that a lease cannot be used after its job was acknowledged.
pub async fn acknowledging_twice_is_a_lost_lease(queues: &Queues) {
    let queue = queues.open().await;
    push(&*queue, "a").await;
    let job = lease(&*queue).await;
    queue.ack(&job.lease).await.unwrap();
    if queues.is_exact() {
        assert_lost(&queue.ack(&job.lease).await);
    }
    assert_lost(&queue.extend(&job.lease).await);
    let made_up = Lease::new("work", "b", job.lease.token);
    assert_lost(&queue.extend(&made_up).await);
}

/// Tests that no other worker receives a job whose lease is extended in time.
pub async fn extended_lease_lasts(queues: &Queues) {
    let config = QueueConfig::default().with_lease(Duration::from_secs(2));
    let (one, two) = (queues.open_with(config.clone()).await, queues.open_with(config).await);
    push(&*one, "a").await;
    let job = lease(&*one).await;
    let worker = async {
        for _ in 0..10 {
            sleep(Duration::from_millis(350)).await;
            one.extend(&job.lease).await.unwrap();
        }
        one.ack(&job.lease).await.unwrap();
    };
    let thief = async {
        let stolen = two.lease("work", 1, Duration::from_millis(3200)).await.unwrap();
        assert!(stolen.is_empty(), "{stolen:?}");
    };
    tokio::join!(worker, thief);
    assert_none(&*two).await;
}

/// Tests that an expired lease can still be used if no other worker has leased the job. The worker can acknowledge the
/// job or extend the lease.
pub async fn lapsed_lease_that_nobody_took_may_still_be_used(queues: &Queues) {
    let queue = queues.open_with(short()).await;
    for id in ["a", "b"] {
        push(&*queue, id).await;
        let job = lease(&*queue).await;
        sleep(SHORT + Duration::from_millis(100)).await;
        if id == "a" {
            queue.ack(&job.lease).await.unwrap();
        } else {
            queue.extend(&job.lease).await.unwrap();
            queue.ack(&job.lease).await.unwrap();
        }
        assert_none(&*queue).await;
    }
}

/// Tests that a returned job is leased again.
pub async fn job_given_back_comes_again(queues: &Queues) {
    let (one, two) = (queues.open().await, queues.open().await);
    push(&*one, "a").await;
    let first = lease(&*one).await;
    one.nack(&first.lease, Duration::ZERO).await.unwrap();
    let second = lease(&*two).await;
    assert_eq!((second.id(), &second.payload), ("a", &first.payload));
    assert!(second.attempt > first.attempt);
    assert_lost(&one.extend(&first.lease).await);
    two.ack(&second.lease).await.unwrap();
}

/// Tests that a job that was returned with a delay is leased after the delay.
pub async fn job_given_back_waits_its_delay(queues: &Queues) {
    let queue = queues.open().await;
    push(&*queue, "a").await;
    let job = lease(&*queue).await;
    let began = Instant::now();
    queue.nack(&job.lease, Duration::from_secs(1)).await.unwrap();
    assert_eq!(lease(&*queue).await.id(), "a");
    assert!(began.elapsed() >= Duration::from_millis(950), "it came after {:?}", began.elapsed());
}

/// Tests that a delayed job is not leased before its delay ends.
pub async fn delayed_job_is_not_leased_early(queues: &Queues) {
    let queue = queues.open().await;
    let began = Instant::now();
    let delay = Duration::from_secs(1);
    queue.push("work", NewJob::new("later", "x").with_delay(delay)).await.unwrap();
    push(&*queue, "now").await;
    let mut order = Vec::new();
    while order.len() < 2 {
        let job = lease(&*queue).await;
        if job.id() == "later" {
            assert!(began.elapsed() >= Duration::from_millis(950), "it came after {:?}", began.elapsed());
            assert!(!queues.is_exact() || job.attempt == 1, "waiting for its time is not an attempt");
        }
        queue.ack(&job.lease).await.unwrap();
        order.push(job.id().to_owned());
    }
    // If the response to a call of `lease` is lost, its job is leased again later. The jobs then arrive in another
    // order.
    if queues.is_exact() {
        assert_eq!(order, ["now", "later"]);
    }
}

/// Tests that a push through any handle wakes a waiting worker promptly.
pub async fn waiting_worker_is_woken_by_a_push(queues: &Queues) {
    let (one, two) = (queues.open().await, queues.open().await);
    let worker = tokio::spawn(async move {
        let began = Instant::now();
        let job = lease(&*one).await;
        (job.id().to_owned(), began.elapsed())
    });
    sleep(Duration::from_millis(300)).await;
    push(&*two, "a").await;
    let (id, waited) = worker.await.unwrap();
    assert_eq!(id, "a");
    assert_prompt(queues, waited);
}

/// Tests that the end of a delay wakes a waiting worker, without any other event.
pub async fn waiting_worker_is_woken_when_a_delay_ends(queues: &Queues) {
    let queue = queues.open().await;
    let began = Instant::now();
    queue.push("work", NewJob::new("a", "x").with_delay(SHORT)).await.unwrap();
    assert_eq!(lease(&*queue).await.id(), "a");
    assert_prompt(queues, began.elapsed());
}

/// Tests that the expiry of a lease wakes a waiting worker, without any other event.
pub async fn waiting_worker_is_woken_when_a_lease_runs_out(queues: &Queues) {
    let (one, two) = (queues.open_with(short()).await, queues.open_with(short()).await);
    push(&*one, "a").await;
    lease(&*one).await;
    let began = Instant::now();
    assert_eq!(lease(&*two).await.id(), "a");
    assert_prompt(queues, began.elapsed());
}

/// Tests that `lease` returns no jobs when the wait is over and the queue is still empty.
pub async fn empty_queue_gives_nothing_when_the_wait_is_over(queues: &Queues) {
    let queue = queues.open().await;
    let began = Instant::now();
    assert!(queue.lease("work", 1, Duration::ZERO).await.unwrap().is_empty());
    assert!(queue.lease("work", 1, SHORT).await.unwrap().is_empty());
    let waited = began.elapsed();
    assert!(waited >= SHORT.mul_f64(0.9) && waited < Duration::from_secs(8), "{waited:?}");
}

/// Tests that a worker receives at most `limit` jobs.
pub async fn no_more_jobs_than_asked_for(queues: &Queues) {
    let queue = queues.open().await;
    for number in 0..10 {
        push(&*queue, &format!("job-{number}")).await;
    }
    let mut ids = BTreeSet::new();
    while ids.len() < 10 {
        let jobs = queue.lease("work", 3, JOB_TIMEOUT).await.unwrap();
        assert!(!jobs.is_empty() && jobs.len() <= 3, "{jobs:?}");
        for job in jobs {
            assert!(ids.insert(job.id().to_owned()), "`{}` was given twice", job.id());
            queue.ack(&job.lease).await.unwrap();
        }
        if !queues.is_exact() {
            return;
        }
    }
}

/// Tests that a push does not add a second job with the same ID while the first job is waiting, delayed, leased or
/// dead.
pub async fn second_job_of_an_id_is_not_added(queues: &Queues) {
    let queue = queues.open().await;
    let again = async |id: &str| queue.push("work", NewJob::new(id, "another")).await.unwrap();
    let duplicate = |pushed| assert!(pushed == Pushed::Duplicate || !queues.is_exact());
    queue.push("work", NewJob::new("delayed", "first").with_delay(Duration::from_secs(600))).await.unwrap();
    duplicate(again("delayed").await);
    push(&*queue, "a").await;
    duplicate(again("a").await);
    let job = lease(&*queue).await;
    assert_eq!((job.id(), job.payload.as_ref()), ("a", &b"payload of a"[..]));
    duplicate(again("a").await);
    assert_none(&*queue).await;
    queue.bury(&job.lease).await.unwrap();
    duplicate(again("a").await);
    assert_none(&*queue).await;
}

/// Tests that the ID of an acknowledged job can be used again at once, also while its data is still being removed.
pub async fn id_of_a_finished_job_is_free(queues: &Queues) {
    let queue = queues.open().await;
    let rounds = if queues.is_exact() { 100 } else { 3 };
    for _ in 0..rounds {
        assert_eq!(push(&*queue, "a").await, Pushed::Added);
        let job = lease(&*queue).await;
        if queues.is_exact() {
            assert_eq!(job.attempt, 1);
        }
        queue.ack(&job.lease).await.unwrap();
    }
    assert_none(&*queue).await;
}

/// Tests that a job that is returned too often becomes dead.
pub async fn job_given_back_too_often_is_dead(queues: &Queues) {
    let config = QueueConfig::default().with_max_attempts(3).with_lease(Duration::from_secs(2));
    let queue = queues.open_with(config).await;
    push(&*queue, "a").await;
    let give_back = async |job: &Job| {
        let _ = queue.nack(&job.lease, Duration::ZERO).await;
    };
    let times = until_dead(&*queue, give_back).await;
    assert!(times <= 3);
    assert!(times == 3 || !queues.is_exact(), "it was tried {times} times");
    assert_eq!(dead(&*queue, 10).await, ["a"]);
    let page = queue.dead("work", None, 10).await.unwrap();
    assert_eq!((page.items[0].payload.as_ref(), page.items[0].attempts), (&b"payload of a"[..], 3));
    assert_none(&*queue).await;
}

/// Tests that a job whose lease expires too often becomes dead.
pub async fn job_dropped_too_often_is_dead(queues: &Queues) {
    let config = QueueConfig::default().with_max_attempts(2).with_lease(SHORT);
    let queue = queues.open_with(config).await;
    push(&*queue, "a").await;
    let times = until_dead(&*queue, async |_: &Job| ()).await;
    assert!(times <= 2);
    assert!(times == 2 || !queues.is_exact(), "it was tried {times} times");
    assert_eq!(dead(&*queue, 10).await, ["a"]);
}

/// Tests that a buried job is dead immediately.
pub async fn buried_job_is_dead(queues: &Queues) {
    let queue = queues.open_with(short()).await;
    push(&*queue, "a").await;
    let job = lease(&*queue).await;
    queue.bury(&job.lease).await.unwrap();
    sleep(SHORT).await;
    assert_none(&*queue).await;
    assert_eq!(dead(&*queue, 10).await, ["a"]);
    assert_lost(&queue.extend(&job.lease).await);
}

/// Tests that a revived job is leased again, and that its attempt number starts at 1 again.
pub async fn revived_job_begins_anew(queues: &Queues) {
    let queue = queues.open().await;
    push(&*queue, "a").await;
    queue.bury(&lease(&*queue).await.lease).await.unwrap();
    assert!(queue.revive("work", "a").await.unwrap());
    assert!(dead(&*queue, 10).await.is_empty());
    let job = lease(&*queue).await;
    assert_eq!((job.id(), job.payload.as_ref()), ("a", &b"payload of a"[..]));
    if queues.is_exact() {
        assert_eq!(job.attempt, 1);
        assert!(!queue.revive("work", "a").await.unwrap(), "it lives");
        assert!(!queue.revive("work", "b").await.unwrap(), "it never was");
    }
    queue.ack(&job.lease).await.unwrap();
}

/// Tests that a discarded job is removed, and that its ID can be used again.
pub async fn discarded_job_is_gone(queues: &Queues) {
    let queue = queues.open().await;
    push(&*queue, "a").await;
    let job = lease(&*queue).await;
    if queues.is_exact() {
        assert!(!queue.discard("work", "a").await.unwrap(), "it lives");
    }
    queue.bury(&job.lease).await.unwrap();
    assert!(queue.discard("work", "a").await.unwrap());
    assert!(dead(&*queue, 10).await.is_empty());
    assert_eq!(push(&*queue, "a").await, Pushed::Added);
    assert_eq!(lease(&*queue).await.id(), "a");
}

/// Tests that the pages of `dead` together list every dead job once.
pub async fn dead_letters_are_listed_in_pages(queues: &Queues) {
    let queue = queues.open().await;
    let mut buried = BTreeSet::new();
    for number in 0..23 {
        push(&*queue, &format!("job-{number}")).await;
        let job = lease(&*queue).await;
        queue.bury(&job.lease).await.unwrap();
        buried.insert(job.id().to_owned());
    }
    for limit in [1, 5, 23, 100] {
        let ids = dead(&*queue, limit).await;
        assert_eq!(ids.len(), buried.len(), "in pages of {limit}");
        assert_eq!(ids.into_iter().collect::<BTreeSet<_>>(), buried);
    }
}

/// Tests that concurrent workers lease each job exactly once if no lease expires.
pub async fn racing_workers_share_the_jobs(queues: &Queues) {
    const JOBS: usize = 200;
    let (one, two) = (queues.open().await, queues.open().await);
    for number in 0..JOBS {
        push(&*one, &format!("job-{number}")).await;
    }
    let mut workers = JoinSet::new();
    for worker in 0..6 {
        let queue = Arc::clone(if worker % 2 == 0 { &one } else { &two });
        workers.spawn(async move {
            let mut done = Vec::new();
            loop {
                let jobs = queue.lease("work", 4, Duration::from_secs(1)).await.unwrap();
                if jobs.is_empty() {
                    return done;
                }
                for job in jobs {
                    queue.ack(&job.lease).await.unwrap();
                    done.push(job.id().to_owned());
                }
            }
        });
    }
    let done = workers.join_all().await.concat();
    let distinct: BTreeSet<_> = done.iter().collect();
    assert_eq!(distinct.len(), done.len(), "a job was done twice");
    if queues.is_exact() {
        assert_eq!(done.len(), JOBS);
    }
}

/// Tests that exactly one of several callers adds a job if the callers push the same ID concurrently.
pub async fn racing_pushers_of_one_id_add_one_job(queues: &Queues) {
    let (one, two) = (queues.open().await, queues.open().await);
    for round in 0..10 {
        let mut pushers = JoinSet::new();
        for pusher in 0..6 {
            let queue = Arc::clone(if pusher % 2 == 0 { &one } else { &two });
            pushers.spawn(async move { push(&*queue, &format!("round-{round}")).await });
        }
        let added = pushers.join_all().await.into_iter().filter(|pushed| *pushed == Pushed::Added).count();
        assert!(added == 1 || (!queues.is_exact() && added > 1), "{added} were added");
        let job = lease(&*one).await;
        one.ack(&job.lease).await.unwrap();
        assert_none(&*one).await;
    }
}

/// Tests that a worker does not receive jobs of other queues and spaces.
pub async fn queues_and_spaces_are_apart(queues: &Queues) {
    let (queue, other) = (queues.open().await, queues.open_other().await);
    push(&*queue, "a").await;
    assert!(queue.lease("workshop", 1, NONE).await.unwrap().is_empty());
    assert_none(&*other).await;
    assert_eq!(push(&*other, "a").await, Pushed::Added);
    assert_eq!(queue.push("workshop", NewJob::new("a", "x")).await.unwrap(), Pushed::Added);
    assert_eq!(queue.depth("workshop").await.unwrap().waiting, 1);
    assert_eq!(lease(&*queue).await.id(), "a");
}

/// Tests that `depth` counts the waiting, leased and dead jobs separately.
pub async fn depth_counts_each_kind(queues: &Queues) {
    let queue = queues.open().await;
    for id in ["a", "b", "c", "d"] {
        push(&*queue, id).await;
    }
    queue.push("work", NewJob::new("e", "x").with_delay(Duration::from_secs(600))).await.unwrap();
    let first = lease(&*queue).await;
    queue.bury(&first.lease).await.unwrap();
    let _held = lease(&*queue).await;
    let expected = Depth { waiting: 3, leased: 1, dead: 1, estimated: false };
    if queues.is_exact() {
        // The counts can be slightly out of date.
        for _ in 0..40 {
            if queue.depth("work").await.unwrap() == expected {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(queue.depth("work").await.unwrap(), expected);
    } else {
        let depth = queue.depth("work").await.unwrap();
        assert_eq!(depth.waiting + depth.leased + depth.dead, 5);
    }
}

/// Tests that `depth` is exact for a thousand jobs, which are more jobs than some engines list in one response.
pub async fn depth_is_exact_for_a_thousand_jobs(queues: &Queues) {
    const JOBS: u64 = 1_100;
    let queue = queues.open().await;
    let pushes = (0..JOBS).map(|number| {
        let queue = Arc::clone(&queue);
        async move { push(&*queue, &format!("job-{number}")).await }
    });
    futures_util::stream::iter(pushes).buffer_unordered(32).collect::<Vec<_>>().await;
    let expected = Depth { waiting: JOBS, ..Depth::default() };
    for _ in 0..40 {
        if queue.depth("work").await.unwrap() == expected {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(queue.depth("work").await.unwrap(), expected);
}

/// Tests that `ping` succeeds for a queue with or without jobs, and that `ping` does not change the jobs.
pub async fn ping_answers_and_changes_nothing(queues: &Queues) {
    let queue = queues.open().await;
    queue.ping().await.unwrap();
    push(&*queue, "a").await;
    queue.ping().await.unwrap();
    assert_eq!(lease(&*queue).await.id(), "a");
    assert_none(&*queue).await;
}

/// Tests that a payload can contain any bytes.
pub async fn any_payload_is_kept(queues: &Queues) {
    let queue = queues.open().await;
    let every = Bytes::from((0..=255).collect::<Vec<u8>>());
    for payload in [Bytes::new(), every, Bytes::from(vec![7; MAX_PAYLOAD])] {
        queue.push("work", NewJob::new("a", payload.clone())).await.unwrap();
        let job = lease(&*queue).await;
        assert!(job.payload == payload, "the payload came back different");
        queue.ack(&job.lease).await.unwrap();
    }
}

/// Tests that every queue returns the same errors for invalid names and for payloads that are too large.
pub async fn bad_names_and_large_payloads_are_refused(queues: &Queues) {
    let queue = queues.open().await;
    for name in ["", "a/b", "a b", "a.b", "ä"] {
        let job = queue.push("work", NewJob::new(name, "x")).await;
        assert!(matches!(job, Err(Error::BadName { .. })), "`{name}`: {job:?}");
        let pushed = queue.push(name, NewJob::new("a", "x")).await;
        assert!(matches!(pushed, Err(Error::BadName { .. })), "`{name}`: {pushed:?}");
        let leased = queue.lease(name, 1, Duration::ZERO).await;
        assert!(matches!(leased, Err(Error::BadName { .. })), "`{name}`: {leased:?}");
    }
    let large = queue.push("work", NewJob::new("a", vec![0; MAX_PAYLOAD + 1])).await;
    assert!(matches!(large, Err(Error::TooLarge { .. })), "{large:?}");
    assert_none(&*queue).await;
}
