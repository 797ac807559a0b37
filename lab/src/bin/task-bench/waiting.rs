//! Very many runs that wait, and how quickly one of them goes on.

use std::{
    collections::HashMap,
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use antiphon::{Tool, prelude::*};
use antiphon_store::Backend;
use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use lab::programs::figures::{percentile, rate, resident};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{HANDS, client::Client, server};

#[derive(Deserialize, JsonSchema)]
struct Which {
    number: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

static BEGUN: AtomicUsize = AtomicUsize::new(0);
/// Who wants to know when a run has gone on.
static AWAITED: LazyLock<Mutex<HashMap<usize, oneshot::Sender<Instant>>>> = LazyLock::new(Mutex::default);

async fn wait(ctx: &Ctx, Which { number }: Which) -> Result<String> {
    BEGUN.fetch_add(1, Ordering::Relaxed);
    let Word { word } = ctx.elicit("Which word?").await?.accepted()?;
    ctx.step("effect", || async {
        let awaited = AWAITED.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        // Nobody waits for those that are not measured.
        let _ = awaited.map(|awaited| awaited.send(Instant::now()));
        Ok(())
    })
    .await?;
    Ok(word)
}

/// How many are answered while the others wait.
const ANSWERED: usize = 1000;
const CLIENTS: usize = 16;

pub(crate) async fn measure(backend: &Backend, count: usize) -> anyhow::Result<Value> {
    let server = server(backend, Tool::new("wait", "Waits for a word", wait), HANDS)?;
    let mut client = Client::connect(&server);
    // Pools and caches are filled before memory is looked at.
    for number in 0..200 {
        let task = client.begin("wait", json!({ "number": count + number })).await?;
        client.until(&task, "input_required").await?;
    }
    let before = resident()?;
    let start = Instant::now();
    let each = count / CLIENTS;
    let mut tasks = Vec::with_capacity(CLIENTS);
    let clients = (0..CLIENTS).map(|number| {
        let server = server.clone();
        async move {
            let mut client = Client::connect(&server);
            let mut last = Vec::new();
            for number in number * each..(number + 1) * each {
                let task = client.begin("wait", json!({ "number": number })).await?;
                // Only those that are answered are remembered, so that what is measured is the server.
                if number % (count / ANSWERED).max(1) == 0 {
                    last.push((number, task));
                }
            }
            anyhow::Ok(last)
        }
    });
    tasks.extend(try_join_all(clients).await?.into_iter().flatten());
    let created = start.elapsed();
    while BEGUN.load(Ordering::Relaxed) < 200 + CLIENTS * each {
        ensure!(start.elapsed() < created * 5 + Duration::from_mins(1), "some never began");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for (_, task) in tasks.iter().rev().take(100) {
        client.until(task, "input_required").await?;
    }
    let waiting = start.elapsed();
    let after = resident()?;
    let mut times = Vec::with_capacity(ANSWERED);
    for (number, task) in tasks.iter().take(ANSWERED) {
        let (tx, rx) = oneshot::channel();
        AWAITED.lock().unwrap_or_else(PoisonError::into_inner).insert(*number, tx);
        let start = Instant::now();
        client.answer(task).await?;
        let went_on = tokio::time::timeout(Duration::from_secs(30), rx).await;
        let went_on = went_on.context("a run never went on")?.context("a run was dropped")?;
        times.push(went_on.saturating_duration_since(start));
    }
    Ok(json!({
        "waiting": CLIENTS * each, "created": rate(CLIENTS * each, created),
        "all_waiting_s": waiting.as_secs_f64(), "before_mib": before, "after_mib": after,
        "end_mib": resident()?, "answered": times.len(),
        "p50": percentile(&mut times, 50)?, "p99": percentile(&mut times, 99)?,
    }))
}
