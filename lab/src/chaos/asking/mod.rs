//! `cargo xtask chaos asking`: questions that users answer in a form of the server, while processes are killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::tasks::client::Client as Operator;
use super::tasks::crew::{self, Crew};
use super::tasks::notes;
use crate::mcp::MODERN;
use crate::project::{Profile, Project};
use crate::server;
use crate::services::{Backend, Host, Stop};

mod caller;
mod client;
mod laws;
mod report;
mod run;
mod view;

use self::caller::{Caller, Fronts};
use self::client::Client;
use self::laws::Evidence;
use self::run::{Checks, Run};

/// Options of `cargo xtask chaos asking`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The backend that stores the runs.
    #[arg(long, value_enum)]
    backend: Backend,
    /// The number of runs.
    #[arg(long, default_value_t = 500)]
    runs: u64,
    /// The number of processes to kill during the runs.
    #[arg(long, default_value_t = 500)]
    kills: u64,
    /// Repeats the random choices of an earlier call. Their timing differs.
    #[arg(long)]
    seed: Option<u64>,
    /// The number of clients that work at the same time.
    #[arg(long, default_value_t = 24)]
    clients: u64,
    /// The number of seconds after which the command gives up.
    #[arg(long, default_value_t = 1800)]
    limit: u64,
    /// Use this executable instead of building `task-worker`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Inject a fault, to show that the laws can fail.
    #[arg(long = "break", value_enum)]
    breaks: Option<Break>,
}

/// A fault that is made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Break {
    /// Report a second answer to a question as acknowledged.
    DoubleAnswer,
    /// Lose the job that an answer makes due, of some runs.
    DropAnswer,
    /// Perform some effects twice.
    DoubleEffect,
    /// Send the requests of another user in the name of the owner.
    OtherUser,
}

impl Break {
    /// Returns the fault of the processes. The other faults are those of the clients.
    fn of_processes(self) -> Option<&'static str> {
        match self {
            Self::DropAnswer => Some("drop-answer"),
            Self::DoubleEffect => Some("double-effect"),
            Self::DoubleAnswer | Self::OtherUser => None,
        }
    }

    /// Returns the law that must detect the fault.
    fn law(self) -> &'static str {
        match self {
            Self::DoubleAnswer => laws::ONCE,
            Self::DropAnswer => laws::ENDS,
            Self::DoubleEffect => laws::EFFECT,
            Self::OtherUser => laws::OWNER,
        }
    }
}

/// The token of the operators' routes.
const TOKEN: &str = "the-operators-token-of-chaos";

/// How long runs without a client can take to reach their question after the last kill: a lease, and a sweep for lost
/// jobs.
const FOLLOW: Duration = Duration::from_secs(90);

/// How long a run can take if a fault is injected.
const BROKEN: Duration = Duration::from_secs(20);

/// When the store's server is restarted, as a share of the runs in hundredths, and how it is stopped.
const RESTARTS: [(u64, Stop); 2] = [(33, Stop::Killed), (66, Stop::Asked)];

/// The time between two kills, in milliseconds.
const QUIET: std::ops::Range<u64> = 60..300;

/// Of a thousand effects, the process dies after so many before it has stored the result.
const FALLS: u32 = 25;

const TICK: Duration = Duration::from_millis(5);

/// Runs the clients and the killer, and applies the laws.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => project.build("lab", "task-worker", Profile::Dev)?,
    };
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut rng = Rng::with_seed(seed);
    let engine = options.backend.engine();
    let folder = project.target.join("chaos").join(format!("asking-{}", engine.name()));
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    eprintln!("starting {}, seed {seed}", engine.name());
    let mut host = Host::start(engine, &folder, options.backend.settings())?;
    let ledger = folder.join("ledger.jsonl");
    let plan = json!({
        "engine": engine.name(), "url": host.url(), "space": "chaos", "ledger": ledger, "falls": FALLS,
        "keys": format!("1={:032x}{:032x}", rng.u128(..), rng.u128(..)), "token": TOKEN, "asking": true,
        "breaks": options.breaks.and_then(Break::of_processes),
    });
    let fronts = (0..crew::FRONTS).map(|_| server::free_address()).collect::<Result<Vec<_>>>()?;
    let crew = Crew::start(binary, plan, &folder.join("workers.log"), &fronts, rng.fork())?;

    let arena = Arena::new(options, Fronts::new(fronts));
    let start = Instant::now();
    let outcome = arena.rage(crew, &mut host, &mut rng, &ledger);
    let time = start.elapsed();
    let Outcome { evidence, figures } = outcome?;
    let found = report::print(engine.name(), seed, time, &figures, &evidence);
    host.end()?;
    if let Some(breaks) = options.breaks {
        let law = breaks.law();
        ensure!(found.broken.contains(&law), "the fault {breaks:?} was injected, and `{law}` still holds");
        println!("The fault {breaks:?} was injected, and the laws have detected it.");
        return Ok(());
    }
    let (failed, folder) = (found.broken.len(), folder.display());
    ensure!(
        failed == 0,
        "{failed} laws were broken; repeat with `--seed {seed}`, or read the ledger and the logs in {folder}"
    );
    ensure!(found.idle.is_empty(), "no evidence for: {}; use more runs", found.idle.join(", "));
    Ok(())
}

/// Numbers for the report, beside the evidence.
#[derive(Debug, Default)]
struct Figures {
    killed: u64,
    fallen: u64,
    /// Kills of a front end with an answer in flight.
    during: u64,
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
    fronts: Fronts,
    next: AtomicU64,
    deaths: AtomicU64,
    over: AtomicBool,
    runs: Mutex<Vec<Run>>,
    orphans: AtomicU64,
    bar: ProgressBar,
}

