//! Runs that were begun by one version of a tool and are gone on with by another.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use antiphon::{
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::TaskPolicy,
    testing::Client,
};
use antiphon_store::{Backend, Memory, QueueConfig};
use serde_json::{Value, json};

use super::{accept, answer, begin, client, get, quick, until};

#[derive(Deserialize, JsonSchema)]
struct Seat {
    seat: String,
}

#[derive(Deserialize, JsonSchema)]
struct Meal {
    meal: String,
}

/// How often the world was changed, and how often by what comes after the second question.
#[derive(Clone, Default)]
struct World {
    changes: Arc<AtomicU32>,
    issued: Arc<AtomicU32>,
}

impl World {
    fn change(&self) -> u32 {
        self.changes.fetch_add(1, Ordering::SeqCst)
    }
}

/// What the tool is in the old version: a step, a question, a step, a question, a step.
async fn old(ctx: &Ctx, _: ()) -> Result<String> {
    let world = ctx.state::<World>()?;
    let number: u32 = ctx.step("number", || async { Ok(world.change()) }).await?;
    let Seat { seat } = ctx.elicit("Which seat?").await?.accepted()?;
    let held: u32 = ctx.step("hold", || async { Ok(world.change()) }).await?;
    let Meal { meal } = ctx.elicit("Which meal?").await?.accepted()?;
    ctx.step("issue", || async { Ok(world.issued.fetch_add(1, Ordering::SeqCst)) }).await?;
    Ok(format!("{number} {held}: {seat}, {meal}"))
}

/// Another text in the question that is out, another step after it, another result: nothing of it has happened yet.
async fn compatible(ctx: &Ctx, _: ()) -> Result<String> {
    let world = ctx.state::<World>()?;
    let number: u32 = ctx.step("number", || async { Ok(world.change()) }).await?;
    let Seat { seat } = ctx.elicit("Which seat?").await?.accepted()?;
    let held: u32 = ctx.step("hold", || async { Ok(world.change()) }).await?;
    let Meal { meal } = ctx.elicit("What would you like to eat?").await?.accepted()?;
    ctx.step("pack", || async { Ok(world.change()) }).await?;
    ctx.step("issue", || async { Ok(world.issued.fetch_add(1, Ordering::SeqCst)) }).await?;
    Ok(format!("new {number} {held}: {seat}, {meal}"))
}

/// A finished step is gone.
async fn removed(ctx: &Ctx, _: ()) -> Result<String> {
    let world = ctx.state::<World>()?;
    let Seat { seat } = ctx.elicit("Which seat?").await?.accepted()?;
    let held: u32 = ctx.step("hold", || async { Ok(world.change()) }).await?;
    let Meal { meal } = ctx.elicit("Which meal?").await?.accepted()?;
    ctx.step("issue", || async { Ok(world.issued.fetch_add(1, Ordering::SeqCst)) }).await?;
    Ok(format!("{held}: {seat}, {meal}"))
}

/// A finished step has another name.
async fn renamed(ctx: &Ctx, _: ()) -> Result<String> {
    let world = ctx.state::<World>()?;
    let number: u32 = ctx.step("number", || async { Ok(world.change()) }).await?;
    let Seat { seat } = ctx.elicit("Which seat?").await?.accepted()?;
    let held: u32 = ctx.step("reserve", || async { Ok(world.change()) }).await?;
    let Meal { meal } = ctx.elicit("Which meal?").await?.accepted()?;
    ctx.step("issue", || async { Ok(world.issued.fetch_add(1, Ordering::SeqCst)) }).await?;
    Ok(format!("{number} {held}: {seat}, {meal}"))
}

/// A question that was answered is another one.
async fn reworded(ctx: &Ctx, _: ()) -> Result<String> {
    let world = ctx.state::<World>()?;
    let number: u32 = ctx.step("number", || async { Ok(world.change()) }).await?;
    let Seat { seat } = ctx.elicit("Which seat do you want to give up?").await?.accepted()?;
    let held: u32 = ctx.step("hold", || async { Ok(world.change()) }).await?;
    let Meal { meal } = ctx.elicit("Which meal?").await?.accepted()?;
    ctx.step("issue", || async { Ok(world.issued.fetch_add(1, Ordering::SeqCst)) }).await?;
    Ok(format!("{number} {held}: {seat}, {meal}"))
}

/// What two versions share.
struct Shared {
    backend: Backend,
    world: World,
}

impl Shared {
    fn new() -> Self {
        Self { backend: Memory::default().backend(QueueConfig::default()), world: World::default() }
    }

    fn replica(&self, tool: Option<Tool>, workers: usize) -> Server {
        let server = Server::builder("tasks", "1.0.0")
            .with_backend(self.backend.clone())
            .with_seal(SealConfig::default().with_keys(KeyRing::new(1, [1; 32])))
            .with_tasks(quick().with_workers(workers))
            .with_state(self.world.clone());
        match tool {
            Some(tool) => server.tool(tool.with_tasks(TaskPolicy::Always)).build().unwrap(),
            None => server.build().unwrap(),
        }
    }

