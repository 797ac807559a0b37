//! An answer is good for the question it was given to, and once.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use antiphon::{
    Error,
    prelude::*,
    task::{RetryPolicy, RunChanged, TaskPolicy},
};
use serde_json::json;

use super::{accept, answer, begin, client, get, server, until};

#[derive(Deserialize, JsonSchema)]
struct Approval {
    ok: bool,
}

async fn approve(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.loop_with_state("payments", 0_u32, async |ctx, paid| {
        let approved = ctx.elicit::<Approval>(format!("Pay number {paid}?")).await?.accepted()?.ok;
        Ok(match (approved, paid) {
            (true, 0..3) => ControlFlow::Continue(paid + 1),
            _ => ControlFlow::Break(format!("{paid} paid")),
        })
    })
    .await
}

#[tokio::test]
async fn answer_to_one_turn_of_a_loop_is_not_the_answer_to_the_next() {
    let server =
        server().tool(Tool::new("approve", "Pays", approve).with_tasks(TaskPolicy::Always)).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "approve", json!({})).await;
    let task = until(&mut client, &id, "input_required").await;
    let first = task["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    answer(&mut client, &id, json!({first: accept(json!({"ok": true}))})).await;
    let task = until(&mut client, &id, "input_required").await;
    let asked = task["inputRequests"].as_object().unwrap();
    let (second, request) = asked.iter().next().unwrap();
    assert_eq!(request["params"]["message"], "Pay number 1?", "{task}");
    answer(&mut client, &id, json!({second.clone(): accept(json!({"ok": false}))})).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "1 paid");
}

static BROKEN: AtomicU32 = AtomicU32::new(0);

async fn breaks_once(ctx: &Ctx, _: ()) -> Result<String> {
    let ok = ctx.elicit::<Approval>("Go on?").await?.accepted()?.ok;
    match BROKEN.fetch_add(1, Ordering::SeqCst) {
        0 => Err(Error::protocol(-32000, "out of paper")),
        _ => Ok(format!("went on: {ok}")),
    }
}

#[tokio::test]
async fn failed_run_that_is_tried_again_asks_nobody_twice() {
    let tool = Tool::new("break", "Breaks once", breaks_once).with_tasks(TaskPolicy::Always);
    let server = server().tool(tool).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "break", json!({})).await;
    let task = until(&mut client, &id, "input_required").await;
    let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    answer(&mut client, &id, json!({key: accept(json!({"ok": true}))})).await;
    until(&mut client, &id, "failed").await;
    let runs = server.runs().unwrap();
    assert_eq!(runs.retry(&format!("anyone/{id}")).await.unwrap(), RunChanged::Done);
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "went on: true");
}

static BEGUN: AtomicU32 = AtomicU32::new(0);

async fn gone(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.elicit::<Approval>("Go on?").await?.accepted()?;
    BEGUN.fetch_add(1, Ordering::SeqCst);
    Err(Error::tool("not now"))
}

#[tokio::test]
async fn cancelled_task_whose_tool_is_gone_stays_cancelled() {
    let retry = RetryPolicy::default().with_backoff(Duration::from_millis(10));
    let tool = || Tool::new("gone", "Goes", gone).with_tasks(TaskPolicy::Always).with_retry(retry);
    let server = server().tool(tool()).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "gone", json!({})).await;
    until(&mut client, &id, "input_required").await;
    server.remove_tool("gone");
    client.request("tasks/cancel", json!({"taskId": id})).await.unwrap();
    for _ in 0..50 {
        assert_eq!(get(&mut client, &id).await["status"], "cancelled");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(BEGUN.load(Ordering::SeqCst), 0);
}

