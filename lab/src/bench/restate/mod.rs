//! `cargo xtask bench restate`: three steps and one wait on Restate, to be set beside ours.
//!
//! It needs npm, and some minutes the first time; CI does not run it. The server is as it comes but for what
//! [`Load`] says; it writes every step to the disk before it goes on. Its own variables, `RESTATE_…`, are
//! passed on, for those who want to try others.

mod engine;
mod programs;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use self::engine::{Engine, LIMIT, Peer};
pub(super) use self::programs::Programs;
use super::measure::as_f64;
use crate::project::Project;
use crate::table::Table;

/// Options of `cargo xtask bench restate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs for each row.
    #[arg(long, default_value_t = 1000)]
    runs: usize,
    /// How many runs are under way at a time; several make several rows.
    #[arg(long, value_delimiter = ',', default_values_t = [16, 64])]
    parallel: Vec<usize>,
    /// Into how many parts the server divides its work.
    #[arg(long, value_delimiter = ',', default_values_t = [AS_SHIPPED, SMALL])]
    partitions: Vec<u16>,
}

/// How many partitions a server has unless told otherwise.
pub(super) const AS_SHIPPED: u16 = 24;
/// What a machine with few processors is better served with.
pub(super) const SMALL: u16 = 1;

/// What happens to a run while it waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wait {
    /// It stays in memory for a minute: what Restate does unless told otherwise.
    Attached,
    /// It is dropped at once and replayed later. Restate knows no such rule for answers alone: a run is also
    /// dropped while a step's outcome is being written.
    Suspended,
}

impl Wait {
    /// What a table calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Attached => "attached",
            Self::Suspended => "suspended",
        }
    }
}

/// How much is asked of the engine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) runs: usize,
    /// How many are under way at a time; when one is over, the next begins.
    pub(super) parallel: usize,
    /// Into how many parts the server divides its work: [`AS_SHIPPED`] or another number.
    pub(super) partitions: u16,
    pub(super) wait: Wait,
}

/// What it did.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) runs_per_second: f64,
    /// From "answer sent" to "result read", of half of the runs.
    pub(super) p50: Duration,
    /// The same, of all but a hundredth.
    pub(super) p99: Duration,
    /// CPU time of server and service together, for each run.
    pub(super) cpu_per_run: Duration,
    /// The most memory that server and service had resident, added up.
    pub(super) peak_mib: f64,
}

/// Measures Restate and prints what it did.
pub(crate) fn main(project: &Project, options: &Options) -> Result<()> {
    let programs = Programs::prepare(project)?;
    let mut table = Table::new([
        "while it waits",
        "partitions",
        "parallel",
        "runs",
        "runs/s",
        "p50 ms",
        "p99 ms",
        "CPU ms/run",
        "peak RSS MiB",
    ]);
    for wait in [Wait::Attached, Wait::Suspended] {
        for &partitions in &options.partitions {
            for &parallel in &options.parallel {
                let load = Load { runs: options.runs, parallel, partitions, wait };
                table.row(row(load, &measure(&programs, load)?));
            }
        }
    }
    println!("three steps, one wait, on Restate {}\n{table}", programs.version);
    println!("p50 and p99 are from the answer that is sent to the result that is read.");
    Ok(())
}

fn row(load: Load, figures: &Figures) -> [String; 9] {
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    [
        load.wait.name().into(),
        load.partitions.to_string(),
        load.parallel.to_string(),
        load.runs.to_string(),
        format!("{:.0}", figures.runs_per_second),
        ms(figures.p50),
        ms(figures.p99),
        ms(figures.cpu_per_run),
        format!("{:.0}", figures.peak_mib),
    ]
}

/// Starts Restate, lets it do its runs, and takes it away again.
pub(super) fn measure(programs: &Programs, load: Load) -> Result<Figures> {
    ensure!(load.runs > 0 && load.parallel > 0, "at least one run is needed to measure something");
    let engine = Engine::start(programs, load)?;
    drive_and_count(&engine, load).inspect_err(|_| eprintln!("Restate wrote:\n{}", engine.log()))
}

fn drive_and_count(engine: &Engine, load: Load) -> Result<Figures> {
    // Not counted: until each of its partitions has a leader, the server lets runs wait.
    let warm = 100 + 2 * load.parallel;
    drive(engine, load.parallel, 0, warm)?;
    let cpu = engine.cpu_time()?;
    let start = Instant::now();
    let mut latencies = drive(engine, load.parallel, warm, load.runs)?;
    let time = start.elapsed();
    let cpu = engine.cpu_time()?.saturating_sub(cpu);
    latencies.sort_unstable();
    Ok(Figures {
        runs_per_second: as_f64(load.runs) / time.as_secs_f64(),
        p50: percentile(&latencies, 50),
        p99: percentile(&latencies, 99),
        cpu_per_run: cpu.div_f64(as_f64(load.runs)),
        peak_mib: engine.peak_mib()?,
    })
}

/// Does `runs` runs, which are numbered from `first` on; says how long each took after its answer.
fn drive(engine: &Engine, parallel: usize, first: usize, runs: usize) -> Result<Vec<Duration>> {
    let (next, end) = (&AtomicUsize::new(first), first + runs);
    let work = move || -> Result<Vec<Duration>> {
        let mut driver = Driver { engine, calls: engine.connect()?, answers: engine.connect()? };
        let mut latencies = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                return Ok(latencies);
            }
            latencies.push(driver.run(number).with_context(|| format!("run {number} failed"))?);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..parallel).map(|_| scope.spawn(work)).collect();
        let each = threads.into_iter().map(|it| it.join().expect("a driver does not panic"));
        Ok(each.collect::<Result<Vec<_>>>()?.concat())
    })
}

/// Who starts a run, answers it, and reads its result.
#[derive(Debug)]
struct Driver<'a> {
    engine: &'a Engine,
    /// Taken for the whole of a run, so answers need another.
    calls: Peer,
    answers: Peer,
}

impl Driver<'_> {
    /// Does one run; says how long it took after its answer.
    fn run(&mut self, number: usize) -> Result<Duration> {
        let key = format!("run-{number}");
        let question = self.engine.questions().expect(&key);
        self.calls.send(&format!("/Trip/{key}/run"), &json!({ "name": "Ada" }))?;
        let id = question.recv_timeout(LIMIT).context("it never came to its question")?;
        let answer = json!({ "seat": number });
        let sent = Instant::now();
        self.answers.send(&format!("/restate/awakeables/{id}/resolve"), &answer)?;
        let result = self.calls.receive()?;
        let latency = sent.elapsed();
        check(&result, &answer)?;
        self.answers.receive()?;
        Ok(latency)
    }
}

/// An engine that loses steps or answers must not win.
fn check(result: &Value, answer: &Value) -> Result<()> {
    let steps = result["steps"].as_array().map_or(0, Vec::len);
    ensure!(steps == 3 && result["answer"] == *answer, "the run was given {answer} and came to {result}");
    Ok(())
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_stay_inside() {
        let sorted: Vec<Duration> = (1..=4).map(Duration::from_millis).collect();
        assert_eq!(percentile(&sorted, 50), Duration::from_millis(3));
        assert_eq!(percentile(&sorted, 99), Duration::from_millis(4));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }

    #[test]
    fn a_run_that_lost_a_step_or_its_answer_does_not_count() {
        let result = json!({ "answer": 7, "steps": [1, 2, 3] });
        check(&result, &json!(7)).unwrap();
        check(&result, &json!(8)).unwrap_err();
        check(&json!({ "answer": 7, "steps": [1, 3] }), &json!(7)).unwrap_err();
    }
}
