//! `cargo xtask chaos tasks`: runs that outlive every process that works on them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use serde_json::json;

use super::cluster::{self, Cluster, Found, Pace, Race, Setup, notes};
use crate::services::{Place, Stop, Topology};

mod client;
mod evidence;
mod laws;
mod report;

use self::client::{Client, Run};
use self::evidence::Evidence;

/// Options of `cargo xtask chaos tasks`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    place: Place,
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

impl Options {
    pub(super) fn on(topology: Topology, fault: Option<Stop>, runs: u64) -> Self {
        let place = Place::of(topology, fault);
        Self {
            place,
            runs,
            kills: runs / 2,
            seed: None,
            clients: 24,
            limit: 1800,
            binary: None,
            breaks: None,
        }
    }
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

/// Runs the whole thing and holds it against the laws.
pub(crate) fn main(options: &Options) -> Result<()> {
    let mut cluster = Cluster::start(&Setup {
        name: "tasks",
        place: options.place,
        binary: options.binary.as_deref(),
        seed: options.seed,
        asking: false,
        breaks: json!(options.breaks),
    })?;
    let start = Instant::now();
    let (evidence, figures) = Arena::new(options).rage(&mut cluster)?;
    let found = report::print(&cluster, start.elapsed(), &figures, &evidence);
    let (seed, folder) = (cluster.seed, cluster.folder.display().to_string());
    cluster.host.end()?;
    match (hold(&found), options.breaks) {
        (Ok(()), None) => Ok(()),
        (Err(_), Some(breaks)) => {
            println!("The processes were broken on purpose ({breaks:?}), and the laws have seen it.");
            Ok(())
        }
        (Ok(()), Some(breaks)) => bail!("the processes were broken ({breaks:?}), and no law has seen it"),
        (Err(error), None) => Err(error).with_context(|| {
            format!("repeat with `--seed {seed}`, or read what everybody noted in {folder}")
        }),
    }
}

/// Fails if a law was broken, or applied to nothing.
fn hold(found: &Found) -> Result<()> {
    ensure!(found.broken.is_empty(), "{} laws were broken", found.broken.len());
    ensure!(found.idle.is_empty(), "nothing was held against: {}", found.idle.join(", "));
    Ok(())
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

#[derive(Debug)]
struct Arena<'a> {
    options: &'a Options,
    race: Race,
    runs: Mutex<Vec<Run>>,
    unanswered: AtomicU64,
    orphans: Mutex<Vec<(String, bool)>>,
}

impl<'a> Arena<'a> {
    fn new(options: &'a Options) -> Self {
        let Options { runs, kills, clients, limit, .. } = *options;
        let race = Race::new(Pace { runs, kills, clients, limit, kills_wait: false });
        Self {
            options,
            race,
            runs: Mutex::default(),
            unanswered: AtomicU64::new(0),
            orphans: Mutex::default(),
        }
    }

    /// Lets clients work and kills at random until all is done.
    fn rage(&self, cluster: &mut Cluster) -> Result<(Evidence, Figures)> {
        let fronts = cluster.fronts.clone();
        let client = |rng: Rng| self.be_a_client(self.client(&fronts, rng));
        let absences = self.race.run(cluster, client, |crew, _| crew.replace_one())?;
        let mut runs = std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner));
        let orphans = std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner));
        let ledger = cluster.ledger.clone();
        let is_broken = self.options.breaks.is_some();
        // The ledger shows that the runs that were left alone have come to their end. Nobody is asked for them.
        let stranded = cluster.follow(is_broken, || Ok(count_behind(&ledger, &runs, &orphans)? == 0))?;
        fetch_ends(&mut runs, self.client(&fronts, cluster.rng.fork()));
        let client = self.client(&fronts, cluster.rng.fork());
        let (looked_again, changed) = look_again(&runs, client, fronts.len());
        let figures = Figures {
            killed: cluster.crew.killed,
            fallen: cluster.crew.fallen,
            restarts: cluster.host.restarts,
            unanswered: self.unanswered.load(Ordering::Relaxed),
            orphans: orphans.len() as u64,
        };
        cluster.crew.stop();
        let deaths = cluster.crew.deaths.iter().map(|death| (death.process.clone(), death.clone())).collect();
        let lines = notes::read(&ledger)?;
        let evidence = Evidence { runs, lines, deaths, absences, changed, orphans, stranded, looked_again };
        Ok((evidence, figures))
    }

    fn client(&self, fronts: &[SocketAddr], rng: Rng) -> Client {
        Client::new(fronts, rng, cluster::patience(self.options.breaks.is_some()))
    }

    fn be_a_client(&self, mut client: Client) {
        while let Some(number) = self.race.next_run() {
            let run = client.run(number);
            self.runs.lock().unwrap_or_else(PoisonError::into_inner).push(run);
            self.race.end_run();
        }
        self.unanswered.fetch_add(client.unanswered, Ordering::Relaxed);
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).append(&mut client.orphans);
    }
}

/// Returns how many of the runs that were left alone have not come to their end, as the ledger shows.
fn count_behind(ledger: &Path, runs: &[Run], orphans: &[(String, bool)]) -> Result<usize> {
    let lines = notes::read(ledger)?;
    let evidence = Evidence { lines, ..Evidence::default() };
    let left = runs.iter().filter(|run| run.is_left).map(|run| (&run.name, false));
    let known = orphans.iter().map(|(name, asks)| (name, *asks));
    let known = known.filter(|(name, _)| evidence.was_begun(name));
    Ok(left.chain(known).filter(|(name, asks)| evidence.is_behind(name, *asks).is_some()).count())
}

/// Asks what became of runs that were left alone, now that the ledger has told their end.
fn fetch_ends(runs: &mut [Run], mut client: Client) {
    for run in runs.iter_mut().filter(|run| run.is_left) {
        let task = client.get_from(0, &run.task);
        run.end = task.ok().filter(|task| task["status"] == "completed" || task["status"] == "failed");
    }
}

/// Asks every front end for every run that has ended, and says which has changed since.
fn look_again(runs: &[Run], mut client: Client, fronts: usize) -> (usize, Vec<String>) {
    let (mut looked, mut changed) = (0, Vec::new());
    for run in runs {
        let Some(end) = &run.end else { continue };
        for front in 0..fronts {
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
