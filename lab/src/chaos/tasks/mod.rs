//! `cargo xtask chaos tasks`: runs that outlive every process that works on them.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::project::{Profile, Project};
use crate::server;
use crate::services::{Backend, Host, Stop};

pub(super) mod client;
pub(super) mod crew;
mod evidence;
mod laws;
pub(super) mod notes;
mod report;

use self::client::{Client, Run};
use self::crew::{Crew, now};
use self::evidence::Evidence;

/// Options of `cargo xtask chaos tasks`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where the runs are kept.
    #[arg(long, value_enum)]
    backend: Backend,
    /// How many runs to bring to their end.
    #[arg(long, default_value_t = 500)]
    runs: u64,
    /// How many processes to kill meanwhile.
    #[arg(long, default_value_t = 1000)]
    kills: u64,
    /// Makes the choices repeatable; their timing is not.
    #[arg(long)]
    seed: Option<u64>,
    /// How many clients work at the same time.
    #[arg(long, default_value_t = 24)]
    clients: u64,
    /// Give up when it takes longer than so many seconds.
    #[arg(long, default_value_t = 1800)]
    limit: u64,
    /// Use this executable instead of building `task-worker`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Break the processes on purpose, to show that the laws can fail.
    #[arg(long = "break", value_enum)]
    breaks: Option<Break>,
}

/// What the processes do wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
enum Break {
    /// Lose the first job of some runs.
    DropJob,
    /// Lose the job that an answer makes due, of some runs.
    DropAnswer,
    /// Lose the job that wakes up some sleeping runs.
    DropWakeup,
    /// Perform some effects twice that may happen once.
    DoubleEffect,
}

/// The token of the operators' routes.
const TOKEN: &str = "the-operators-token-of-chaos";

/// How long runs that were left alone may take to come to their end when nobody is killed any more: a lease, a sweep for
/// lost jobs, and what they have to do.
const FOLLOW: Duration = Duration::from_secs(90);

/// The patience with runs when processes are broken on purpose.
const BROKEN: Duration = Duration::from_secs(20);

/// When the store's server is restarted, as a share of the runs in hundredths, and how it is stopped.
const RESTARTS: [(u64, Stop); 2] = [(33, Stop::Killed), (66, Stop::Asked)];

/// How long nobody is killed by us, in milliseconds.
const QUIET: std::ops::Range<u64> = 60..300;

/// Of a thousand effects, after so many the process dies before it has written down what came of it.
const FALLS: u32 = 25;

const TICK: Duration = Duration::from_millis(10);

/// Runs the whole thing and holds it against the laws.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => project.build("lab", "task-worker", Profile::Dev)?,
    };
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut rng = Rng::with_seed(seed);
    let engine = options.backend.engine();
    let folder = project.target.join("chaos").join(format!("tasks-{}", engine.name()));
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    eprintln!("starting {}, seed {seed}", engine.name());
    let mut host = Host::start(engine, &folder, options.backend.settings())?;
    let ledger = folder.join("ledger.jsonl");
    let plan = json!({
        "engine": engine.name(), "url": host.url(), "space": "chaos", "ledger": ledger, "falls": FALLS,
        "keys": format!("1={:032x}{:032x}", rng.u128(..), rng.u128(..)), "breaks": options.breaks,
        "token": TOKEN,
    });
    let fronts = (0..crew::FRONTS).map(|_| server::free_address()).collect::<Result<Vec<_>>>()?;
    let crew = Crew::start(binary, plan, &folder.join("workers.log"), &fronts, rng.fork())?;

    let arena = Arena::new(options, fronts);
    let start = Instant::now();
    let outcome = arena.rage(crew, &mut host, &mut rng, &ledger);
    let time = start.elapsed();
    let Outcome { evidence, figures } = outcome?;
    let held = report::print(engine.name(), seed, time, &figures, &evidence);
    host.end()?;
    match (held, options.breaks) {
        (Ok(()), None) => Ok(()),
        (Err(_), Some(breaks)) => {
            println!("The processes were broken on purpose ({breaks:?}), and the laws have seen it.");
            Ok(())
        }
        (Ok(()), Some(breaks)) => bail!("the processes were broken ({breaks:?}), and no law has seen it"),
        (Err(error), None) => Err(error).with_context(|| {
            format!("repeat with `--seed {seed}`, or read what everybody noted in {}", folder.display())
        }),
    }
}

