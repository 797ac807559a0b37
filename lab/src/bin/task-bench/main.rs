//! What a task costs: legs beside the bare queue, whole runs, and very many runs that wait.
//!
//! The engine is measured in this process through its front door, MCP over a duplex, so that no HTTP is in the figures.
//! Called with the plan in JSON, by `cargo xtask bench tasks`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it tells the one who started it")]

use std::{process::ExitCode, time::Duration};

use antiphon::{
    Server, Tool,
    seal::{KeyRing, SealConfig},
    task::{TaskConfig, TaskPolicy},
};
use antiphon_store::{Backend, QueueConfig};
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::Value;

mod client;
mod legs;
mod runs;
mod waiting;

/// What is measured where.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    url: String,
    /// `legs`, `runs` or `waiting`.
    kind: String,
    /// How many of them.
    count: usize,
}

/// How many legs are worked on at once, and how many hands the bare queue has.
const HANDS: usize = 16;
const SPACE: &str = "bench";

impl Plan {
    async fn open(&self) -> Result<Backend> {
        let config = QueueConfig::default().with_lease(Duration::from_mins(1));
        Ok(Backend::connect(&self.url, SPACE, config).await?)
    }
}

/// A server of the one tool, which works on so many legs at once.
fn server(backend: &Backend, tool: Tool, workers: usize) -> Result<Server> {
    let tasks = TaskConfig::default().with_workers(workers).with_max_queued(u64::MAX);
    Ok(Server::builder("bench", "1.0.0")
        .with_backend(backend.clone())
        .with_seal(SealConfig::default().with_keys(KeyRing::new(1, [1; 32])))
        .with_tasks(tasks)
        .tool(tool.with_tasks(TaskPolicy::Always))
        .build()?)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<Value> {
    let plan = std::env::args().nth(1).context("give the plan as JSON")?;
    let plan: Plan = serde_json::from_str(&plan).context("the plan cannot be read")?;
    let backend = plan.open().await?;
    match plan.kind.as_str() {
        "legs" => legs::measure(&backend, plan.count).await,
        "runs" => runs::measure(&backend, plan.count).await,
        "waiting" => waiting::measure(&backend, plan.count).await,
        other => bail!("there is nothing called `{other}` to measure"),
    }
}
