//! Each operation of a backend beside the bare client that sends the server the same command.
//!
//! Called as `store-bench PLAN`, the plan in JSON, by `cargo xtask bench store`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it tells the one who started it")]

use std::{path::PathBuf, process::ExitCode, time::Duration};

use antiphon_store::{
    Backend, QueueConfig,
    redis::{Redis, RedisConfig},
};
use anyhow::{Context as _, Result};
use lab::programs::store::Engine;
use serde::Deserialize;

mod bare;
mod measure;
mod ours;
mod rate;
mod side;

use self::{measure::Pairs, ours::Ours, side::Operation};

/// What is measured where.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    engine: Engine,
    url: String,
    /// How long each operation is measured.
    seconds: f64,
    /// The engine's own benchmark, if it has one here.
    tool: Option<PathBuf>,
}

const SPACE: &str = "bench";
/// Longer than the bench: nothing comes back.
const LEASE: Duration = Duration::from_hours(1);

fn queue_config() -> QueueConfig {
    QueueConfig::default().with_lease(LEASE)
}

/// With one bucket in Redis, so that all records are in the place where the bare client was told one is.
async fn open(plan: &Plan) -> antiphon_store::Result<Backend> {
    if plan.engine == Engine::Redis {
        let config = RedisConfig::new(&plan.url).with_space(SPACE).with_buckets(1);
        return Ok(Redis::connect(config).await?.backend(queue_config()));
    }
    plan.engine.open(&plan.url, SPACE, queue_config()).await
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let plan = std::env::args().nth(1).context("give the plan as JSON")?;
    let plan: Plan = serde_json::from_str(&plan).context("the plan cannot be read")?;
    let backend = open(&plan).await?;
    let mut ours = Ours::new(backend.clone()).await?;
    let mut bare = bare::connect(&plan, &backend).await?;
    for operation in Operation::ALL {
        eprintln!("{:?}: {}", plan.engine, operation.name());
        let pairs = Pairs::measure(&mut ours, &mut *bare, operation, Duration::from_secs_f64(plan.seconds));
        let pairs = pairs.await.with_context(|| operation.name())?;
        println!("{}", serde_json::to_string(&pairs.row())?);
    }
    eprintln!("{:?}: leases per second", plan.engine);
    println!("{}", serde_json::to_string(&rate::measure(&plan, &backend, &mut *bare).await?)?);
    Ok(())
}