impl<'a> Arena<'a> {
    fn new(options: &'a Options, fronts: Fronts) -> Self {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {msg}, {elapsed}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self {
            options,
            fronts,
            next: AtomicU64::new(0),
            deaths: AtomicU64::new(0),
            over: AtomicBool::new(false),
            runs: Mutex::default(),
            orphans: AtomicU64::new(0),
            bar: ProgressBar::new(options.runs).with_style(style),
        }
    }

    /// Lets clients work and kills at random until all runs have ended.
    fn rage(&self, mut crew: Crew, host: &mut Host, rng: &mut Rng, ledger: &Path) -> Result<Outcome> {
        let outcome = thread::scope(|scope| {
            let clients: Vec<_> = (0..self.options.clients.max(1))
                .map(|_| {
                    let rng = rng.fork();
                    scope.spawn(|| self.be_a_client(rng))
                })
                .collect();
            let outcome = self.kill_at_random(&mut crew, host, rng);
            self.over.store(outcome.is_err(), Ordering::Relaxed);
            for client in clients {
                ensure!(client.join().is_ok(), "a client panicked");
            }
            outcome
        });
        self.bar.finish_and_clear();
        let during = outcome?;
        let stranded = self.follow(&mut crew)?;
        let runs = std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner));
        let looked_again = self.look_again(&runs);
        let figures = Figures {
            killed: crew.killed,
            fallen: crew.fallen,
            during,
            restarts: host.restarts,
            unanswered: self.fronts.unanswered.load(Ordering::Relaxed),
            orphans: self.orphans.load(Ordering::Relaxed),
        };
        drop(crew);
        let lines = notes::read(ledger)?;
        Ok(Outcome { evidence: Evidence { runs, lines, looked_again, stranded }, figures })
    }

    fn be_a_client(&self, rng: Rng) {
        let mut client = Client::new(&self.fronts, rng, self.patience(), self.options.breaks);
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.options.runs {
                break;
            }
            // Runs start as processes die, so that both are done at about the same time.
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
        self.orphans.fetch_add(client.orphans, Ordering::Relaxed);
    }

    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn patience(&self) -> Duration {
        if self.options.breaks.is_some() { BROKEN } else { client::PATIENCE }
    }

    /// Returns how many deaths' worth of runs can have started.
    fn allowance(&self) -> u64 {
        self.deaths.load(Ordering::Relaxed) + self.options.kills / 10 + 1
    }

    /// Kills until all runs have ended. Every second kill hits a front end with an answer in flight, if there is one.
    /// Returns the number of those.
    fn kill_at_random(&self, crew: &mut Crew, host: &mut Host, rng: &mut Rng) -> Result<u64> {
        let Options { runs, kills, limit, .. } = *self.options;
        let mut restarts = RESTARTS.iter().peekable();
        let start = Instant::now();
        let (mut said, mut next_kill, mut during) = (start, start, 0);
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
                host.restart(*stop, pause, false)?;
            }
            if deaths < kills && Instant::now() >= next_kill {
                match self.fronts.answering(rng).filter(|_| rng.bool()) {
                    Some(front) => {
                        crew.replace_front(front)?;
                        during += 1;
                    }
                    None => crew.replace_one()?,
                }
                next_kill = Instant::now() + Duration::from_millis(rng.u64(QUIET));
            }
            ensure!(
                start.elapsed().as_secs() < limit,
                "after {limit} s only {} of {runs} runs have ended",
                self.bar.position()
            );
        }
        Ok(during)
    }

    /// Waits until no run is at work. Returns the runs that operators still see at work.
    fn follow(&self, crew: &mut Crew) -> Result<Vec<String>> {
        let limit = if self.options.breaks.is_some() { BROKEN } else { FOLLOW };
        let operator = Operator::new(&self.fronts.addresses, Rng::new(), self.patience());
        let start = Instant::now();
        let mut stranded = vec!["no front end listed the runs".to_owned()];
        while start.elapsed() < limit && !stranded.is_empty() {
            for _ in 0..50 {
                thread::sleep(TICK * 2);
                crew.check()?;
            }
            // A front end can have died just now.
            stranded = operator.stranded(TOKEN).unwrap_or(stranded);
        }
        Ok(stranded)
    }

    /// Reads every result again from every front end.
    fn look_again(&self, runs: &[Run]) -> Checks {
        let mut checks = Checks::default();
        for run in runs {
            let Some(end) = &run.end else { continue };
            let mut caller = Caller::new(&self.fronts, &run.user, MODERN);
            for front in 0..self.fronts.addresses.len() {
                let now = read_again(&mut caller, front, &run.task, end);
                checks.check(is_same(&now, end), || format!("{}: {end} became {now}", run.name));
            }
        }
        checks
    }
}

/// How long a front end can take to return a result that it has returned before.
const AGAIN: Duration = Duration::from_secs(20);

/// Reads a result from a front end. If it differs from `end`, waits for a while, because a front end can have died.
fn read_again(caller: &mut Caller<'_>, front: usize, task: &str, end: &Value) -> Value {
    let start = Instant::now();
    loop {
        let result = caller.call(front, "task_result", &json!({ "id": task, "wait": 0 }));
        let result = result.unwrap_or_else(|error| json!({ "isError": true, "content": error.to_string() }));
        // Only an error can be temporary.
        if is_same(&result, end) || result["isError"] != true || start.elapsed() > AGAIN {
            return result;
        }
        thread::sleep(Duration::from_millis(40));
    }
}

/// Returns whether two results are the same. Their metadata can differ.
fn is_same(one: &Value, other: &Value) -> bool {
    let parts = |result: &Value| {
        (result["content"].clone(), result["structuredContent"].clone(), result["isError"] == true)
    };
    parts(one) == parts(other)
}
