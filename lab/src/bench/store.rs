//! `cargo xtask bench store`: each operation of each backend, beside the bare client sending the same command.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::json;

use super::PACKAGE;
use super::figures::{Asked, Figure, RATE};
use super::measure::{Spread, pinned};
use crate::project::{self, Profile, Project};
use crate::services::{self, Backend, Host};
use crate::table::Table;

/// What ours may cost, as a multiple of the bare client.
const TARGET: f64 = 1.25;

/// Options of `cargo xtask bench store`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only this one; all three without it.
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// Seconds for each operation.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Fail when an operation takes more than this many times what the bare client takes.
    #[arg(long)]
    pub(super) limit: Option<f64>,
    /// Use this executable instead of building `store-bench`.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// What the bench needs of the server, beside its habits.
fn settings(backend: Backend) -> &'static [&'static str] {
    match backend {
        // The bare client is told by the server what ours sends, and some of that is long.
        Backend::Postgres => &["-c", "track_activity_query_size=16384"],
        Backend::Redis | Backend::Nats => &[],
    }
}

/// The engine's own benchmark, where it is installed.
fn tool(backend: Backend) -> Option<PathBuf> {
    match backend {
        Backend::Postgres => services::postgres_program("pgbench").ok(),
        Backend::Redis => project::installed("redis-benchmark").then(|| "redis-benchmark".into()),
        // `nats bench` can publish and fetch, but knows neither leases nor conditions.
        Backend::Nats => None,
    }
}

/// What `store-bench` prints of an operation. Times are microseconds.
#[derive(Debug, Deserialize)]
struct Row {
    operation: String,
    ours: f64,
    bare: f64,
    ratio: f64,
    low: f64,
    high: f64,
    slices: usize,
}

/// What it prints of leases per second.
#[derive(Debug, Deserialize)]
struct Rates {
    hands: usize,
    leases: usize,
    ours: f64,
    bare: f64,
    tool: Option<f64>,
}

/// Measures one backend after the other.
pub(super) fn main(project: &Project, options: &Options) -> Result<Vec<Figure>> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => project.build(PACKAGE, "store-bench", Profile::Release)?,
    };
    let backends = options.backend.map_or(Backend::ALL.to_vec(), |it| vec![it]);
    let mut table =
        Table::new(["backend", "operation", "ours µs", "bare µs", "ratio", "middle half", "slices", ""]);
    let mut leases =
        Table::new(["backend", "leases/s ours", "bare client", "own tool", "hands", "leases each"]);
    let (mut figures, mut failed) = (Vec::new(), Vec::new());
    let limit = options.limit.unwrap_or(TARGET);
    for backend in backends {
        let name = backend.engine().name();
        let folder = project.target.join("bench").join(format!("store-{name}"));
        let host = pinned(0, || Host::start(backend.engine(), &folder, settings(backend)))?;
        let measured = measure(&binary, backend, &host.url(), options.seconds);
        host.end()?;
        // What was measured of the others is still worth seeing.
        let (rows, rates) = match measured {
            Ok(measured) => measured,
            Err(error) => {
                failed.push(format!("{name} was not measured: {error:#}"));
                continue;
            }
        };
        for row in rows {
            let figure = Figure::new(format!("{name}: {}", row.operation), "µs", row.ours);
            let ratio = Spread { low: row.low, median: row.ratio, high: row.high };
            let figure = figure.beside("the bare client", row.bare).paired(&ratio);
            figures.push(figure.asked(Asked::RatioAtMost(limit)));
            table.row([
                name.into(),
                row.operation,
                format!("{:.0}", row.ours),
                format!("{:.0}", row.bare),
                format!("{:.2}", row.ratio),
                format!("{:.2} to {:.2}", row.low, row.high),
                row.slices.to_string(),
                if row.ratio > limit { "over".into() } else { String::new() },
            ]);
        }
        let leased = Figure::new(format!("{name}: jobs leased by {} hands", rates.hands), RATE, rates.ours);
        figures.push(leased.clone().beside("the bare client", rates.bare));
        figures.extend(rates.tool.map(|rate| leased.beside("the engine's own tool", rate)));
        leases.row([
            name.into(),
            format!("{:.0}", rates.ours),
            format!("{:.0}", rates.bare),
            rates.tool.map_or_else(|| "none".into(), |rate| format!("{rate:.0}")),
            rates.hands.to_string(),
            rates.leases.to_string(),
        ]);
    }
    println!(
        "one client; medians of slices of ten, ours and bare in turn; the ratio is the median of the pairs\n{table}"
    );
    println!("jobs leased one at a time, by many hands, each side in turn on one queue; medians\n{leases}");
    println!(
        "Servers have one processor, clients another. The bare client sends what the server saw ours send; NATS cannot tell, so there it is written by hand."
    );
    println!(
        "Own tools: pgbench with the same statement, redis-benchmark with the same script. For NATS there is none."
    );
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(figures)
}

fn measure(binary: &PathBuf, backend: Backend, url: &str, seconds: f64) -> Result<(Vec<Row>, Rates)> {
    let plan = json!({
        "engine": backend.engine().name(), "url": url, "seconds": seconds, "tool": tool(backend),
    });
    let output = Command::new(binary).arg(plan.to_string()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("could not start {}", binary.display()))?;
    ensure!(output.status.success(), "the bench failed ({})", output.status);
    let text = String::from_utf8(output.stdout).context("the bench did not print UTF-8")?;
    let mut lines: Vec<&str> = text.lines().collect();
    let rates = lines.pop().context("the bench printed nothing")?;
    let rows = lines.into_iter().map(serde_json::from_str).collect::<Result<Vec<Row>, _>>();
    Ok((rows.context("the bench printed something else")?, serde_json::from_str(rates)?))
}
