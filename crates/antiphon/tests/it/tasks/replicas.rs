//! Tasks of several replicas, some of which die.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use antiphon::{
    Error, ErrorKind, ServerBuilder,
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::{TaskConfig, TaskPolicy},
};
use antiphon_store::{Backend, Memory, QueueConfig};
use serde_json::json;
use tokio::sync::Semaphore;

use super::{accept, answer, begin, client, get, until};

#[derive(Debug, Deserialize, JsonSchema)]
struct Go {
    go: bool,
}

/// What replicas share: a backend whose leases are short, and keys.
struct Fleet {
    backend: Backend,
    keys: KeyRing,
}

impl Fleet {
    fn new() -> Self {
        let queue = QueueConfig::default().with_lease(Duration::from_millis(600));
        Self { backend: Memory::default().backend(queue), keys: KeyRing::new(1, [7; 32]) }
    }

    fn replica(&self, config: TaskConfig) -> ServerBuilder {
        let seal = SealConfig::default().with_keys(self.keys.clone());
        Server::builder("fleet", "1.0.0")
            .with_backend(self.backend.clone())
            .with_seal(seal)
            .with_tasks(config)
    }
}

fn quick() -> TaskConfig {
    super::quick().with_heartbeat_interval(Duration::from_millis(100))
}

/// A worker with a runtime of its own, so that it can die as a process does.
struct Worker(Option<tokio::runtime::Runtime>);

