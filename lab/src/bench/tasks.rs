//! `cargo xtask bench tasks`: legs beside the bare queue, whole runs, and very many runs that wait.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::figures::{Asked, Figure, MIB, RATE, missed};
use super::measure::pinned;
use super::{PACKAGE, restate};
use crate::project::{Profile, Project};
use crate::services::{Backend, Host};
use crate::table::Table;

/// What is to be reached: legs as a share of the bare queue's leases, and milliseconds until a run that was answered goes on.
const RATIO: f64 = 0.5;
const MEDIAN: f64 = 20.0;
const TAIL: f64 = 200.0;

/// How many runs are under way at a time, as in `task-bench`.
const HANDS: usize = 16;

/// Options of `cargo xtask bench tasks`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only this one; all four without it.
    #[arg(long, value_enum)]
    backend: Option<Where>,
    /// How many legs each round has, and how many runs there are.
    #[arg(long, default_value_t = 1600)]
    count: usize,
    /// Instead of that, have so many runs wait, and answer a thousand of them.
    #[arg(long)]
    waiting: Option<usize>,
    /// The same runs on Restate, too; needs npm, and some minutes the first time.
    #[arg(long)]
    restate: bool,
    /// Fail when a goal is not reached.
    #[arg(long)]
    pub(super) strict: bool,
    /// Use this executable instead of building `task-bench`.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Where runs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Where {
    Postgres,
    Redis,
    Nats,
    Memory,
}

impl Where {
    pub(super) const ALL: [Self; 4] = [Self::Postgres, Self::Redis, Self::Nats, Self::Memory];

    pub(super) fn name(self) -> &'static str {
        self.backend().map_or("memory", |backend| backend.engine().name())
    }

    fn backend(self) -> Option<Backend> {
        match self {
            Self::Postgres => Some(Backend::Postgres),
            Self::Redis => Some(Backend::Redis),
            Self::Nats => Some(Backend::Nats),
            Self::Memory => None,
        }
    }
}

/// What `task-bench` prints of legs, in one second.
#[derive(Debug, Deserialize)]
pub(super) struct Legs {
    hands: usize,
    #[serde(rename = "legs")]
    count: usize,
    pub(super) ours: f64,
    bare: f64,
    ratio: f64,
    created: f64,
}

/// What it prints of runs. Times are milliseconds from `tasks/update` to the end.
#[derive(Debug, Deserialize)]
pub(super) struct Runs {
    #[serde(rename = "runs")]
    count: usize,
    pub(super) rate: f64,
    busy50: f64,
    busy99: f64,
    alone50: f64,
    alone99: f64,
}

/// What it prints of runs that wait. Times are milliseconds from `tasks/update` to the next leg's effect.
#[derive(Debug, Deserialize)]
struct Waiting {
    #[serde(rename = "waiting")]
    count: usize,
    created: f64,
    all_waiting_s: f64,
    before_mib: f64,
    after_mib: f64,
    end_mib: f64,
    answered: usize,
    p50: f64,
    p99: f64,
}

/// Measures one backend after the other.
pub(super) fn main(project: &Project, options: &Options) -> Result<Vec<Figure>> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => project.build(PACKAGE, "task-bench", Profile::Release)?,
    };
    let places = options.backend.map_or(Where::ALL.to_vec(), |it| vec![it]);
    let bench = Bench { project, binary };
    let figures = match options.waiting {
        Some(count) => bench.waiting(&places, count)?,
        None => bench.legs_and_runs(&places, options.count, options.restate)?,
    };
    for goal in missed(&figures) {
        println!("missed: {goal}");
    }
    Ok(figures)
}

/// A build of `task-bench`.
pub(super) struct Bench<'a> {
    pub(super) project: &'a Project,
    pub(super) binary: PathBuf,
}

