//! `cargo xtask topologies`: contract tests and chaos on servers that replicate, while their leader fails.

use std::fs;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum as _;

use crate::chaos;
use crate::project::{self, Project};
use crate::services::{Backend, Host, Stop, Topology};
use crate::table::Table;

/// Options of `cargo xtask topologies`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these topologies.
    #[arg(long, value_enum)]
    topology: Vec<Topology>,
    /// Only these tests.
    #[arg(long, value_enum)]
    test: Vec<Test>,
    /// All faults in one run of each test, instead of a run for each fault.
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Test {
    /// The contract tests of `antiphon-store`, without faults.
    Contract,
    /// `chaos rounds`, only if it is named here.
    Rounds,
    /// `chaos store`.
    Store,
    /// `chaos tasks`.
    Tasks,
}

impl Test {
    const fn name(self) -> &'static str {
        match self {
            Self::Contract => "contract tests",
            Self::Rounds => "chaos rounds",
            Self::Store => "chaos store",
            Self::Tasks => "chaos tasks",
        }
    }
}

/// The outcome of one cell of the matrix, and how long it took.
struct Cell {
    test: Test,
    fault: String,
    outcome: Result<String>,
    seconds: f64,
}

impl Cell {
    fn of(topology: Topology, test: Test, fault: String, run: impl FnOnce() -> Result<String>) -> Self {
        let what = format!("{}: {}, {fault}", topology.name(), test.name());
        eprintln!("== {what}");
        let start = Instant::now();
        let outcome = run();
        if let Err(error) = &outcome {
            eprintln!("{what}: {error:#}");
        }
        Self { test, fault, outcome, seconds: start.elapsed().as_secs_f64() }
    }
}

/// Runs the chosen tests on one topology.
fn cells(project: &Project, topology: Topology, options: &Options) -> Vec<Cell> {
    // All restarts must happen while there are jobs. Some engines do much more in the same time.
    let pace = match topology.backend() {
        Backend::Postgres => 1,
        Backend::Redis => 20,
        Backend::Nats => 5,
    };
    let jobs = pace * if options.quick { 1000 } else { 10_000 };
    // A failover of Patroni and the return of the former primary take a minute.
    let restarts = if topology == Topology::PostgresPatroni { 1 } else { 3 };
    let runs = if options.quick { 120 } else { 500 };
    let faults =
        if options.quick { vec![None] } else { topology.faults().iter().copied().map(Some).collect() };
    let named = |fault: Option<Stop>| {
        fault
            .and_then(|fault| fault.to_possible_value())
            .map_or("all".into(), |value| value.get_name().into())
    };
    let chosen = |test| options.test.is_empty() || options.test.contains(&test);
    let mut cells = Vec::new();
    if chosen(Test::Contract) {
        let contract = || contract_tests(project, topology);
        cells.push(Cell::of(topology, Test::Contract, "none".into(), contract));
    }
    for fault in faults {
        // Some calls still fail with an error that asks for a retry, which the clients of this test do not do.
        if options.test.contains(&Test::Rounds) {
            cells.push(Cell::of(topology, Test::Rounds, named(fault), || {
                chaos::rounds_on(topology, fault, 20 * runs)?;
                Ok(format!("{} runs", 20 * runs))
            }));
        }
        if chosen(Test::Store) {
            cells.push(Cell::of(topology, Test::Store, named(fault), || {
                let outage = chaos::store_on(topology, fault, jobs, restarts)?;
                Ok(format!("{jobs} writes, {jobs} jobs, outage {:.1} s", outage.as_secs_f64()))
            }));
        }
        if chosen(Test::Tasks) {
            cells.push(Cell::of(topology, Test::Tasks, named(fault), || {
                chaos::tasks_on(topology, fault, runs)?;
                Ok(format!("{runs} runs"))
            }));
        }
    }
    cells
}

pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let chosen = if options.topology.is_empty() { Topology::ALL.to_vec() } else { options.topology.clone() };
    let mut table = Table::new(["topology", "fault", "test", "result", "seconds"]);
    let (mut passed, mut failed) = (0, 0);
    for topology in chosen {
        for cell in cells(&project, topology, options) {
            *if cell.outcome.is_ok() { &mut passed } else { &mut failed } += 1;
            let result = cell.outcome.as_ref().map_or("FAILED", String::as_str).to_owned();
            let seconds = format!("{:.0}", cell.seconds);
            let test = cell.test.name().to_owned();
            table.row([topology.name().to_owned(), cell.fault, test, result, seconds]);
        }
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
    let (prefix, variable) = topology.contract();
    let filter = format!("package(antiphon-store) and test(/^{prefix}::(flaky::)?[a-z0-9_]+$/)");
    let mut command = project::cargo();
    command.args(["nextest", "run", "--profile", "contract", "--workspace", "--all-features", "-E", &filter]);
    // A test that skips itself because a service is missing fails.
    command.env("CI", "true").env(variable, host.url());
    project::run(command.current_dir(&project.root))?;
    host.end()?;
    let report = project.root.join("target").join("nextest").join("contract").join("junit.xml");
    let report = fs::read_to_string(&report).with_context(|| format!("no report at {}", report.display()))?;
    let tests = report.split_once("tests=\"").and_then(|(_, rest)| rest.split('"').next());
    Ok(format!("{} passed", tests.context("the report has no number of tests")?))
}
