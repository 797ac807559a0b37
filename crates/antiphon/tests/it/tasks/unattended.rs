//! Runs that nobody looks at: no client polls, and nobody is there to repair what was lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use antiphon::{
    Error, ServerBuilder,
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::{TaskConfig, TaskPolicy},
};
use antiphon_store::{
    Backend, Cursor, DeadJob, Depth, Job, Lease, Memory, NewJob, Page, Pushed, Queue, QueueConfig,
    Result as StoreResult,
};
use serde_json::json;

use super::{accept, begin, client, until};

#[derive(Debug, Deserialize, JsonSchema)]
struct Go {
    go: bool,
}

fn keys(number: u8) -> SealConfig {
    SealConfig::default().with_keys(KeyRing::new(number, [number; 32]))
}

fn backend() -> Backend {
    Memory::default().backend(QueueConfig::default().with_lease(Duration::from_millis(600)))
}

fn quick() -> TaskConfig {
    super::quick()
        .with_heartbeat_interval(Duration::from_millis(100))
        .with_repair_interval(Duration::from_millis(200))
}

fn replica(backend: &Backend, config: TaskConfig) -> ServerBuilder {
    Server::builder("fleet", "1.0.0").with_backend(backend.clone()).with_seal(keys(1)).with_tasks(config)
}

type Count = Arc<AtomicU32>;