    /// Begins a run on the old version, brings it to its second question, and ends the old version.
    async fn begun(&self) -> String {
        let server = self.replica(Some(Tool::new("book", "Books a flight", old)), 4);
        let mut client = client(&server).await;
        let id = begin(&mut client, "book", json!({})).await;
        answer_first(&mut client, &id).await;
        until_asked(&mut client, &id, "meal").await;
        server.shut_down();
        server.run_workers(std::future::ready(())).await;
        assert_eq!(self.world.changes.load(Ordering::SeqCst), 2);
        id
    }

    /// Goes on with a run of the old version on this one, and says how it ended.
    async fn go_on(&self, id: &str, tool: Tool) -> Value {
        let server = self.replica(Some(tool), 4);
        let mut client = client(&server).await;
        let meal = accept(json!({"meal": "soup"}));
        answer(&mut client, id, json!({"meal": meal, "meal@2": meal})).await;
        ended(&mut client, id, &meal).await
    }

    /// The bytes of the only run there is.
    async fn kept(&self) -> usize {
        let page = self.backend.store.list("tasks/", None, 10).await.unwrap();
        assert_eq!(page.items.len(), 1);
        page.items[0].value.len()
    }

    /// A run that does not fit the new version ends with a report of the entry; nothing of what comes after has happened.
    async fn assert_drifts(&self, tool: Tool, entry: &str) {
        let id = self.begun().await;
        let before = self.kept().await;
        let task = self.go_on(&id, tool).await;
        assert_eq!(task["status"], "failed", "{task}");
        assert_eq!(task["error"]["data"]["reason"], "drift", "{task}");
        let report = task["error"]["data"]["report"].as_str().unwrap();
        assert!(report.contains(entry), "`{entry}` is not named in: {report}");
        assert!(
            task["error"]["data"]["hint"].as_str().unwrap().contains("a new version was deployed"),
            "{task}"
        );
        assert_eq!(self.world.issued.load(Ordering::SeqCst), 0, "it went on");
        assert_eq!(self.world.changes.load(Ordering::SeqCst), 2, "a step was taken");
        let after = self.kept().await;
        assert!(after >= before, "the journal is gone: {before} bytes became {after}");
    }
}

async fn answer_first(client: &mut Client, id: &str) {
    until_asked(client, id, "seat").await;
    answer(client, id, json!({"seat": accept(json!({"seat": "3A"}))})).await;
}

async fn until_asked(client: &mut Client, id: &str, key: &str) {
    for _ in 0..1000 {
        let task = until(client, id, "input_required").await;
        if task["inputRequests"].get(key).is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("`{key}` was never asked");
}

/// Waits for the end, and answers the second question again if the new version asks it in its own words.
async fn ended(client: &mut Client, id: &str, meal: &Value) -> Value {
    for _ in 0..1000 {
        let task = get(client, id).await;
        match task["status"].as_str().unwrap() {
            "completed" | "failed" | "cancelled" => return task,
            "input_required" => {
                for key in task["inputRequests"].as_object().unwrap().keys() {
                    answer(client, id, json!({key.clone(): meal})).await;
                }
            }
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("it never ended: {}", get(client, id).await);
}

#[tokio::test]
async fn run_goes_on_under_a_version_that_changed_only_what_is_to_come() {
    let shared = Shared::new();
    let id = shared.begun().await;
    let task = shared.go_on(&id, Tool::new("book", "Books a flight", compatible)).await;
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(task["result"]["content"][0]["text"], "new 0 1: 3A, soup");
    let World { changes, issued } = &shared.world;
    assert_eq!((changes.load(Ordering::SeqCst), issued.load(Ordering::SeqCst)), (3, 1));
}

#[tokio::test]
async fn run_whose_finished_step_was_removed_fails_with_a_report() {
    Shared::new().assert_drifts(Tool::new("book", "Books a flight", removed), "number").await;
}

#[tokio::test]
async fn run_whose_finished_step_was_renamed_fails_with_a_report() {
    Shared::new().assert_drifts(Tool::new("book", "Books a flight", renamed), "hold").await;
}

#[tokio::test]
async fn run_whose_answered_question_was_reworded_fails_with_a_report() {
    Shared::new().assert_drifts(Tool::new("book", "Books a flight", reworded), "seat").await;
}

#[tokio::test]
async fn run_waits_for_a_replica_that_has_its_tool() {
    let shared = Shared::new();
    // It takes calls and works on nothing; the only worker is of a version that does not have the tool.
    let front = shared.replica(Some(Tool::new("book", "Books a flight", old)), 0);
    let without = shared.replica(None, 4);
    let _works = client(&without).await;
    let mut client = client(&front).await;
    let id = begin(&mut client, "book", json!({})).await;
    let mut task = get(&mut client, &id).await;
    while !task["statusMessage"].as_str().unwrap_or_default().contains("no tool `book`") {
        assert_eq!(task["status"], "working", "{task}");
        tokio::time::sleep(Duration::from_millis(10)).await;
        task = get(&mut client, &id).await;
    }
    assert_eq!(shared.world.changes.load(Ordering::SeqCst), 0);
    without.shut_down();
    let with = shared.replica(Some(Tool::new("book", "Books a flight", old)), 4);
    let _works = super::client(&with).await;
    answer_first(&mut client, &id).await;
    until_asked(&mut client, &id, "meal").await;
    let meal = accept(json!({"meal": "soup"}));
    answer(&mut client, &id, json!({"meal": meal})).await;
    assert_eq!(until(&mut client, &id, "completed").await["result"]["content"][0]["text"], "0 1: 3A, soup");
}
