//! `cargo xtask topologies`: contract tests and chaos on servers that replicate, while their leader fails.

use std::fs;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::chaos;
use crate::project::{self, Project};
use crate::services::{Host, Topology};
use crate::table::Table;

/// Options of `cargo xtask topologies`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these topologies.
    #[arg(long, value_enum)]
    topology: Vec<Topology>,
    /// Fewer runs, for CI.
    #[arg(long)]
    quick: bool,
}

/// The outcome of one cell of the matrix, and how long it took.
struct Cell {
    outcome: Result<String>,
    seconds: f64,
}

impl Cell {
    fn of(what: &str, run: impl FnOnce() -> Result<String>) -> Self {
        eprintln!("== {what}");
        let start = Instant::now();
        let outcome = run();
        if let Err(error) = &outcome {
            eprintln!("{what}: {error:#}");
        }
        Self { outcome, seconds: start.elapsed().as_secs_f64() }
    }

    fn text(&self) -> String {
        let said = self.outcome.as_ref().map_or("FAILED", String::as_str);
        format!("{said} ({:.0} s)", self.seconds)
    }
}

pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let chosen = if options.topology.is_empty() { Topology::ALL.to_vec() } else { options.topology.clone() };
    let mut table = Table::new(["topology", "contract tests", "chaos store", "chaos tasks"]);
    let (mut passed, mut failed) = (0, 0);
    for topology in chosen {
        let name = topology.name();
        // All restarts must happen while there is work. Redis does ten times as much in the same time.
        let pace = if matches!(topology, Topology::RedisSentinel) { 20 } else { 1 };
        let jobs = pace * if options.quick { 1000 } else { 10_000 };
        let runs = if options.quick { 120 } else { 500 };
        let cells = [
            Cell::of(&format!("{name}: contract tests"), || contract_tests(&project, topology)),
            Cell::of(&format!("{name}: chaos store"), || {
                chaos::store_on(topology, jobs)?;
                Ok(format!("{jobs} writes, {jobs} jobs"))
            }),
            Cell::of(&format!("{name}: chaos tasks"), || {
                chaos::tasks_on(topology, runs)?;
                Ok(format!("{runs} runs"))
            }),
        ];
        for cell in &cells {
            if cell.outcome.is_ok() { passed += 1 } else { failed += 1 }
        }
        let [contract, store, tasks] = cells.each_ref().map(Cell::text);
        table.row([name.to_owned(), contract, store, tasks]);
    }
    println!("{table}\n{passed} passed, {failed} failed");
    ensure!(failed == 0, "{failed} cells of the matrix failed");
    Ok(())
}

/// Runs the contract tests of `antiphon-store` on the topology, and returns how many have passed.
fn contract_tests(project: &Project, topology: Topology) -> Result<String> {
    let folder = project.target.join("topologies").join(topology.name());
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    let host = Host::start_topology(topology, &folder)?;
    let engine = topology.backend().engine();
    let filter = format!("package(antiphon-store) and test(/^{}::(flaky::)?[a-z0-9_]+$/)", engine.name());
    let mut command = project::cargo();
    command.args(["nextest", "run", "--profile", "contract", "--workspace", "--all-features", "-E", &filter]);
    // A test that skips itself because a service is missing fails.
    command.env("CI", "true").env(engine.variable(), host.url());
    project::run(command.current_dir(&project.root))?;
    host.end()?;
    let report = project.root.join("target").join("nextest").join("contract").join("junit.xml");
    let report = fs::read_to_string(&report).with_context(|| format!("no report at {}", report.display()))?;
    let tests = report.split_once("tests=\"").and_then(|(_, rest)| rest.split('"').next());
    Ok(format!("{} passed", tests.context("the report has no number of tests")?))
}
