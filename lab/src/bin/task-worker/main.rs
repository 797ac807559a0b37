//! A process that serves tasks, or works on them, until it is killed: what `cargo xtask chaos tasks` and
//! `cargo xtask chaos asking` kill.
//!
//! Called as `task-worker ROLE PLAN`, the plan in JSON. What it does to the world, it notes in a ledger outside of the store.

#![expect(clippy::print_stderr, reason = "it tells the one who started it")]

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use antiphon::{
    Limits, Server, Tool,
    http::{HttpConfig, ServeConfig},
    seal::SealConfig,
    task::{RetryPolicy, TaskConfig, TaskPolicy},
};
use antiphon_store::{Backend, QueueConfig};
use anyhow::{Context as _, bail};
use lab::programs::store::Engine;
use serde::Deserialize;
use tokio::net::TcpListener;

mod broken;
mod errand;
mod inquiry;
mod ledger;
mod log;

use self::{
    broken::{Break, Forgetful},
    ledger::Ledger,
};

/// What a process has to know.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    engine: Engine,
    url: String,
    space: String,
    keys: String,
    ledger: PathBuf,
    /// Who it is, in the ledger.
    process: String,
    /// Where a front end listens.
    address: Option<SocketAddr>,
    /// Differs between processes and starts.
    seed: u64,
    /// Of a thousand effects, after so many the process dies before anybody hears of it.
    falls: u32,
    /// What it does wrong on purpose.
    breaks: Option<Break>,
    /// The token of the operators' routes, which front ends serve.
    token: String,
    /// Whether it also has the tools of `cargo xtask chaos asking`, which ask users through a form of the server.
    #[serde(default)]
    asking: bool,
}

/// Short, so that there is much to take over.
const LEASE: Duration = Duration::from_secs(2);
const BEAT: Duration = Duration::from_millis(300);
/// A process is killed every now and then, and nobody may give up over that.
const PATIENCE: u32 = 1000;

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
    let role = arguments.next().context("say which role: front or worker")?;
    let plan = arguments.next().context("give the plan as JSON")?;
    let plan: Plan = serde_json::from_str(&plan).context("the plan cannot be read")?;
    log::Log::start(&plan.process)?;
    let ledger = Arc::new(Ledger::open(&plan)?);
    tokio::spawn(ledger::watch_the_clock(Arc::clone(&ledger)));
    let mut backend = open(&plan).await;
    if let Some(breaks) = plan.breaks {
        backend = backend.clone().with_queue(Forgetful::new(backend.queue, breaks));
    }
    match role.as_str() {
        "front" => {
            let address = plan.address.context("a front end needs an address")?;
            let server = server(&plan, backend, ledger, 0)?;
            let listener = TcpListener::bind(address).await.context("the address is taken")?;
            let routes = server.router(HttpConfig::default()).merge(server.operator_router(&plan.token)?);
            antiphon::http::serve(listener, routes, ServeConfig::default(), std::future::pending()).await;
        }
        "worker" => server(&plan, backend, ledger, 16)?.run_workers(std::future::pending()).await,
        other => bail!("there is no role `{other}`"),
    }
    Ok(())
}

fn server(plan: &Plan, backend: Backend, ledger: Arc<Ledger>, workers: usize) -> anyhow::Result<Server> {
    let retry = RetryPolicy::default().with_attempts(PATIENCE).with_backoff(Duration::from_millis(100));
    let tasks = TaskConfig::default()
        .with_workers(workers)
        .with_heartbeat_interval(BEAT)
        .with_poll_interval(Duration::from_millis(50))
        .with_max_worker_deaths(PATIENCE)
        .with_retry(retry);
    let tool = Tool::new("errand", "Changes the world, step by step", errand::errand)
        .with_tasks(TaskPolicy::Always)
        .needs_backend();
    let mut server = Server::builder("errands", "1.0.0")
        .with_backend(backend)
        .with_seal(SealConfig::default().with_keys(plan.keys.parse()?))
        .with_limits(Limits::default().with_claim_heartbeat(Duration::from_millis(150)))
        .with_tasks(tasks)
        .with_state(ledger)
        .tool(tool);
    if plan.asking {
        server = inquiry::add_to(server);
    }
    Ok(server.build()?)
}

/// Connects, however long it takes: the server may be away, or be starting.
async fn open(plan: &Plan) -> Backend {
    let config = QueueConfig::default().with_lease(LEASE).with_max_attempts(PATIENCE + 1);
    loop {
        match plan.engine.open(&plan.url, &plan.space, config.clone()).await {
            Ok(backend) => return backend,
            Err(error) => {
                eprintln!("{}: {error}", plan.process);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
