//! How many jobs are leased in a second, with many hands, beside the bare client and the engine's own tool.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use antiphon_store::{Backend, NewJob};
use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, future::try_join_all, stream};
use lab::programs::store::Engine;
use serde::Serialize;
use tokio::process::Command;

use crate::{
    Plan,
    bare::{Bare, Tool},
    measure::{middle, sorted},
    side::VALUE,
};

const QUEUE: &str = "many";
const HANDS: usize = 16;
const ROUNDS: usize = 5;

/// Medians of leases per second.
#[derive(Debug, Serialize)]
pub(crate) struct Rates {
    hands: usize,
    leases: usize,
    ours: f64,
    bare: f64,
    tool: Option<f64>,
}

/// Each in turn, on one queue, over and over.
pub(crate) async fn measure(plan: &Plan, backend: &Backend, bare: &mut dyn Bare) -> Result<Rates> {
    // About a second each.
    let count = match plan.engine {
        Engine::Redis => 8000,
        Engine::Postgres | Engine::Nats => 1600,
    };
    let tool = bare.tool(QUEUE, count, HANDS)?.zip(plan.tool.as_ref());
    let sides = if tool.is_some() { 3 } else { 2 };
    fill(backend, sides * ROUNDS * count).await?;

    let (mut ours, mut theirs, mut tools) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        lease(backend, count).await?;
        ours.push(rate(count, start.elapsed()));
        let start = Instant::now();
        bare.lease(QUEUE, count, HANDS).await?;
        theirs.push(rate(count, start.elapsed()));
        if let Some((tool, program)) = &tool {
            tools.push(run(program, tool).await?);
        }
    }
    let median = |values: Vec<f64>| middle(&sorted(values.into_iter()));
    Ok(Rates {
        hands: HANDS,
        leases: ROUNDS * count,
        ours: median(ours),
        bare: median(theirs),
        tool: (!tools.is_empty()).then(|| median(tools)),
    })
}

async fn fill(backend: &Backend, count: usize) -> Result<()> {
    let pushes = (0..count).map(|number| async move {
        backend.queue.push(QUEUE, NewJob::new(format!("many-{number}"), VALUE)).await
    });
    stream::iter(pushes).buffer_unordered(64).try_for_each(|_| async { Ok(()) }).await?;
    Ok(())
}

async fn lease(backend: &Backend, count: usize) -> Result<()> {
    let work = (0..HANDS).map(|_| async {
        let (mut leased, mut in_vain) = (0, 0);
        while leased < count / HANDS {
            // Whoever asks without waiting may go away empty-handed though there are jobs.
            let jobs = backend.queue.lease(QUEUE, 1, Duration::ZERO).await?;
            leased += jobs.len();
            in_vain += usize::from(jobs.is_empty());
            ensure!(in_vain <= count, "no job was leased");
        }
        Ok(in_vain)
    });
    let in_vain: usize = try_join_all(work).await?.into_iter().sum();
    if in_vain > 0 {
        eprintln!("{in_vain} of {} leases found no job, though there were some", count + in_vain);
    }
    Ok(())
}

async fn run(program: &std::path::Path, tool: &Tool) -> Result<f64> {
    let mut command = Command::new(program);
    command.args(&tool.arguments).stderr(Stdio::piped());
    let output = command.output().await.with_context(|| format!("could not start {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    (tool.read)(&text).with_context(|| format!("{} printed no rate:\n{text}", program.display()))
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
