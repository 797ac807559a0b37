//! Simulates schedules of the task engine, for `cargo xtask simulate`.
//!
//! Each schedule has a seed. With `--defects`, each defect of the list is planted, and the program counts the schedules
//! that it takes to find the defect.

#![expect(clippy::print_stdout, reason = "the output is the report")]

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use antiphon::simulation::{Defect, Report, simulate};
use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

/// The default maximum number of schedules that a defect can take.
const MOST: u64 = 20_000;

/// What all threads add to.
#[derive(Default)]
struct Sum {
    coverage: Mutex<BTreeMap<&'static str, u64>>,
    failed: Mutex<Option<(u64, Report)>>,
}

fn argument(name: &str) -> Result<Option<u64>> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    let Some(value) = arguments.nth(1) else { return Ok(None) };
    value.parse().map(Some).with_context(|| format!("`{name} {value}` is not a number"))
}

/// Simulates the schedules from `first`, on as many threads as there are cores, until one violates a rule.
fn run(first: u64, schedules: u64, defect: Option<Defect>) -> Result<Sum> {
    let (sum, next) = (Sum::default(), AtomicU64::new(0));
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} schedules, {per_sec}, {eta} left {msg}")?;
    let bar = ProgressBar::new(schedules).with_style(style);
    bar.set_message(defect.map_or_else(String::new, |defect| format!("with {defect:?}")));
    let worker = || {
        let mut coverage: BTreeMap<&'static str, u64> = BTreeMap::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let is_failed = sum.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            if number >= schedules || is_failed {
                break;
            }
            let report = simulate(first + number, defect);
            for (kind, count) in &report.coverage {
                *coverage.entry(kind).or_default() += count;
            }
            if !report.violations.is_empty() {
                let mut failed = sum.failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(seed, _)| *seed > first + number) {
                    *failed = Some((first + number, report));
                }
                break;
            }
            bar.inc(1);
        }
        let mut all = sum.coverage.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, count) in coverage {
            *all.entry(kind).or_default() += count;
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    bar.finish_and_clear();
    Ok(sum)
}

fn defects(first: u64, most: u64) -> Result<u64> {
    let mut missed = Vec::new();
    for defect in Defect::ALL {
        let sum = run(first, most, Some(defect))?;
        match sum.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((seed, report)) => {
                let schedules = seed - first + 1;
                let violation: String = report.violations[0].chars().take(100).collect();
                println!("{defect:?}: found after {schedules} schedules: {violation}");
            }
            None => missed.push(format!("{defect:?}")),
        }
    }
    if !missed.is_empty() {
        bail!("not found in {most} schedules: {}", missed.join(", "));
    }
    Ok(Defect::ALL.len() as u64)
}

fn main() -> Result<ExitCode> {
    if let Some(seed) = argument("--seed")? {
        let report = simulate(seed, None);
        println!("{report}");
        return Ok(if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let first = argument("--first")?.unwrap_or_default();
    let schedules = argument("--schedules")?.unwrap_or(10_000);
    let began = Instant::now();
    let sum = run(first, schedules, None)?;
    if let Some((seed, report)) = sum.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{report}");
        bail!(
            "schedule {seed} violates a rule; repeat the schedule with `cargo xtask simulate --seed {seed}`"
        );
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = f64::from(u32::try_from(schedules).unwrap_or(u32::MAX)) / seconds;
    println!("{schedules} schedules in {seconds:.1} s, {rate:.0} per second, 0 violations");
    for (kind, count) in sum.coverage.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{count:>10} {kind}");
    }
    let found = if std::env::args().any(|argument| argument == "--defects") {
        defects(first, argument("--most")?.unwrap_or(MOST))?
    } else {
        0
    };
    println!("{} passed, 0 failed", schedules + found);
    Ok(ExitCode::SUCCESS)
}
