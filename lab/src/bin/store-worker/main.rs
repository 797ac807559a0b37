//! A process that works on a shared store until it is killed: what `cargo xtask chaos store` kills.
//!
//! Called as `store-worker ROLE PLAN`, the plan in JSON. What it did, it notes in a file of its own, outside
//! of the store. The role `check` compares all those files with what is in the store.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it tells the one who started it")]

use std::{path::PathBuf, process::ExitCode, time::Duration};

use antiphon_store::{Backend, QueueConfig};
use anyhow::{Context as _, bail};
use lab::programs::store::Engine;
use serde::Deserialize;

mod check;
mod delayed;
mod note;
mod pusher;
mod report;
mod survey;
mod worker;
mod writer;

/// What a process has to know.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    engine: Engine,
    url: String,
    space: String,
    /// Where notes are kept.
    folder: PathBuf,
    /// Which one of its role it is.
    number: u32,
    /// How often it was started before.
    start: u32,
    seed: u64,
    writes: u64,
    jobs: u64,
    /// The seconds until the first delayed job is due.
    #[serde(default)]
    delay: u64,
    /// The seconds in which all delayed jobs come due.
    #[serde(default)]
    window: u64,
}

impl Plan {
    /// The one queue.
    const QUEUE: &'static str = "jobs";
    /// Short, so that there is much to take over.
    const LEASE: Duration = Duration::from_secs(2);
    const PUSHERS: u64 = 2;

    /// Connects, however long it takes: the server may be away, or be starting.
    async fn open(&self) -> Backend {
        // Killed workers use up attempts; none of these jobs may die of it.
        let config = QueueConfig::default().with_lease(Self::LEASE).with_max_attempts(1000);
        loop {
            match self.engine.open(&self.url, &self.space, config.clone()).await {
                Ok(backend) => return backend,
                Err(error) => {
                    complain(&error);
                    pause().await;
                }
            }
        }
    }

    /// Differs between roles, processes and starts; the same for the same ones.
    fn rng(&self, task: u32) -> fastrand::Rng {
        let parts = [u64::from(self.number), u64::from(self.start), u64::from(task)];
        fastrand::Rng::with_seed(parts.iter().fold(self.seed, |seed, part| {
            fastrand::Rng::with_seed(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..)
        }))
    }
}

/// What is done between two attempts when the server is away.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Says what the server said: it may be away on purpose, or not.
fn complain(error: &antiphon_store::Error) {
    eprintln!("{}: {}", note::now(), chain(error));
}

/// An error and all that it comes from.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
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

async fn run() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().context("say which role: writer, pusher, worker, delayed or check")?;
    let plan = arguments.next().context("give the plan as JSON")?;
    let plan: Plan = serde_json::from_str(&plan).context("the plan cannot be read")?;
    match role.as_str() {
        "writer" => writer::run(&plan).await,
        "pusher" => pusher::run(&plan).await,
        "worker" => worker::run(&plan).await,
        "delayed" => delayed::run(&plan).await,
        "check" => report::run(&plan).await,
        other => bail!("there is no role `{other}`"),
    }
}
