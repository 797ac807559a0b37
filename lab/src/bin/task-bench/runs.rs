//! Whole runs: two steps, a question, a step.

use std::time::{Duration, Instant};

use antiphon::{Tool, prelude::*};
use antiphon_store::Backend;
use futures_util::future::try_join_all;
use lab::programs::figures::{percentile, rate};
use serde_json::{Value, json};

use crate::{HANDS, client::Client, server};

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

async fn three_steps(ctx: &Ctx, _: ()) -> Result<String> {
    let first: u32 = ctx.step("first", || async { Ok(1) }).await?;
    let second: u32 = ctx.step("second", || async { Ok(2) }).await?;
    let Word { word } = ctx.elicit("Which word?").await?.accepted()?;
    let third: u32 = ctx.step("third", || async { Ok(3) }).await?;
    Ok(format!("{} {word}", first + second + third))
}

pub(crate) async fn measure(backend: &Backend, count: usize) -> anyhow::Result<Value> {
    let server = server(backend, Tool::new("three", "Takes three steps", three_steps), HANDS)?;
    let start = Instant::now();
    let clients = (0..HANDS).map(|_| async {
        let mut client = Client::connect(&server);
        let mut times = Vec::new();
        for _ in 0..count / HANDS {
            times.push(run(&mut client).await?);
        }
        anyhow::Ok(times)
    });
    let mut busy: Vec<Duration> = try_join_all(clients).await?.into_iter().flatten().collect();
    let runs = rate(busy.len(), start.elapsed());
    // And one alone: what the machinery takes where nobody is in the way.
    let mut client = Client::connect(&server);
    let mut alone = Vec::new();
    for _ in 0..(count / HANDS).clamp(20, 200) {
        alone.push(run(&mut client).await?);
    }
    Ok(json!({
        "hands": HANDS, "runs": busy.len(), "rate": runs,
        "busy50": percentile(&mut busy, 50)?, "busy99": percentile(&mut busy, 99)?,
        "alone50": percentile(&mut alone, 50)?, "alone99": percentile(&mut alone, 99)?,
    }))
}

/// One run; says how long it took from its answer to its end.
async fn run(client: &mut Client) -> anyhow::Result<Duration> {
    let task = client.begin("three", json!({})).await?;
    client.until(&task, "input_required").await?;
    let start = Instant::now();
    client.answer(&task).await?;
    client.until(&task, "completed").await?;
    Ok(start.elapsed())
}
