//! `cargo xtask chaos delayed`: many jobs with a long delay, on servers whose leader fails while the jobs come due.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::project::{Profile, Project};
use crate::services::{self, Place};
use crate::table::Table;
use crate::{proc, server};

/// Options of `cargo xtask chaos delayed`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    place: Place,
    /// How many jobs to push.
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
    /// Use this executable instead of building `store-worker`.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// How many jobs come due in a second.
const RATE: u64 = 1000;

/// How many jobs are surely pushed in a second.
const PUSHED: u64 = 500;

pub(super) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => project.build("lab", "store-worker", Profile::Dev)?,
    };
    let (engine, place) = (options.place.backend().engine(), options.place.name());
    let folder = project.target.join("chaos").join(format!("delayed-{place}"));
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    let mut host = options.place.start(&folder)?;
    let (delay, window) = (20 + options.jobs / PUSHED, 20 + options.jobs / RATE);
    let plan = json!({
        "engine": engine.name(), "url": host.url(), "space": "delayed", "folder": folder, "number": 0, "start": 0,
        "seed": 0, "writes": 0, "jobs": options.jobs, "delay": delay, "window": window,
    });
    let before = memory(None)?;
    let (log, start) = (folder.join("worker.log"), Instant::now());
    let mut worker = Command::new(&binary);
    worker.arg("delayed").arg(plan.to_string()).stdout(Stdio::piped()).stderr(server::log_file(&log)?);
    let mut worker = Worker(worker.spawn().with_context(|| format!("could not start {}", binary.display()))?);
    let mut lines = BufReader::new(worker.0.stdout.take().context("the worker has no output")?).lines();
    let mut next = || -> Result<Value> {
        let line =
            lines.next().with_context(|| format!("the worker ended; it wrote:\n{}", server::tail(&log)))?;
        Ok(serde_json::from_str(&line?)?)
    };
    let pushed = next()?;
    eprintln!("{} jobs are pushed, and due from {delay} s to {} s", options.jobs, delay + window);
    let middle = Duration::from_secs(delay + window / 2);
    thread::sleep(Duration::from_secs(delay.saturating_sub(5)).saturating_sub(start.elapsed()));
    let full = memory(Some(worker.0.id()))?;
    thread::sleep(middle.saturating_sub(start.elapsed()));
    let stop = host.next_fault();
    eprintln!("stopping the leader {stop}");
    host.restart(stop, Duration::from_secs(1), false)?;
    let result = next()?;
    ensure!(worker.0.wait()?.success(), "the worker failed; it wrote:\n{}", server::tail(&log));
    let after = memory(None)?;
    host.end()?;

    let mut table = Table::new(["chaos delayed", place]);
    let seconds = |name: &str| format!("{:.2} s", result[name].as_f64().unwrap_or(f64::NAN) / 1e3);
    for (name, value) in [
        ("jobs", options.jobs.to_string()),
        ("pushed in", format!("{:.0} s", pushed["seconds"].as_f64().unwrap_or(f64::NAN))),
        ("memory of the servers before", format!("{before:.0} MiB")),
        ("with all jobs delayed", format!("{full:.0} MiB")),
        ("after the last job", format!("{after:.0} MiB")),
        ("leader stopped", stop.to_string()),
        ("late, p50", seconds("p50")),
        ("late, p99", seconds("p99")),
        ("late, at most", seconds("max")),
        ("early", result["early"].to_string()),
        ("came again", result["again"].to_string()),
        ("left in the queue", result["left"].to_string()),
    ] {
        table.row([name.into(), value]);
    }
    println!("{table}");
    ensure!(result["early"] == 0, "jobs came before they were due");
    ensure!(result["left"] == 0, "all jobs came, and the queue is not empty");
    Ok(())
}

/// Returns the memory of the servers in MiB. The servers are the children of this process, except the worker.
fn memory(worker: Option<u32>) -> Result<f64> {
    let servers = services::children(std::process::id())?.into_iter().filter(|child| Some(*child) != worker);
    Ok(servers.filter_map(|server| proc::resident_mib(server).ok()).sum())
}

/// Ends with this.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only when the process has ended, which is what we want.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
