//! What a task is, whoever looks at it.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use antiphon::{
    Error,
    prelude::*,
    task::{RetryPolicy, TaskPolicy},
};
use serde_json::json;

use super::{accept, answer, begin, client, get, server, until};

#[derive(Deserialize, JsonSchema)]
struct Seat {
    seat: String,
}

#[derive(Deserialize, JsonSchema)]
struct Meal {
    meal: String,
}

static BOOKED: AtomicU32 = AtomicU32::new(0);

async fn book(ctx: &Ctx, _: ()) -> Result<String> {
    let number: u32 = ctx.step("number", || async { Ok(BOOKED.fetch_add(1, Ordering::SeqCst)) }).await?;
    let (seat, meal) = tokio::join!(ctx.elicit::<Seat>("Which seat?"), ctx.elicit::<Meal>("Which meal?"));
    let (seat, meal) = (seat?.accepted()?.seat, meal?.accepted()?.meal);
    ctx.sleep(Duration::from_millis(700)).await?;
    let _: u32 = ctx.step("issue", || async { Ok(BOOKED.fetch_add(1, Ordering::SeqCst)) }).await?;
    Ok(format!("{number}: {seat}, {meal}"))
}

#[tokio::test]
async fn task_takes_steps_once_asks_sleeps_and_ends() {
    let server = server()
        .tool(Tool::new("book", "Books a flight", book).with_tasks(TaskPolicy::Always))
        .build()
        .unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "book", json!({})).await;
    let task = until(&mut client, &id, "input_required").await;
    assert_eq!(task["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["meal", "seat"]);
    assert!(task.get("requestState").is_none());
    answer(&mut client, &id, json!({"seat": accept(json!({"seat": "3A"}))})).await;
    // One question is answered, the other is still out, under the same key.
    let task = get(&mut client, &id).await;
    assert_eq!(task["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["meal"]);
    let asked = Instant::now();
    answer(&mut client, &id, json!({"meal": accept(json!({"meal": "soup"})), "nobody asked": {}})).await;
    let task = until(&mut client, &id, "completed").await;
    assert!(asked.elapsed() >= Duration::from_millis(700), "it slept {:?}", asked.elapsed());
    assert_eq!(task["result"]["content"][0]["text"], "0: 3A, soup");
    assert_eq!(BOOKED.load(Ordering::SeqCst), 2);
}

static TRIED: AtomicU32 = AtomicU32::new(0);

async fn shaky(ctx: &Ctx, _: ()) -> Result<String> {
    let tried: u32 = ctx
        .step("try", || async {
            match TRIED.fetch_add(1, Ordering::SeqCst) {
                tried @ 0..2 => Err(Error::tool(format!("not yet {tried}"))),
                tried => Ok(tried),
            }
        })
        .await?;
    Ok(tried.to_string())
}

#[tokio::test]
async fn error_that_is_not_terminal_is_tried_again() {
    let retry = RetryPolicy::default().with_backoff(Duration::from_millis(10));
    let tool = Tool::new("shaky", "Fails twice", shaky).with_tasks(TaskPolicy::Always).with_retry(retry);
    let server = server().tool(tool).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "shaky", json!({})).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "2");
}

static CLEANED: AtomicU32 = AtomicU32::new(0);

async fn tidy(ctx: &Ctx, _: ()) -> Result<String> {
    let answer = ctx.elicit::<Seat>("Which seat?").await;
    if ctx.is_cancelled() {
        ctx.step("clean up", || async { Ok(CLEANED.fetch_add(1, Ordering::SeqCst)) }).await?;
    }
    Ok(answer?.accepted()?.seat)
}

#[tokio::test]
async fn cancelled_task_cleans_up() {
    let server =
        server().tool(Tool::new("tidy", "Cleans up", tidy).with_tasks(TaskPolicy::Always)).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "tidy", json!({})).await;
    until(&mut client, &id, "input_required").await;
    client.request("tasks/cancel", json!({"taskId": id})).await.unwrap();
    assert_eq!(get(&mut client, &id).await["status"], "cancelled");
    for _ in 0..200 {
        if CLEANED.load(Ordering::SeqCst) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not clean up");
}

async fn slow(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.step("work", || async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        Ok(())
    })
    .await?;
    Ok("done".into())
}

#[tokio::test]
async fn run_that_takes_long_becomes_a_task_and_keeps_its_step() {
    let config = super::quick().with_promote_after(Duration::from_millis(100));
    let server = server().with_tasks(config).tool(Tool::new("slow", "Takes long", slow)).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "slow", json!({})).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "done");
}

async fn many(ctx: &Ctx, _: ()) -> Result<String> {
    let mut seats = Vec::new();
    for _ in 0..12 {
        seats.push(ctx.elicit::<Seat>("Which seat?").await?.accepted()?.seat);
    }
    Ok(seats.join(" "))
}

#[tokio::test]
async fn run_that_needs_more_rounds_than_clients_take_becomes_a_task() {
    let server = server().tool(Tool::new("many", "Asks a lot", many)).build().unwrap();
    let mut client = client(&server).await;
    let mut params = json!({"name": "many", "arguments": {}});
    let mut rounds = 0;
    let id = loop {
        let result = client.request("tools/call", params.clone()).await.unwrap();
        if result["resultType"] == "task" {
            assert_eq!(result["status"], "input_required");
            break result["taskId"].as_str().unwrap().to_owned();
        }
        let key = result["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        params["inputResponses"] = json!({key: accept(json!({"seat": rounds.to_string()}))});
        params["requestState"] = result["requestState"].clone();
        rounds += 1;
        assert!(rounds < 9, "it never became a task");
    };
    let mut seen = std::collections::BTreeSet::new();
    let task = loop {
        let task = get(&mut client, &id).await;
        match task["status"].as_str().unwrap() {
            "completed" => break task,
            "input_required" => {
                for key in task["inputRequests"].as_object().unwrap().keys() {
                    assert!(seen.insert(key.clone()), "`{key}` was used twice");
                    answer(
                        &mut client,
                        &id,
                        json!({key.clone(): accept(json!({"seat": rounds.to_string()}))}),
                    )
                    .await;
                    rounds += 1;
                }
            }
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!(task["result"]["content"][0]["text"], "0 1 2 3 4 5 6 7 8 9 10 11");
}