/// Waits until an effect has happened so often.
async fn reaches(count: &Count, times: u32) {
    let waited = tokio::time::timeout(Duration::from_secs(10), async {
        while count.load(Ordering::SeqCst) < times {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.expect("the effect did not happen, and nobody was there to ask for it");
}

async fn sleeps(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.sleep(Duration::from_millis(1200)).await?;
    let count = Arc::clone(ctx.state::<Count>()?);
    ctx.step("effect", || async move { Ok(count.fetch_add(1, Ordering::SeqCst)) }).await?;
    Ok("woken".into())
}

fn sleeper() -> Tool {
    Tool::new("sleeps", "Sleeps", sleeps).with_tasks(TaskPolicy::Always)
}

async fn asks(ctx: &Ctx, _: ()) -> Result<String> {
    if !ctx.elicit::<Go>("Shall I?").await?.accepted()?.go {
        return Ok("no".into());
    }
    let count = Arc::clone(ctx.state::<Count>()?);
    ctx.step("effect", || async move { Ok(count.fetch_add(1, Ordering::SeqCst)) }).await?;
    Ok("asked".into())
}

#[cfg(feature = "http")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_start_when_the_server_is_served_over_http() {
    let (backend, count) = (backend(), Count::default());
    let front = replica(&backend, quick().with_workers(0)).tool(sleeper()).build().unwrap();
    let mut caller = client(&front).await;
    begin(&mut caller, "sleeps", json!({})).await;
    drop(caller);
    let server = replica(&backend, quick()).with_state(Arc::clone(&count)).tool(sleeper()).build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        server
            .serve_listener(listener, antiphon::http::HttpConfig::default(), async { drop(stopped.await) })
            .await
    });
    reaches(&count, 1).await;
    drop(stop);
    serving.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_that_one_replica_cannot_read_is_left_to_those_that_can() {
    let (backend, wrong, right) = (backend(), Count::default(), Count::default());
    let front = replica(&backend, quick().with_workers(0)).tool(sleeper()).build().unwrap();
    let mut caller = client(&front).await;
    for _ in 0..5 {
        begin(&mut caller, "sleeps", json!({})).await;
    }
    let other = replica(&backend, quick()).with_seal(keys(2)).with_state(Arc::clone(&wrong)).tool(sleeper());
    let other = other.build().unwrap();
    let working = tokio::spawn(async move { other.run_workers(std::future::pending()).await });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let good = replica(&backend, quick()).with_state(Arc::clone(&right)).tool(sleeper()).build().unwrap();
    let _good = tokio::spawn(async move { good.run_workers(std::future::pending()).await });
    reaches(&right, 5).await;
    assert_eq!(wrong.load(Ordering::SeqCst), 0);
    working.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_of_an_unreadable_task_is_not_told_that_there_is_none() {
    let backend = backend();
    let front = replica(&backend, quick().with_workers(0)).tool(sleeper()).build().unwrap();
    let mut caller = client(&front).await;
    let id = begin(&mut caller, "sleeps", json!({})).await;
    let other =
        replica(&backend, quick().with_workers(0)).with_seal(keys(2)).tool(sleeper()).build().unwrap();
    let mut caller = client(&other).await;
    let refused = super::refused(&mut caller, "tasks/get", json!({"taskId": id})).await;
    assert_eq!((refused.code, refused.message.contains("cannot read")), (-32603, true), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_that_sleeps_for_longer_than_results_are_kept_goes_on() {
    let (backend, count) = (backend(), Count::default());
    let config = quick().with_ttl(Duration::from_millis(200));
    let server = replica(&backend, config).with_state(Arc::clone(&count)).tool(sleeper()).build().unwrap();
    let mut caller = client(&server).await;
    let id = begin(&mut caller, "sleeps", json!({})).await;
    reaches(&count, 1).await;
    // The result is kept from the end of the run on.
    until(&mut caller, &id, "completed").await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let gone = caller.request("tasks/get", json!({"taskId": id})).await.unwrap_err();
    assert!(gone.to_string().contains("there is no such task"), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_that_nobody_answers_ends_as_failed_and_says_so() {
    let backend = backend();
    let config = quick().with_max_wait(Duration::from_millis(400));
    let tool = Tool::new("asks", "Asks", asks).with_tasks(TaskPolicy::Always);
    let server = replica(&backend, config).with_state(Count::default()).tool(tool).build().unwrap();
    let mut caller = client(&server).await;
    let id = begin(&mut caller, "asks", json!({})).await;
    until(&mut caller, &id, "input_required").await;
    let task = until(&mut caller, &id, "failed").await;
    assert!(task["error"]["message"].as_str().unwrap().contains("no answer arrived"), "{task}");
    let report = server.runs().unwrap().inspect(&format!("anyone/{id}")).await.unwrap().unwrap();
    assert!(report.timeline.iter().any(|event| event.what == "expired"), "{:?}", report.timeline);
}

async fn works(ctx: &Ctx, _: ()) -> Result<String> {
    let work = || async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        Ok(())
    };
    ctx.step("work", work).await?;
    Ok("worked".into())
}

fn worker() -> Tool {
    Tool::new("works", "Works", works).with_tasks(TaskPolicy::Always)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leg_that_takes_longer_than_a_run_may_wait_is_not_ended() {
    let config = quick().with_max_wait(Duration::from_millis(300));
    let server = replica(&backend(), config).tool(worker()).build().unwrap();
    let mut caller = client(&server).await;
    let id = begin(&mut caller, "works", json!({})).await;
    until(&mut caller, &id, "completed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_whose_tool_is_missing_fails_after_the_time_for_it_and_keeps_its_retries() {
    let backend = backend();
    let front = replica(&backend, quick().with_workers(0)).tool(worker()).build().unwrap();
    let mut caller = client(&front).await;
    let id = begin(&mut caller, "works", json!({})).await;
    let without = replica(&backend, quick().with_tool_wait(Duration::from_secs(1))).build().unwrap();
    let _without = tokio::spawn(async move { without.run_workers(std::future::pending()).await });
    let task = until(&mut caller, &id, "failed").await;
    let message = task["error"]["message"].as_str().unwrap();
    assert!(message.contains("no replica of the server has the tool `works`"), "{task}");
    let report = front.runs().unwrap().inspect(&format!("anyone/{id}")).await.unwrap().unwrap();
    let times = |what: &str| report.timeline.iter().filter(|event| event.what == what).count();
    assert_eq!((times("waits"), times("retried")), (1, 0), "{:?}", report.timeline);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_that_nobody_can_read_does_not_stop_other_runs() {
    let (backend, count) = (backend(), Count::default());
    let server = replica(&backend, quick()).with_state(Arc::clone(&count)).tool(sleeper()).build().unwrap();
    let mut caller = client(&server).await;
    begin(&mut caller, "sleeps", json!({})).await;
    let record = backend.store.list("tasks/", None, 1).await.unwrap().items.remove(0);
    let damaged = record.value.slice(..record.value.len() - 1);
    backend.store.update(&record.key, damaged, None, record.revision).await.unwrap();
    // Its job comes due, and again after 1 and 2 seconds.
    tokio::time::sleep(Duration::from_millis(5500)).await;
    begin(&mut caller, "sleeps", json!({})).await;
    reaches(&count, 1).await;
}

/// The job IDs of one process's pushes.
type Pushes = Arc<std::sync::Mutex<Vec<String>>>;

/// A queue that loses jobs: it says that they were added.
#[derive(Debug)]
struct Lossy(Arc<dyn Queue>, Arc<AtomicBool>, Pushes);

#[async_trait::async_trait]
impl Queue for Lossy {
    async fn push(&self, queue: &str, job: NewJob) -> StoreResult<Pushed> {
        self.2.lock().unwrap().push(job.id.clone());
        if self.1.swap(false, Ordering::SeqCst) {
            return Ok(Pushed::Added);
        }
        self.0.push(queue, job).await
    }

    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> StoreResult<Vec<Job>> {
        self.0.lease(queue, limit, wait).await
    }

    async fn extend(&self, lease: &Lease) -> StoreResult<()> {
        self.0.extend(lease).await
    }

    async fn ack(&self, lease: &Lease) -> StoreResult<()> {
        self.0.ack(lease).await
    }

    async fn nack(&self, lease: &Lease, delay: Duration) -> StoreResult<()> {
        self.0.nack(lease, delay).await
    }

    async fn bury(&self, lease: &Lease) -> StoreResult<()> {
        self.0.bury(lease).await
    }

    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> StoreResult<Page<DeadJob>> {
        self.0.dead(queue, after, limit).await
    }

    async fn revive(&self, queue: &str, id: &str) -> StoreResult<bool> {
        self.0.revive(queue, id).await
    }

    async fn discard(&self, queue: &str, id: &str) -> StoreResult<bool> {
        self.0.discard(queue, id).await
    }

    async fn depth(&self, queue: &str) -> StoreResult<Depth> {
        self.0.depth(queue).await
    }
}

/// A backend whose queue loses the next job when it is told to.
fn lossy() -> (Backend, Arc<AtomicBool>) {
    let (mut backend, lose) = (backend(), Arc::new(AtomicBool::new(false)));
    backend.queue = Arc::new(Lossy(Arc::clone(&backend.queue), Arc::clone(&lose), Pushes::default()));
    (backend, lose)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leg_that_waits_for_its_turn_has_few_jobs() {
    let (mut backend, pushes) = (backend(), Pushes::default());
    let queue = Lossy(Arc::clone(&backend.queue), Arc::default(), Arc::clone(&pushes));
    backend.queue = Arc::new(queue);
    let server = replica(&backend, quick().with_per_tool(1)).tool(worker()).build().unwrap();
    let mut caller = client(&server).await;
    let ids = [begin(&mut caller, "works", json!({})).await, begin(&mut caller, "works", json!({})).await];
    for id in &ids {
        until(&mut caller, id, "completed").await;
    }
    let pushes = pushes.lock().unwrap().clone();
    // One of them was queued again while the other had the only place.
    assert!(pushes.len() > 2, "{pushes:?}");
    let is_known = |id: &String| {
        ids.iter().any(|task| ["~1", "~1~again", "~1~once-more"].contains(&id.trim_start_matches(task)))
    };
    assert!(pushes.iter().all(is_known), "{pushes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_lost_at_the_beginning_is_queued_again_without_a_poll() {
    let ((backend, lose), count) = (lossy(), Count::default());
    let server = replica(&backend, quick()).with_state(Arc::clone(&count)).tool(sleeper()).build().unwrap();
    let mut caller = client(&server).await;
    lose.store(true, Ordering::SeqCst);
    begin(&mut caller, "sleeps", json!({})).await;
    reaches(&count, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_up_that_was_lost_is_queued_again_without_a_poll() {
    let ((backend, lose), count) = (lossy(), Count::default());
    let front = replica(&backend, quick().with_workers(0)).tool(sleeper()).build().unwrap();
    let mut caller = client(&front).await;
    begin(&mut caller, "sleeps", json!({})).await;
    // The next job to be queued is the one that ends the sleep.
    lose.store(true, Ordering::SeqCst);
    let worker = replica(&backend, quick()).with_state(Arc::clone(&count)).tool(sleeper()).build().unwrap();
    let _worker = tokio::spawn(async move { worker.run_workers(std::future::pending()).await });
    reaches(&count, 1).await;
    assert!(!lose.load(Ordering::SeqCst), "a job was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_of_an_answer_that_was_lost_is_queued_again_without_a_poll() {
    let ((backend, lose), count) = (lossy(), Count::default());
    let tool = Tool::new("asks", "Asks", asks).with_tasks(TaskPolicy::Always);
    let server = replica(&backend, quick()).with_state(Arc::clone(&count)).tool(tool).build().unwrap();
    let mut caller = client(&server).await;
    let id = begin(&mut caller, "asks", json!({})).await;
    until(&mut caller, &id, "input_required").await;
    // Its alarm is set for the time at which nobody has answered.
    tokio::time::sleep(Duration::from_millis(600)).await;
    lose.store(true, Ordering::SeqCst);
    super::answer(&mut caller, &id, json!({"go": accept(json!({"go": true}))})).await;
    drop(caller);
    reaches(&count, 1).await;
}

#[tokio::test]
async fn request_about_a_task_that_does_not_exist_writes_nothing() {
    let backend = backend();
    let server = replica(&backend, quick()).tool(sleeper()).build().unwrap();
    let mut caller = client(&server).await;
    let made_up = "0123456789abcdef0123456789abcdef";
    let answers = json!({"taskId": made_up, "inputResponses": {"key": accept(json!({"go": true}))}});
    caller.request("tasks/update", answers).await.unwrap_err();
    caller.request("tasks/cancel", json!({"taskId": made_up})).await.unwrap_err();
    server.runs().unwrap().retry(&format!("anyone/{made_up}")).await.unwrap();
    let alarms = backend.store.list("due/", None, 10).await.unwrap().items;
    assert!(alarms.is_empty(), "{alarms:?}");
    // The same key with a run has an alarm, so the list above shows something.
    begin(&mut caller, "sleeps", json!({})).await;
    assert_eq!(backend.store.list("due/", None, 10).await.unwrap().items.len(), 1);
}

async fn charges(ctx: &Ctx, _: ()) -> Result<String> {
    let count = Arc::clone(ctx.state::<Count>()?);
    let charge = async move |_: String| -> Result<()> {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
        Err(Error::tool("never"))
    };
    ctx.step_with_key("charge", charge).at_most_once().await?;
    Ok("charged".into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_at_most_once_is_not_taken_again_though_its_claim_in_the_store_is_gone() {
    let (backend, count) = (backend(), Count::default());
    let build = |config: TaskConfig| {
        let tool = Tool::new("charges", "Charges", charges).with_tasks(TaskPolicy::Always);
        replica(&backend, config).with_state(Arc::clone(&count)).tool(tool).build().unwrap()
    };
    let front = build(quick().with_workers(0));
    let mut caller = client(&front).await;
    let id = begin(&mut caller, "charges", json!({})).await;
    let dying = build(quick());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.spawn(async move { dying.run_workers(std::future::pending()).await });
    reaches(&count, 1).await;
    runtime.shutdown_background();
    // The outage lasts longer than claims in the store do.
    let claims = backend.store.list("step/", None, 10).await.unwrap().items;
    assert_eq!(claims.len(), 1);
    backend.store.delete(&claims[0].key, claims[0].revision).await.unwrap();
    let worker = build(quick());
    let _worker = tokio::spawn(async move { worker.run_workers(std::future::pending()).await });
    let task = until(&mut caller, &id, "completed").await;
    let said = task["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("step `charge` has an unknown outcome"), "{task}");
    assert_eq!(count.load(Ordering::SeqCst), 1, "the step was taken again");
}

async fn grows(ctx: &Ctx, _: ()) -> Result<String> {
    let mut seed = 7_u64;
    for number in 0..6 {
        let text = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{seed:016x}")
        });
        let text: String = text.take(20_000).collect();
        ctx.step(&format!("step {number}"), || async { Ok(text) }).await?;
    }
    Ok("grown".into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_run_is_found_while_it_is_written() {
    // Encrypting a large record takes a debug build longer than the lease of the other tests.
    let backend = Memory::default().backend(QueueConfig::default());
    let tool = Tool::new("grows", "Grows", grows).with_tasks(TaskPolicy::Always);
    let server = replica(&backend, quick()).tool(tool).build().unwrap();
    let mut caller = client(&server).await;
    let id = begin(&mut caller, "grows", json!({})).await;
    loop {
        // It fails here if the task is said to be gone.
        let task = super::get(&mut caller, &id).await;
        if task["status"] == "completed" {
            break;
        }
        assert_eq!(task["status"], "working", "{task}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn ring_with_two_keys_of_one_number_is_refused() {
    let ring = KeyRing::new(1, [1; 32]).with_decryption_key(1, [2; 32]);
    let refused = Server::builder("fleet", "1.0.0").with_seal(SealConfig::default().with_keys(ring)).build();
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("two keys numbered 1"), "{refused}");
    let text = format!("1={},1={}", "01".repeat(32), "02".repeat(32));
    let wrong = text.parse::<KeyRing>().unwrap_err();
    assert!(wrong.to_string().contains("two keys numbered 1"), "{wrong}");
}
