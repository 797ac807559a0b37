//! `cargo xtask fuzz`: libFuzzer on the targets of `lab/fuzz/`, with stable Rust.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::project::Project;

mod ledger;
mod libfuzzer;

use self::ledger::{Ledger, RUNS};
use self::libfuzzer::Programs;

/// A target, and how long what it is fed may be.
type Target = (&'static str, usize);

/// What there is to fuzz; those that need DataFusion come last.
const TARGETS: [Target; 10] = [
    ("seal", 4096),
    ("tokens", 64),
    ("journal", 4096),
    ("rest", 2048),
    ("messages", 4096),
    ("ingest", 4096),
    ("parquet", 16 * 1024),
    ("answers", 4096),
    ("filter", 2048),
    ("sql", 2048),
];
const OF_SQL: [&str; 2] = ["filter", "sql"];

/// How long a target runs at a time in a long run: no more than this is lost when it is interrupted.
const SLICE: Duration = Duration::from_mins(2);

/// Options of `cargo xtask fuzz`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which; all, if none is named.
    targets: Vec<String>,
    /// For how long each, in seconds.
    #[arg(long, default_value_t = 60, conflicts_with = "long")]
    seconds: u64,
    /// Each until it has had ten million runs or an hour of a processor. Interrupted, it goes on where it was.
    #[arg(long)]
    long: bool,
    /// The seed of the random choices of libFuzzer; another one each time, unless told.
    #[arg(long)]
    seed: Option<u32>,
    /// How many at a time; as many as there are processors, unless told.
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
    /// Leave out what needs DataFusion, which takes long to build.
    #[arg(long)]
    without_sql: bool,
}

/// Builds the targets and runs them; fails at the first that finds something.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let chosen = chosen(options)?;
    let names: Vec<&str> = chosen.iter().map(|(name, _)| *name).collect();
    let programs = Programs::build(&project, &names)?;
    let ledger = if options.long { Ledger::open(&libfuzzer::folder(&project))? } else { Ledger::default() };
    let work = Work {
        programs,
        ledger: Mutex::new(ledger),
        bars: MultiProgress::new(),
        waiting: Mutex::new(chosen.iter().rev().copied().collect()),
        seconds: (!options.long).then_some(options.seconds),
        seed: options.seed,
    };
    let jobs = options.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.min(names.len())).map(|_| scope.spawn(|| work.work())).collect();
        workers
            .into_iter()
            .try_for_each(|it| it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    println!("\n{}", work.ledger().table(names.iter().copied()));
    println!("{} passed, 0 failed", chosen.len());
    Ok(())
}

/// What those who work have in common.
struct Work {
    programs: Programs,
    ledger: Mutex<Ledger>,
    bars: MultiProgress,
    /// Nobody has begun with these; the next is last.
    waiting: Mutex<Vec<Target>>,
    /// For how long each, unless it is to be for long.
    seconds: Option<u64>,
    seed: Option<u32>,
}

impl Work {
    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Target> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Takes one target after the other. Whoever finds something has the others take no more.
    fn work(&self) -> Result<()> {
        while let Some(target) = self.next() {
            let done = match self.seconds {
                Some(seconds) => self.once(target, Duration::from_secs(seconds)),
                None => self.long(target),
            };
            if done.is_err() {
                self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
            done?;
        }
        Ok(())
    }

    fn once(&self, target: Target, time: Duration) -> Result<()> {
        eprintln!("== {}, {} s", target.0, time.as_secs());
        let found = self.programs.run(target, self.seed, None, time)?;
        eprintln!("== {}: {} runs, {} edges", target.0, found.runs, found.edges);
        self.ledger().add(target.0, &found).map(drop)
    }

    fn long(&self, target: Target) -> Result<()> {
        let name = target.0;
        let style = ProgressStyle::with_template("{prefix:9} {bar:40} {percent:>3} %, {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = self.bars.add(ProgressBar::new(1000).with_style(style).with_prefix(name));
        let mut entry = self.ledger().entry(name);
        while !entry.enough() {
            let left = RUNS - entry.runs;
            let found = self.programs.run(target, self.seed, Some(left), SLICE)?;
            entry = self.ledger().add(name, &found)?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "at most a thousand"
            )]
            bar.set_position((entry.share() * 1000.0) as u64);
            let message = format!("{} runs, {:.0} s", entry.runs, entry.seconds);
            if bar.is_hidden() {
                eprintln!("{name}: {message}");
            }
            bar.set_message(message);
        }
        bar.finish();
        Ok(())
    }
}

fn chosen(options: &Options) -> Result<Vec<Target>> {
    for name in &options.targets {
        let known = TARGETS.iter().any(|(target, _)| target == name);
        let all: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
        ensure!(known, "there is no target `{name}`; there are {}", all.join(", "));
    }
    let wanted = |name: &str| options.targets.is_empty() || options.targets.iter().any(|it| it == name);
    let fits = |name: &str| !(options.without_sql && OF_SQL.contains(&name));
    Ok(TARGETS.into_iter().filter(|(name, _)| wanted(name) && fits(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn targets_can_be_named_and_unknown_ones_are_not_passed_over() {
        let options = |targets: &[&str], without_sql| Options {
            targets: targets.iter().map(ToString::to_string).collect(),
            seconds: 1,
            long: false,
            seed: None,
            jobs: None,
            without_sql,
        };
        assert_eq!(chosen(&options(&["journal"], false)).unwrap(), [("journal", 4096)]);
        assert_eq!(chosen(&options(&[], true)).unwrap().len(), TARGETS.len() - OF_SQL.len());
        assert!(chosen(&options(&["journals"], false)).is_err());
    }

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
        for (name, _) in TARGETS {
            assert!(root.join("targets/src").join(format!("{name}.rs")).exists(), "{name}");
            assert!(root.join("corpus").join(name).is_dir(), "{name}");
        }
    }
}