static TURNS: AtomicU32 = AtomicU32::new(0);
static ENDED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// A step that ends in the very poll in which something else wins the race against it.
async fn races(ctx: &Ctx, _: ()) -> Result<String> {
    let last: u32 = ctx
        .loop_with_state("turns", 0_u32, async |ctx, turn| {
            let step = ctx.step("take", || async move {
                tokio::task::yield_now().await;
                TURNS.fetch_add(1, Ordering::SeqCst);
                ENDED.store(true, Ordering::SeqCst);
                Ok(turn)
            });
            if turn > 0 {
                return Ok(ControlFlow::Break(step.await?));
            }
            tokio::select! {
                biased;
                taken = step => Ok(ControlFlow::Break(taken? + 100)),
                () = std::future::poll_fn(|_| {
                    let ended = ENDED.load(Ordering::SeqCst);
                    if ended { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
                }) => Ok(ControlFlow::Continue(turn + 1)),
            }
        })
        .await?;
    Ok(last.to_string())
}

#[tokio::test]
async fn step_of_one_turn_is_not_given_what_came_of_another() {
    let server =
        server().tool(Tool::new("races", "Races", races).with_tasks(TaskPolicy::Always)).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "races", json!({})).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "1");
    assert_eq!(TURNS.load(Ordering::SeqCst), 2);
}

static ACTS: tokio::sync::Notify = tokio::sync::Notify::const_new();
static GO_ON: tokio::sync::Notify = tokio::sync::Notify::const_new();

async fn acts(ctx: &Ctx, _: ()) -> Result<String> {
    let said = ctx.sample("Left or right?").await?.text();
    ctx.step("act", || async {
        ACTS.notify_one();
        GO_ON.notified().await;
        Ok(())
    })
    .await?;
    Ok(said)
}

#[tokio::test]
async fn what_a_provider_said_is_written_before_a_step_is_taken_on_it() {
    let server = server()
        .with_model(antiphon_llm::Scripted::new().say("left"))
        .tool(Tool::new("acts", "Acts", acts).with_tasks(TaskPolicy::Always))
        .build()
        .unwrap();
    let can = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client =
        antiphon::testing::Client::connect_with(&server, antiphon::testing::Revision::V2026_07_28, can)
            .await
            .unwrap();
    let id = begin(&mut client, "acts", json!({})).await;
    ACTS.notified().await;
    let report = server.runs().unwrap().inspect(&format!("anyone/{id}")).await.unwrap().unwrap();
    assert_eq!(report.journal.len(), 1, "{report:?}");
    GO_ON.notify_one();
    until(&mut client, &id, "completed").await;
}

#[cfg(feature = "http")]
mod lost_push {
    use std::sync::atomic::AtomicBool;

    use antiphon::Server;
    use antiphon_store::{
        Backend, Cursor, DeadJob, Depth, Error as StoreError, Job, Lease, Memory, MemoryQueue, NewJob, Page,
        Pushed, Queue, QueueConfig, Result as StoreResult,
    };

    use super::*;

    /// A queue that does not take the second job it is given.
    #[derive(Debug)]
    struct Forgetful(MemoryQueue, AtomicU32);

    #[async_trait::async_trait]
    impl Queue for Forgetful {
        async fn push(&self, queue: &str, job: NewJob) -> StoreResult<Pushed> {
            if self.1.fetch_add(1, Ordering::SeqCst) == 1 {
                return Err(StoreError::backend("memory", "not now"));
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
        async fn dead(
            &self,
            queue: &str,
            after: Option<&Cursor>,
            limit: usize,
        ) -> StoreResult<Page<DeadJob>> {
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

    static WOKEN: AtomicBool = AtomicBool::new(false);

    async fn sleeps(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.sleep(Duration::from_millis(700)).await?;
        WOKEN.store(true, Ordering::SeqCst);
        Ok("rested".into())
    }

    #[tokio::test]
    async fn run_whose_next_leg_could_not_be_queued_goes_on_though_nobody_looks() {
        let memory = Memory::default();
        let queue = Forgetful(memory.queue(QueueConfig::default()), AtomicU32::new(0));
        let server = Server::builder("tasks", "1.0.0")
            .with_backend(Backend::new(memory.store(), queue, memory.bus()))
            .with_tasks(crate::tasks::quick())
            .tool(Tool::new("sleeps", "Sleeps", sleeps).with_tasks(TaskPolicy::Always))
            .build()
            .unwrap();
        let mut client = client(&server).await;
        begin(&mut client, "sleeps", json!({})).await;
        let woken = async {
            while !WOKEN.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), woken).await.expect("it never went on");
    }
}