impl Worker {
    fn start(server: Server) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move { server.run_workers(std::future::pending()).await });
        Self(Some(runtime))
    }

    fn kill(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What tools of these tests do to the world.
#[derive(Default)]
struct World {
    begun: AtomicU32,
    done: AtomicU32,
    most: AtomicU32,
    now: AtomicU32,
    cleaned: AtomicU32,
}

type Shared = Arc<World>;

async fn two_steps(ctx: &Ctx, _: ()) -> Result<String> {
    let world = Arc::clone(ctx.state::<Shared>()?);
    let first = ctx.step("first", || async { Ok(world.begun.fetch_add(1, Ordering::SeqCst)) }).await?;
    let world = Arc::clone(ctx.state::<Shared>()?);
    ctx.step("second", || async {
        // The first time around it never ends.
        if world.done.fetch_add(1, Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        Ok(())
    })
    .await?;
    Ok(format!("first was {first}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_worker_goes_on_where_one_has_died_and_takes_no_step_again_that_had_ended() {
    let (fleet, world) = (Fleet::new(), Shared::default());
    let tool = || Tool::new("two", "Takes two steps", two_steps).with_tasks(TaskPolicy::Always);
    let worker =
        || Worker::start(fleet.replica(quick()).with_state(Arc::clone(&world)).tool(tool()).build().unwrap());
    let front = fleet.replica(quick().with_workers(0)).tool(tool()).build().unwrap();
    let mut client = client(&front).await;
    let mut first = worker();
    let id = begin(&mut client, "two", json!({})).await;
    while world.done.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.kill();
    let _second = worker();
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "first was 0");
    assert_eq!(world.begun.load(Ordering::SeqCst), 1, "a step that had ended was taken again");
    assert_eq!(world.done.load(Ordering::SeqCst), 2);
}

async fn patient(ctx: &Ctx, _: ()) -> Result<String> {
    let world = Arc::clone(ctx.state::<Shared>()?);
    let worked = ctx.step("work", || async {
        world.begun.fetch_add(1, Ordering::SeqCst);
        for _ in 0..600 {
            if ctx.is_cancelled() {
                return Err(Error::tool("stopped").terminal());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    });
    if worked.await.is_err() && ctx.is_cancelled() {
        let refused = ctx.elicit::<Go>("Shall I?").await;
        assert!(matches!(refused.unwrap_err().kind(), ErrorKind::Cancelled));
        let world = Arc::clone(ctx.state::<Shared>()?);
        ctx.step("clean up", || async { Ok(world.cleaned.fetch_add(1, Ordering::SeqCst)) }).await?;
    }
    Ok("never seen".into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancellation_reaches_a_leg_on_another_replica_within_a_second() {
    let (fleet, world) = (Fleet::new(), Shared::default());
    let tool = || Tool::new("patient", "Works for long", patient).with_tasks(TaskPolicy::Always);
    // Nothing but the announcement can tell it so soon.
    let config = quick().with_heartbeat_interval(Duration::from_millis(190));
    let _worker =
        Worker::start(fleet.replica(config).with_state(Arc::clone(&world)).tool(tool()).build().unwrap());
    let front = fleet.replica(quick().with_workers(0)).tool(tool()).build().unwrap();
    let mut client = client(&front).await;
    let id = begin(&mut client, "patient", json!({})).await;
    while world.begun.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let asked = Instant::now();
    client.request("tasks/cancel", json!({"taskId": id})).await.unwrap();
    assert_eq!(get(&mut client, &id).await["status"], "cancelled");
    while world.cleaned.load(Ordering::SeqCst) == 0 {
        assert!(asked.elapsed() < Duration::from_secs(1), "it was not told within a second");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // However it ends, it stays cancelled.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(get(&mut client, &id).await["status"], "cancelled");
}

async fn busy(ctx: &Ctx, _: ()) -> Result<String> {
    let world = Arc::clone(ctx.state::<Shared>()?);
    ctx.step("work", || async {
        let now = world.now.fetch_add(1, Ordering::SeqCst) + 1;
        world.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(30)).await;
        world.now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    })
    .await?;
    Ok("done".into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_legs_of_a_tool_run_at_once_than_it_may_have() {
    let (fleet, world) = (Fleet::new(), Shared::default());
    let tool = Tool::new("busy", "Is busy", busy).with_tasks(TaskPolicy::Always);
    let server =
        fleet.replica(quick().with_per_tool(2)).with_state(Arc::clone(&world)).tool(tool).build().unwrap();
    let mut client = client(&server).await;
    let mut tasks = Vec::new();
    for _ in 0..12 {
        tasks.push(begin(&mut client, "busy", json!({})).await);
    }
    for id in &tasks {
        until(&mut client, id, "completed").await;
    }
    assert_eq!(world.most.load(Ordering::SeqCst), 2);
}

static GATE: Semaphore = Semaphore::const_new(0);

async fn gated(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.step("wait", || async {
        GATE.acquire().await?.forget();
        Ok(())
    })
    .await?;
    Ok("through".into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_tool_with_many_runs_keeps_no_other_waiting() {
    let (fleet, world) = (Fleet::new(), Shared::default());
    // Two hands; forty runs want one each and hold it, of a tool that may have one.
    let config = quick().with_workers(2).with_per_tool(1).with_shards(64);
    let server = fleet
        .replica(config)
        .with_state(Arc::clone(&world))
        .tool(Tool::new("gated", "Waits at a gate", gated).with_tasks(TaskPolicy::Always))
        .tool(Tool::new("busy", "Is busy", busy).with_tasks(TaskPolicy::Always))
        .build()
        .unwrap();
    let mut client = client(&server).await;
    let mut waiting = Vec::new();
    for _ in 0..40 {
        waiting.push(begin(&mut client, "gated", json!({})).await);
    }
    let id = begin(&mut client, "busy", json!({})).await;
    until(&mut client, &id, "completed").await;
    GATE.add_permits(40);
    for id in waiting {
        until(&mut client, &id, "completed").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_task_is_created_where_too_many_wait() {
    let fleet = Fleet::new();
    let tool = Tool::new("busy", "Is busy", busy).with_tasks(TaskPolicy::Always);
    let front = fleet.replica(quick().with_workers(0).with_max_queued(0)).tool(tool).build().unwrap();
    let mut client = client(&front).await;
    begin(&mut client, "busy", json!({})).await;
    // How many wait is counted now and then.
    tokio::time::sleep(Duration::from_millis(5200)).await;
    let refused = client.request("tools/call", json!({"name": "busy", "arguments": {}})).await.unwrap_err();
    assert!(refused.to_string().contains("try again later"), "{refused}");
}

async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
    let go = ctx.elicit::<Go>("Shall I?").await?.accepted()?.go;
    Ok(go.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_goes_in_at_one_replica_and_the_next_leg_runs_at_another() {
    let fleet = Fleet::new();
    let tool = || Tool::new("ask", "Asks", ask).with_tasks(TaskPolicy::Always);
    let mut first = Worker::start(fleet.replica(quick()).tool(tool()).build().unwrap());
    let (one, two) = (
        fleet.replica(quick().with_workers(0)).tool(tool()).build().unwrap(),
        fleet.replica(quick().with_workers(0)).tool(tool()).build().unwrap(),
    );
    let (mut here, mut there) = (client(&one).await, client(&two).await);
    let id = begin(&mut here, "ask", json!({})).await;
    until(&mut there, &id, "input_required").await;
    first.kill();
    answer(&mut there, &id, json!({"go": accept(json!({"go": true}))})).await;
    let _second = Worker::start(fleet.replica(quick()).tool(tool()).build().unwrap());
    let task = until(&mut here, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_is_gone_when_its_time_is_over() {
    let fleet = Fleet::new();
    let tool = Tool::new("ask", "Asks", ask).with_tasks(TaskPolicy::Always);
    let server = fleet.replica(quick().with_ttl(Duration::from_millis(1500))).tool(tool).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "ask", json!({})).await;
    until(&mut client, &id, "input_required").await;
    answer(&mut client, &id, json!({"go": accept(json!({"go": true}))})).await;
    until(&mut client, &id, "completed").await;
    tokio::time::sleep(Duration::from_millis(1600)).await;
    let gone = client.request("tasks/get", json!({"taskId": id})).await.unwrap_err();
    assert!(gone.to_string().contains("there is no such task"), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_that_became_a_task_goes_on_when_the_process_dies_in_which_it_did() {
    let (fleet, world) = (Fleet::new(), Shared::default());
    let config = || quick().with_promote_after(Duration::from_millis(50));
    let build = |config: TaskConfig| {
        let tool = Tool::new("promoted", "Takes long", two_steps);
        fleet.replica(config).with_state(Arc::clone(&world)).tool(tool).build().unwrap()
    };
    let dying = build(config().with_workers(0));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let id = runtime
        .spawn(async move {
            let mut client = client(&dying).await;
            begin(&mut client, "promoted", json!({})).await
        })
        .await
        .unwrap();
    while world.done.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    runtime.shutdown_background();
    let other = build(config());
    let mut client = client(&other).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "first was 0");
    assert_eq!(world.begun.load(Ordering::SeqCst), 1);
}

async fn large(ctx: &Ctx, _: ()) -> Result<String> {
    let mut seed = 7_u64;
    let mut text = String::new();
    // Nothing that compresses.
    while text.len() < 700_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        write!(text, "{seed:016x}").unwrap();
    }
    let kept: String = ctx.step("large", || async { Ok(text) }).await?;
    ctx.elicit::<Go>("Shall I?").await?.accepted()?;
    Ok(kept.len().to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_too_large_for_one_record_is_kept_in_pieces() {
    let fleet = Fleet::new();
    let tool = Tool::new("large", "Is large", large).with_tasks(TaskPolicy::Always);
    let server = fleet.replica(quick()).tool(tool).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "large", json!({})).await;
    until(&mut client, &id, "input_required").await;
    answer(&mut client, &id, json!({"go": accept(json!({"go": true}))})).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "700000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_over_which_workers_die_is_given_up_and_an_operator_can_have_it_tried_again() {
    let fleet = Fleet::new();
    let tool = || Tool::new("two", "Takes two steps", forever).with_tasks(TaskPolicy::Always);
    let config = || quick().with_max_worker_deaths(2);
    let front = fleet.replica(config().with_workers(0)).tool(tool()).build().unwrap();
    let mut client = client(&front).await;
    let id = begin(&mut client, "two", json!({})).await;
    for _ in 0..2 {
        let began = FOREVER.load(Ordering::SeqCst);
        let mut worker = Worker::start(fleet.replica(config()).tool(tool()).build().unwrap());
        while FOREVER.load(Ordering::SeqCst) == began {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        worker.kill();
    }
    let _last = Worker::start(fleet.replica(config()).tool(tool()).build().unwrap());
    let task = until(&mut client, &id, "failed").await;
    assert!(task["error"]["message"].as_str().unwrap().contains("2 workers died"), "{task}");
    let runs = front.runs().unwrap();
    let page = runs.list(None, None, 10).await.unwrap();
    assert!(page.runs[0].dead);
    runs.retry(&page.runs[0].run).await.unwrap();
    until(&mut client, &id, "working").await;
}

/// Counts the runs of its only step, which takes two seconds.
async fn long_step(ctx: &Ctx, _: ()) -> Result<String> {
    let world = Arc::clone(ctx.state::<Shared>()?);
    ctx.step("long", || async {
        world.begun.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(())
    })
    .await?;
    Ok("done".into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_store_does_not_delay_the_extension_of_a_lease() {
    let (fleet, world) = (Fleet::new(), Shared::default());
    let tool = || Tool::new("long", "Takes a long step", long_step).with_tasks(TaskPolicy::Always);
    let worker = |fleet: &Fleet| {
        Worker::start(fleet.replica(quick()).with_state(Arc::clone(&world)).tool(tool()).build().unwrap())
    };
    let front = fleet.replica(quick().with_workers(0)).tool(tool()).build().unwrap();
    let mut client = client(&front).await;
    let id = begin(&mut client, "long", json!({})).await;
    let (inner, before) = (Arc::clone(&fleet.backend.store), Duration::from_secs(1));
    let mut slow = Fleet { backend: fleet.backend.clone(), keys: fleet.keys.clone() };
    slow.backend.store = Arc::new(slow::SlowTasks { inner, before, after: Duration::ZERO });
    let _first = worker(&slow);
    while world.begun.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let _second = worker(&fleet);
    until(&mut client, &id, "completed").await;
    assert_eq!(world.begun.load(Ordering::SeqCst), 1);
}

async fn one_step(ctx: &Ctx, _: ()) -> Result<String> {
    let world = Arc::clone(ctx.state::<Shared>()?);
    ctx.step("only", || async { Ok(world.begun.fetch_add(1, Ordering::SeqCst)) }).await?;
    Ok("done".into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_whose_hold_was_written_late_takes_no_step() {
    let (fleet, world) = (Fleet::new(), Shared::default());
    let tool = || Tool::new("one", "Takes one step", one_step).with_tasks(TaskPolicy::Always);
    let worker = |fleet: &Fleet| {
        Worker::start(fleet.replica(quick()).with_state(Arc::clone(&world)).tool(tool()).build().unwrap())
    };
    let front = fleet.replica(quick().with_workers(0)).tool(tool()).build().unwrap();
    let mut client = client(&front).await;
    let id = begin(&mut client, "one", json!({})).await;
    // The worker of an overdue job first marks the run as held.
    tokio::time::sleep(Duration::from_millis(3200)).await;
    let after = Duration::from_millis(1500);
    let (inner, queue) = (Arc::clone(&fleet.backend.store), Arc::clone(&fleet.backend.queue));
    let mut slow = Fleet { backend: fleet.backend.clone(), keys: fleet.keys.clone() };
    slow.backend.store = Arc::new(slow::SlowTasks { inner, before: Duration::ZERO, after });
    slow.backend.queue = Arc::new(slow::LateExtensions(queue, after));
    let _first = worker(&slow);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let _second = worker(&fleet);
    until(&mut client, &id, "completed").await;
    // By now, the first worker has got its reply.
    tokio::time::sleep(2 * after).await;
    assert_eq!(world.begun.load(Ordering::SeqCst), 1);
}

static FOREVER: AtomicU32 = AtomicU32::new(0);

async fn forever(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.step("hang", || async {
        FOREVER.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(())
    })
    .await?;
    Ok("never".into())
}

/// A store and a queue that are slow.
mod slow {
    use std::{sync::Arc, time::Duration};

    use antiphon_store::{
        Cursor, DeadJob, Depth, Job, Lease, NewJob, Page, Pushed, Queue, Record, Result, Revision, Store,
    };
    use bytes::Bytes;
    use tokio::time::sleep;

    /// A store that is slow to reply that a record was updated, and that replicas share.
    #[derive(Debug)]
    pub(super) struct Slow(pub(super) Arc<dyn Store>, pub(super) Duration);

    /// A store of one process whose calls for task records are slow: before the call, and after an update.
    #[derive(Debug)]
    pub(super) struct SlowTasks {
        pub(super) inner: Arc<dyn Store>,
        pub(super) before: Duration,
        pub(super) after: Duration,
    }

    impl SlowTasks {
        async fn wait(key: &str, time: Duration) {
            if key.starts_with("tasks/") && !time.is_zero() {
                sleep(time).await;
            }
        }
    }

    #[async_trait::async_trait]
    impl Store for SlowTasks {
        fn is_shared(&self) -> bool {
            false
        }

        async fn get(&self, key: &str) -> Result<Option<Record>> {
            Self::wait(key, self.before).await;
            self.inner.get(key).await
        }

        async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
            self.inner.create(key, value, ttl).await
        }

        async fn update(
            &self,
            key: &str,
            value: Bytes,
            ttl: Option<Duration>,
            revision: Revision,
        ) -> Result<Revision> {
            Self::wait(key, self.before).await;
            let updated = self.inner.update(key, value, ttl, revision).await;
            Self::wait(key, self.after).await;
            updated
        }

        async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
            self.inner.delete(key, revision).await
        }

        async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
            self.inner.list(prefix, after, limit).await
        }

        async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
            self.inner.claim_expired(prefix, lease, limit).await
        }

        async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
            self.inner.append(log, at, entries).await
        }

        async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
            self.inner.read(log, from, limit).await
        }

        async fn delete_log(&self, log: &str) -> Result<()> {
            self.inner.delete_log(log).await
        }
    }

    /// A queue in which leases are extended late.
    #[derive(Debug)]
    pub(super) struct LateExtensions(pub(super) Arc<dyn Queue>, pub(super) Duration);

    #[async_trait::async_trait]
    impl Queue for LateExtensions {
        async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed> {
            self.0.push(queue, job).await
        }

        async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
            self.0.lease(queue, limit, wait).await
        }

        async fn extend(&self, lease: &Lease) -> Result<()> {
            sleep(self.1).await;
            self.0.extend(lease).await
        }

        async fn ack(&self, lease: &Lease) -> Result<()> {
            self.0.ack(lease).await
        }

        async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()> {
            self.0.nack(lease, delay).await
        }

        async fn bury(&self, lease: &Lease) -> Result<()> {
            self.0.bury(lease).await
        }

        async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>> {
            self.0.dead(queue, after, limit).await
        }

        async fn revive(&self, queue: &str, id: &str) -> Result<bool> {
            self.0.revive(queue, id).await
        }

        async fn discard(&self, queue: &str, id: &str) -> Result<bool> {
            self.0.discard(queue, id).await
        }

        async fn depth(&self, queue: &str) -> Result<Depth> {
            self.0.depth(queue).await
        }
    }

    #[async_trait::async_trait]
    impl Store for Slow {
        fn is_shared(&self) -> bool {
            true
        }

        async fn get(&self, key: &str) -> Result<Option<Record>> {
            self.0.get(key).await
        }

        async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
            self.0.create(key, value, ttl).await
        }

        async fn update(
            &self,
            key: &str,
            value: Bytes,
            ttl: Option<Duration>,
            revision: Revision,
        ) -> Result<Revision> {
            let updated = self.0.update(key, value, ttl, revision).await;
            sleep(self.1).await;
            updated
        }

        async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
            self.0.delete(key, revision).await
        }

        async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
            self.0.list(prefix, after, limit).await
        }

        async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
            self.0.claim_expired(prefix, lease, limit).await
        }

        async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
            self.0.append(log, at, entries).await
        }

        async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
            self.0.read(log, from, limit).await
        }

        async fn delete_log(&self, log: &str) -> Result<()> {
            self.0.delete_log(log).await
        }
    }
}

#[cfg(feature = "http")]
async fn counted(ctx: &Ctx, _: ()) -> Result<String> {
    let world = Arc::clone(ctx.state::<Shared>()?);
    world.begun.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(400)).await;
    Ok("done".into())
}

#[cfg(feature = "http")]
#[tokio::test]
async fn run_that_ends_while_its_beat_is_written_is_not_run_again() {
    let (mut fleet, world) = (Fleet::new(), Shared::default());
    fleet.backend.store = Arc::new(slow::Slow(Arc::clone(&fleet.backend.store), Duration::from_millis(200)));
    let config = super::quick().with_promote_after(Duration::from_millis(100));
    let tool = Tool::new("counted", "Takes long", counted);
    let server = fleet.replica(config).with_state(Arc::clone(&world)).tool(tool).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "counted", json!({})).await;
    until(&mut client, &id, "completed").await;
    assert_eq!(world.begun.load(Ordering::SeqCst), 1);
}

#[cfg(feature = "http")]
#[test]
fn shared_backend_with_a_random_key_ring_is_refused() {
    let mut backend = Memory::default().backend(QueueConfig::default());
    Server::builder("fleet", "1.0.0").with_backend(backend.clone()).build().unwrap();
    backend.store = Arc::new(slow::Slow(Arc::clone(&backend.store), Duration::ZERO));
    let refused = Server::builder("fleet", "1.0.0").with_backend(backend).build().unwrap_err().to_string();
    assert!(refused.contains("give all replicas one `KeyRing`"), "{refused}");
}

#[cfg(feature = "http")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_whose_key_ring_does_not_fit_is_unready_and_creates_no_tasks() {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt as _;

    let mut fleet = Fleet::new();
    fleet.backend.store = Arc::new(slow::Slow(Arc::clone(&fleet.backend.store), Duration::ZERO));
    let tool = || Tool::new("ask", "Asks", ask).with_tasks(TaskPolicy::Always);
    let ready = async |server: &Server| {
        let request = Request::get("/readyz").body(Body::empty()).unwrap();
        server
            .health_router(antiphon::http::Health::default())
            .oneshot(request)
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    let good = fleet.replica(quick()).tool(tool()).build().unwrap();
    let mut caller = client(&good).await;
    let id = begin(&mut caller, "ask", json!({})).await;
    until(&mut caller, &id, "input_required").await;
    // It encrypts with a key that the first one lacks: the rotation skipped a step.
    let ahead = KeyRing::new(2, [8; 32]).with_decryption_key(1, [7; 32]);
    for ring in [KeyRing::new(1, [9; 32]), ahead] {
        let bad = fleet.replica(quick()).with_seal(SealConfig::default().with_keys(ring)).tool(tool());
        let bad = bad.build().unwrap();
        let mut caller = client(&bad).await;
        while ready(&bad).await == 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let refused =
            super::refused(&mut caller, "tools/call", json!({"name": "ask", "arguments": {}})).await;
        assert!(refused.message.contains("cannot create tasks now"), "{refused:?}");
    }
    assert_eq!(ready(&good).await, 200);
}

/// Begins, and ends only if it is begun a second time.
async fn second_time(ctx: &Ctx, _: ()) -> Result<String> {
    let world = Arc::clone(ctx.state::<Shared>()?);
    let first = ctx.step("first", || async { Ok(world.begun.fetch_add(1, Ordering::SeqCst)) }).await?;
    if world.done.fetch_add(1, Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
    Ok(format!("first was {first}"))
}

#[tokio::test]
async fn leg_that_outlasts_the_drain_is_handed_over_and_counts_as_no_death() {
    // A worker that only lost its lease would leave the run where it is for a minute.
    let queue = QueueConfig::default().with_lease(Duration::from_secs(60));
    let fleet = Fleet { backend: Memory::default().backend(queue), keys: KeyRing::random() };
    let world = Shared::default();
    let config = quick().with_drain(Duration::from_millis(300)).with_max_worker_deaths(1);
    let replica = |workers| {
        let tool = Tool::new("second", "Ends the second time", second_time).with_tasks(TaskPolicy::Always);
        let config = config.clone().with_workers(workers);
        fleet.replica(config).with_state(Arc::clone(&world)).tool(tool).build().unwrap()
    };
    let front = replica(0);
    let mut client = client(&front).await;
    let id = begin(&mut client, "second", json!({})).await;
    let first = replica(1);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn({
        let first = first.clone();
        async move { first.run_workers(async { drop(stopped.await) }).await }
    });
    while world.done.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let asked = Instant::now();
    drop(stop);
    working.await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    // The job is in the queue when the worker has ended: another has the run at once, and the first step is not taken again.
    let second = replica(1);
    tokio::spawn(async move { second.run_workers(std::future::pending()).await });
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "first was 0");
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    let runs = front.runs().unwrap();
    let run = runs.list(None, None, 10).await.unwrap().runs.remove(0).run;
    let report = runs.inspect(&run).await.unwrap().unwrap();
    let legs: Vec<_> = report.timeline.iter().filter(|event| event.what == "leg").collect();
    assert!(legs.iter().all(|leg| leg.detail.as_deref().unwrap().ends_with("attempt 1")), "{legs:?}");
}

#[cfg(feature = "http")]
#[tokio::test]
async fn server_that_is_served_over_http_hands_its_legs_over_before_it_ends() {
    let queue = QueueConfig::default().with_lease(Duration::from_secs(60));
    let fleet = Fleet { backend: Memory::default().backend(queue), keys: KeyRing::random() };
    let world = Shared::default();
    let config = quick().with_drain(Duration::from_millis(300));
    let replica = |workers| {
        let tool = Tool::new("second", "Ends the second time", second_time).with_tasks(TaskPolicy::Always);
        let config = config.clone().with_workers(workers);
        fleet.replica(config).with_state(Arc::clone(&world)).tool(tool).build().unwrap()
    };
    let front = replica(0);
    let mut client = client(&front).await;
    let first = replica(1);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn({
        let first = first.clone();
        async move {
            let ends = async { drop(stopped.await) };
            first.serve_listener(listener, antiphon::http::HttpConfig::default(), ends).await
        }
    });
    drop(first);
    let id = begin(&mut client, "second", json!({})).await;
    while world.done.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stop);
    serving.await.unwrap().unwrap();
    // The lease of the leg lasts a minute. Its job is in the queue, so that another has the run at once.
    let second = replica(1);
    tokio::spawn(async move { second.run_workers(std::future::pending()).await });
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "first was 0");
}