impl Bench<'_> {
    fn legs_and_runs(&self, places: &[Where], count: usize, restate: bool) -> Result<Vec<Figure>> {
        let mut legs =
            Table::new(["store", "legs/s", "leases/s bare", "ratio", "created/s", "hands", "legs"]);
        let mut runs = Table::new(["store", "runs/s", "p50 ms busy", "p99", "p50 ms alone", "p99", "runs"]);
        let mut figures = Vec::new();
        for place in places {
            let name = place.name();
            let (found, ran) = self.on(*place, |url| {
                Ok((self.measure::<Legs>(url, "legs", count)?, self.measure::<Runs>(url, "runs", count)?))
            })?;
            let worked = Figure::new(format!("{name}: legs"), RATE, found.ours);
            // Memory's queue is a map under a lock: it does nothing that a leg could be a part of.
            let asked = place.backend().map(|_| Asked::RatioAtLeast(RATIO));
            let mut worked = worked.beside("the bare queue's leases", found.bare).asked(asked);
            // The middle of the rounds' ratios, which is not the ratio of the middles.
            worked.ratio = Some(found.ratio);
            figures.push(worked.sizing(format!("legs of tasks, kept in {name}")));
            figures.push(Figure::new(format!("{name}: tasks created"), RATE, found.created));
            let times = [
                ("busy, p50", ran.busy50),
                ("busy, p99", ran.busy99),
                ("alone, p50", ran.alone50),
                ("alone, p99", ran.alone99),
            ];
            figures.push(
                Figure::new(format!("{name}: runs of two legs"), RATE, ran.rate)
                    .sizing(format!("runs with one question, as tasks kept in {name}")),
            );
            figures.extend(
                times.map(|(when, ms)| Figure::new(format!("{name}: answer to end, {when}"), "ms", ms)),
            );
            legs.row([
                name.into(),
                format!("{:.0}", found.ours),
                format!("{:.0}", found.bare),
                format!("{:.2}", found.ratio),
                format!("{:.0}", found.created),
                found.hands.to_string(),
                found.count.to_string(),
            ]);
            runs.row([
                name.into(),
                format!("{:.0}", ran.rate),
                format!("{:.1}", ran.busy50),
                format!("{:.1}", ran.busy99),
                format!("{:.1}", ran.alone50),
                format!("{:.1}", ran.alone99),
                ran.count.to_string(),
            ]);
        }
        println!(
            "legs that begin and end, beside lease and ack of the same payload; medians of five rounds\n{legs}"
        );
        if restate {
            figures.extend(self.on_restate(&mut runs, count)?);
        }
        println!(
            "two steps, a question, a step; from `tasks/update` to the end, looked at every 5 ms\n{runs}"
        );
        println!("In one process, over a duplex: no HTTP. Servers have one processor, the process another.");
        Ok(figures)
    }

    /// The same runs on another engine, with its own settings and with those that suit a small machine.
    fn on_restate(&self, table: &mut Table, runs: usize) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        let programs = restate::Programs::prepare(self.project)?;
        let ms = |time: std::time::Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        for wait in [restate::Wait::Attached, restate::Wait::Suspended] {
            for partitions in [restate::AS_SHIPPED, restate::SMALL] {
                eprintln!("restate: {}, {partitions} partitions", wait.name());
                let load = |parallel, runs| restate::Load { runs, parallel, partitions, wait };
                let busy = restate::measure(&programs, load(HANDS, runs))?;
                let alone = restate::measure(&programs, load(1, runs.min(200)))?;
                let name = format!("restate, {}, {partitions} partitions", wait.name());
                figures.push(Figure::new(format!("{name}: runs"), RATE, busy.runs_per_second));
                for (when, time) in [("busy", busy.p50), ("alone", alone.p50)] {
                    let ms = time.as_secs_f64() * 1e3;
                    figures.push(Figure::new(format!("{name}: answer to end, {when}, p50"), "ms", ms));
                }
                table.row([
                    name,
                    format!("{:.0}", busy.runs_per_second),
                    ms(busy.p50),
                    ms(busy.p99),
                    ms(alone.p50),
                    ms(alone.p99),
                    runs.to_string(),
                ]);
            }
        }
        Ok(figures)
    }

    fn waiting(&self, places: &[Where], count: usize) -> Result<Vec<Figure>> {
        let mut table = Table::new([
            "store",
            "waiting",
            "created/s",
            "s until all wait",
            "MiB before",
            "after",
            "in the end",
            "answered",
            "p50 ms",
            "p99 ms",
        ]);
        let mut figures = Vec::new();
        for place in places {
            let found = self.on(*place, |url| self.measure::<Waiting>(url, "waiting", count))?;
            let name = place.name();
            let waiting = format!("{name}, {} runs wait", found.count);
            for (hundredth, ms, limit) in [("p50", found.p50, MEDIAN), ("p99", found.p99, TAIL)] {
                let figure = Figure::new(format!("{waiting}: answer to next leg, {hundredth}"), "ms", ms);
                figures.push(figure.asked(Asked::AtMost(limit)));
            }
            let memory = format!("{waiting}: memory of the process");
            let figure =
                Figure::new(&memory, MIB, found.after_mib).beside("before they began", found.before_mib);
            figures.push(figure.sizing(memory));
            table.row([
                name.into(),
                found.count.to_string(),
                format!("{:.0}", found.created),
                format!("{:.1}", found.all_waiting_s),
                format!("{:.1}", found.before_mib),
                format!("{:.1}", found.after_mib),
                format!("{:.1}", found.end_mib),
                found.answered.to_string(),
                format!("{:.1}", found.p50),
                format!("{:.1}", found.p99),
            ]);
        }
        println!("runs that wait for an answer; from `tasks/update` sent to the next leg's effect\n{table}");
        println!("The memory is that of the one process that serves and works, in which the client is, too.");
        Ok(figures)
    }

    /// Does `work` with the address of a fresh store.
    pub(super) fn on<T>(&self, place: Where, work: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let Some(backend) = place.backend() else { return work("memory:") };
        let folder = self.project.target.join("bench").join(format!("tasks-{}", place.name()));
        let host = pinned(0, || Host::start(backend.engine(), &folder, &[]))?;
        let worked = work(&host.url());
        host.end()?;
        worked
    }

    pub(super) fn measure<T: DeserializeOwned>(&self, url: &str, kind: &str, count: usize) -> Result<T> {
        eprintln!("{}: {kind}", url.split(':').next().unwrap_or_default());
        measure(&self.binary, &json!({ "url": url, "kind": kind, "count": count }).to_string())
    }
}

fn measure<T: DeserializeOwned>(binary: &Path, plan: &str) -> Result<T> {
    let output = Command::new(binary).arg(plan).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("could not start {}", binary.display()))?;
    ensure!(output.status.success(), "the bench failed ({})", output.status);
    serde_json::from_slice(&output.stdout).context("the bench printed something else")
}
