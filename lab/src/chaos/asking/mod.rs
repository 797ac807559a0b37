//! `cargo xtask chaos asking`: questions that users answer in a form of the server, while processes are killed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;
use serde_json::{Value, json};

use super::cluster::{self, Cluster, Pace, Race, Setup, crew::Crew, notes};
use crate::mcp::MODERN;
use crate::services::Place;

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
    #[command(flatten)]
    place: Place,
    /// The number of runs.
    #[arg(long, default_value_t = 500)]
    runs: u64,
    /// The number of processes to kill during the runs.
    #[arg(long, default_value_t = 500)]
    kills: u64,
    /// Repeats the random choices of an earlier call. Their timing differs.
    #[arg(long)]
    seed: Option<u64>,
    /// The number of clients that work at the same time. They wait most of the time.
    #[arg(long, default_value_t = 48)]
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

/// Runs the clients and the killer, and applies the laws.
pub(crate) fn main(options: &Options) -> Result<()> {
    let mut cluster = Cluster::start(&Setup {
        name: "asking",
        place: options.place,
        binary: options.binary.as_deref(),
        seed: options.seed,
        asking: true,
        breaks: json!(options.breaks.and_then(Break::of_processes)),
    })?;
    let arena = Arena::new(options, Fronts::new(cluster.fronts.clone()));
    let start = Instant::now();
    let (evidence, figures) = arena.rage(&mut cluster)?;
    let found = report::print(&cluster, start.elapsed(), &figures, &evidence);
    let (seed, folder) = (cluster.seed, cluster.folder.display().to_string());
    cluster.host.end()?;
    if let Some(breaks) = options.breaks {
        let law = breaks.law();
        ensure!(found.broken.contains(&law), "the fault {breaks:?} was injected, and `{law}` still holds");
        println!("The fault {breaks:?} was injected, and the laws have detected it.");
        return Ok(());
    }
    let failed = found.broken.len();
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

#[derive(Debug)]
struct Arena<'a> {
    options: &'a Options,
    fronts: Fronts,
    race: Race,
    runs: Mutex<Vec<Run>>,
    orphans: AtomicU64,
}

impl<'a> Arena<'a> {
    fn new(options: &'a Options, fronts: Fronts) -> Self {
        let Options { runs, kills, clients, limit, .. } = *options;
        let race = Race::new(Pace { runs, kills, clients, limit, kills_wait: true });
        Self { options, fronts, race, runs: Mutex::default(), orphans: AtomicU64::new(0) }
    }

    /// Lets clients work and kills at random until all runs have ended.
    fn rage(&self, cluster: &mut Cluster) -> Result<(Evidence, Figures)> {
        let mut during = 0;
        self.race.run(cluster, |rng| self.be_a_client(rng), |crew, rng| self.kill(crew, rng, &mut during))?;
        let stranded = cluster.follow(self.options.breaks.is_some(), || Ok(true))?;
        let runs = std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner));
        let looked_again = self.look_again(&runs);
        let figures = Figures {
            killed: cluster.crew.killed,
            fallen: cluster.crew.fallen,
            during,
            restarts: cluster.host.restarts,
            unanswered: self.fronts.unanswered.load(Ordering::Relaxed),
            orphans: self.orphans.load(Ordering::Relaxed),
        };
        cluster.crew.stop();
        let lines = notes::read(&cluster.ledger)?;
        Ok((Evidence { runs, lines, looked_again, stranded }, figures))
    }

    fn be_a_client(&self, rng: Rng) {
        let patience = cluster::patience(self.options.breaks.is_some());
        let mut client = Client::new(&self.fronts, rng, patience, self.options.breaks);
        while let Some(number) = self.race.next_run() {
            let run = client.run(number);
            self.runs.lock().unwrap_or_else(PoisonError::into_inner).push(run);
            self.race.end_run();
        }
        self.orphans.fetch_add(client.orphans, Ordering::Relaxed);
    }

    /// Kills a process. Every second kill hits a front end with an answer in flight, if there is one. Counts those in
    /// `during`.
    fn kill(&self, crew: &mut Crew, rng: &mut Rng, during: &mut u64) -> Result<()> {
        match self.fronts.answering(rng).filter(|_| rng.bool()) {
            Some(front) => {
                *during += 1;
                crew.replace_front(front)
            }
            None => crew.replace_one(),
        }
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