/// What is counted beside the evidence.
#[derive(Debug, Default)]
struct Figures {
    killed: u64,
    fallen: u64,
    restarts: u64,
    unanswered: u64,
    orphans: u64,
}

struct Outcome {
    evidence: Evidence,
    figures: Figures,
}

#[derive(Debug)]
struct Arena<'a> {
    options: &'a Options,
    fronts: Vec<SocketAddr>,
    next: AtomicU64,
    deaths: AtomicU64,
    over: AtomicBool,
    runs: Mutex<Vec<Run>>,
    unanswered: AtomicU64,
    orphans: Mutex<Vec<(String, bool)>>,
    bar: ProgressBar,
}

impl<'a> Arena<'a> {
    fn new(options: &'a Options, fronts: Vec<SocketAddr>) -> Self {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {msg}, {elapsed}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self {
            options,
            fronts,
            next: AtomicU64::new(0),
            deaths: AtomicU64::new(0),
            over: AtomicBool::new(false),
            runs: Mutex::default(),
            unanswered: AtomicU64::new(0),
            orphans: Mutex::default(),
            bar: ProgressBar::new(options.runs).with_style(style),
        }
    }

    /// Lets clients work and kills at random until all is done.
    fn rage(&self, mut crew: Crew, host: &mut Host, rng: &mut Rng, ledger: &Path) -> Result<Outcome> {
        let mut absences = Vec::new();
        let outcome = thread::scope(|scope| {
            let clients: Vec<_> = (0..self.options.clients.max(1))
                .map(|_| {
                    let rng = rng.fork();
                    scope.spawn(|| self.be_a_client(rng))
                })
                .collect();
            let outcome = self.kill_at_random(&mut crew, host, rng, &mut absences);
            self.over.store(outcome.is_err(), Ordering::Relaxed);
            for client in clients {
                ensure!(client.join().is_ok(), "a client panicked");
            }
            outcome
        });
        self.bar.finish_and_clear();
        outcome?;
        let mut runs = std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner));
        let orphans = std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner));
        let stranded = self.follow(&mut crew, ledger, &runs, &orphans)?;
        self.fetch_ends(&mut runs, rng.fork());
        let (looked_again, changed) = self.look_again(&runs, rng.fork());
        let figures = Figures {
            killed: crew.killed,
            fallen: crew.fallen,
            restarts: host.restarts,
            unanswered: self.unanswered.load(Ordering::Relaxed),
            orphans: orphans.len() as u64,
        };
        let deaths = crew.deaths.iter().map(|death| (death.process.clone(), death.clone())).collect();
        drop(crew);
        let lines = notes::read(ledger)?;
        let evidence = Evidence { runs, lines, deaths, absences, changed, orphans, stranded, looked_again };
        Ok(Outcome { evidence, figures })
    }

    /// Waits until the ledger shows that all runs that were left alone have come to their end, without asking anybody for
    /// them; then says which runs operators still see at work.
    fn follow(
        &self,
        crew: &mut Crew,
        ledger: &Path,
        runs: &[Run],
        orphans: &[(String, bool)],
    ) -> Result<Vec<String>> {
        let limit = if self.options.breaks.is_some() { BROKEN } else { FOLLOW };
        let (start, client) = (Instant::now(), Client::new(&self.fronts, Rng::new(), self.patience()));
        let mut stranded = vec!["nobody answered when the runs were listed".to_owned()];
        while start.elapsed() < limit {
            for _ in 0..50 {
                thread::sleep(TICK * 2);
                crew.check()?;
            }
            let lines = notes::read(ledger)?;
            let evidence = Evidence { lines, ..Evidence::default() };
            let left = runs.iter().filter(|run| run.is_left).map(|run| (&run.name, false));
            let known = orphans.iter().map(|(name, asks)| (name, *asks));
            let known = known.filter(|(name, _)| evidence.was_begun(name));
            let behind = left.chain(known).filter(|(name, asks)| evidence.is_behind(name, *asks).is_some());
            // A front end may just have fallen.
            stranded = client.stranded(TOKEN).unwrap_or(stranded);
            if behind.count() == 0 && stranded.is_empty() {
                break;
            }
        }
        Ok(stranded)
    }

    /// Asks what became of runs that were left alone, now that the ledger has told their end.
    fn fetch_ends(&self, runs: &mut [Run], rng: Rng) {
        let mut client = Client::new(&self.fronts, rng, self.patience());
        for run in runs.iter_mut().filter(|run| run.is_left) {
            let task = client.get_from(0, &run.task);
            run.end = task.ok().filter(|task| task["status"] == "completed" || task["status"] == "failed");
        }
    }

    fn patience(&self) -> Duration {
        if self.options.breaks.is_some() { BROKEN } else { client::PATIENCE }
    }

    fn be_a_client(&self, rng: Rng) {
        let mut client = Client::new(&self.fronts, rng, self.patience());
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.options.runs {
                break;
            }
            // Runs begin as processes die, so that both are done at about the same time.
            while !self.over() && number * self.options.kills > self.allowance() * self.options.runs {
                thread::sleep(TICK);
            }
            if self.over() {
                break;
            }
            let run = client.run(number);
            self.runs.lock().unwrap_or_else(PoisonError::into_inner).push(run);
            self.bar.inc(1);
        }
        self.unanswered.fetch_add(client.unanswered, Ordering::Relaxed);
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).append(&mut client.orphans);
    }

    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// How many deaths' worth of runs may have begun.
    fn allowance(&self) -> u64 {
        self.deaths.load(Ordering::Relaxed) + self.options.kills / 10 + 1
    }

    fn kill_at_random(
        &self,
        crew: &mut Crew,
        host: &mut Host,
        rng: &mut Rng,
        absences: &mut Vec<(u64, u64)>,
    ) -> Result<()> {
        let Options { runs, kills, limit, .. } = *self.options;
        let mut restarts = RESTARTS.iter().peekable();
        let start = Instant::now();
        let (mut said, mut next_kill) = (start, start);
        while self.bar.position() < runs {
            thread::sleep(TICK);
            crew.check()?;
            let deaths = crew.killed + crew.fallen;
            self.deaths.store(deaths, Ordering::Relaxed);
            self.bar.set_message(format!("{deaths} died"));
            if self.bar.is_hidden() && said.elapsed() > Duration::from_secs(5) {
                eprintln!("{} of {runs} runs, {deaths} died", self.bar.position());
                said = Instant::now();
            }
            let share = 100 * self.bar.position() / runs.max(1);
            if let Some((_, stop)) = restarts.next_if(|(at, _)| *at <= share) {
                let pause = Duration::from_millis(rng.u64(..1000));
                self.bar.suspend(|| eprintln!("restarting the store's server at {share} %, {stop}"));
                let gone = now();
                host.restart(*stop, pause, false)?;
                absences.push((gone, now()));
            }
            if deaths < kills && Instant::now() >= next_kill {
                crew.replace_one()?;
                next_kill = Instant::now() + Duration::from_millis(rng.u64(QUIET));
            }
            ensure!(
                start.elapsed().as_secs() < limit,
                "after {limit} s only {} of {runs} runs have ended",
                self.bar.position()
            );
        }
        Ok(())
    }

    /// Asks every front end for every run that has ended, and says which has changed since.
    fn look_again(&self, runs: &[Run], rng: Rng) -> (usize, Vec<String>) {
        let mut client = Client::new(&self.fronts, rng, self.patience());
        let (mut looked, mut changed) = (0, Vec::new());
        for run in runs {
            let Some(end) = &run.end else { continue };
            for front in 0..self.fronts.len() {
                looked += 1;
                match client.get_from(front, &run.task) {
                    Ok(now) if now == *end => {}
                    Ok(now) => changed.push(format!("{}: {end} became {now}", run.name)),
                    Err(error) => changed.push(format!("{}: {end} is gone: {error:#}", run.name)),
                }
            }
        }
        (looked, changed)
    }
}
