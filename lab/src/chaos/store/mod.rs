//! `cargo xtask chaos store`: writers and workers that are killed on a server that is restarted.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::project::{Profile, Project};
use crate::services::{Host, Place, Stop, Topology};
use crate::table::Table;

mod crew;
mod progress;

pub(super) use crate::services::Backend;

use self::crew::Crew;
use self::progress::Progress;

/// Options of `cargo xtask chaos store`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    place: Place,
    /// How many conditional writes to have acknowledged.
    #[arg(long, default_value_t = 10_000)]
    writes: u64,
    /// How many jobs to have done.
    #[arg(long, default_value_t = 10_000)]
    jobs: u64,
    /// How often to restart the server meanwhile.
    #[arg(long, default_value_t = 3)]
    restarts: u64,
    /// Makes the choices repeatable; their timing is not.
    #[arg(long)]
    seed: Option<u64>,
    /// Give up when it takes longer than so many seconds.
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// Use this executable instead of building `store-worker`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Show that the check can fail: at a restart the server comes back with nothing.
    #[arg(long = "break")]
    is_broken: bool,
}

impl Options {
    pub(super) fn on(topology: Topology, fault: Option<Stop>, count: u64, restarts: u64) -> Self {
        let place = Place::of(topology, fault);
        Self {
            place,
            writes: count,
            jobs: count,
            restarts,
            seed: None,
            limit: 900,
            binary: None,
            is_broken: false,
        }
    }
}

/// About how many processes are killed while the work is done; more if it takes long.
const KILLS: u64 = 200;

/// An outage that is longer is not measured to its end.
const OUTAGE: Duration = Duration::from_mins(2);

const TICK: Duration = Duration::from_millis(10);

/// From this share of the work on nobody is killed: the last jobs are those that come back again and again.
const CALM: u64 = 99;

/// Runs the whole thing and has it checked. Returns the longest time in which no write was acknowledged.
pub(crate) fn run(options: &Options) -> Result<Duration> {
    ensure!(
        !options.is_broken || !options.place.has_fault(),
        "`--break` chooses how the server is stopped; remove `--fault`"
    );
    let project = Project::open()?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => project.build("lab", "store-worker", Profile::Dev)?,
    };
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let (engine, place) = (options.place.backend().engine(), options.place.name());
    let folder = project.target.join("chaos").join(format!("store-{place}"));
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    let notes = folder.join("notes");
    fs::create_dir_all(&notes).with_context(|| format!("could not create {}", notes.display()))?;

    eprintln!("starting {place}, seed {seed}");
    let mut host = options.place.start(&folder)?;
    let plan = json!({
        "engine": engine.name(), "url": host.url(), "space": "chaos", "folder": notes, "number": 0,
        "start": 0, "seed": seed, "writes": options.writes, "jobs": options.jobs,
    });
    let start = Instant::now();
    let arena = Arena { options, binary, plan, notes, log: folder.join("workers.log") };
    let (kills, outages) = arena.rage(&mut host, Rng::with_seed(seed))?;

    let mut table = Table::new(["chaos store", place]);
    let rows = [("seed", seed), ("processes killed", kills), ("restarts of the server", host.restarts)];
    for (name, value) in rows {
        table.row([name.into(), value.to_string()]);
    }
    table.row(["wall time".into(), format!("{:.1} s", start.elapsed().as_secs_f64())]);
    for (stop, outage) in &outages {
        let outage = format!("{:.1} s", outage.as_secs_f64());
        table.row([format!("no write acknowledged: stopped {stop}"), outage]);
    }
    println!("{table}");
    let longest = outages.into_iter().map(|(_, outage)| outage).max().unwrap_or_default();
    let checked = arena.check();
    host.end()?;
    match (checked, options.is_broken) {
        (Ok(()), false) => Ok(longest),
        (Err(_), true) => {
            println!("The server was broken on purpose, and the check has seen it.");
            Ok(longest)
        }
        (Ok(()), true) => bail!("the server lost everything in the middle, and the check has not seen it"),
        (Err(error), false) => Err(error).with_context(|| {
            format!("repeat with `--seed {seed}`, or read what everybody noted in {}", folder.display())
        }),
    }
}

#[derive(Debug)]
struct Arena<'a> {
    options: &'a Options,
    binary: PathBuf,
    plan: Value,
    notes: PathBuf,
    log: PathBuf,
}

impl Arena<'_> {
    /// Lets everybody work and kills at random until all is done. Returns how many were killed, and the outages.
    fn rage(&self, host: &mut Host, mut rng: Rng) -> Result<(u64, Vec<(Stop, Duration)>)> {
        let Options { writes, jobs, restarts, .. } = *self.options;
        let style = ProgressStyle::with_template("{bar:40} {percent}%, {msg}, {elapsed}")?;
        let bar = ProgressBar::new(writes + jobs).with_style(style);
        let mut crew = Crew::start(self.binary.clone(), self.plan.clone(), &self.log)?;
        let mut progress = Progress::new(&self.notes);
        let mut outages = Vec::new();
        let start = Instant::now();
        let mut said = start;
        // As a share of the work, and as a time: whichever comes first.
        let mut next_kill = ((writes + jobs) / KILLS, start + Duration::from_secs(1));
        loop {
            std::thread::sleep(TICK);
            let done = progress.read()?;
            let so_far = done.writes.min(writes) + done.jobs.min(jobs);
            bar.set_position(so_far);
            bar.set_message(format!("{} writes, {} jobs, {} killed", done.writes, done.jobs, crew.kills));
            if bar.is_hidden() && said.elapsed() > Duration::from_secs(5) {
                eprintln!("{} writes, {} jobs, {} killed", done.writes, done.jobs, crew.kills);
                said = Instant::now();
            }
            // Writers work until the last restart is over.
            if done.writes >= writes && host.restarts >= restarts {
                crew.dismiss("writer");
                if done.jobs >= jobs {
                    break;
                }
            }
            let share = 100 * so_far / (writes + jobs).max(1);
            // They are spread over the work, as it is done.
            if host.restarts < restarts && share * (restarts + 1) >= 100 * (host.restarts + 1) {
                let (stop, pause) = (host.next_fault(), Duration::from_millis(rng.u64(..1000)));
                bar.suspend(|| eprintln!("restarting the server at {share} %, {stop}"));
                let forgets = self.options.is_broken && stop == Stop::Asked;
                let restart = || host.restart(stop, pause, forgets);
                outages.push((stop, watch(&mut progress, restart)?));
            }
            crew.check()?;
            if share < CALM && (so_far >= next_kill.0 || Instant::now() >= next_kill.1) {
                crew.replace_one(&mut rng)?;
                let pause = Duration::from_millis(rng.u64(100..1000));
                next_kill = (so_far + rng.u64(..=2 * (writes + jobs) / KILLS), Instant::now() + pause);
            }
            ensure!(
                self.options.is_broken || start.elapsed().as_secs() < self.options.limit,
                "after {} s only {} of {writes} writes and {} of {jobs} jobs are done; see {}",
                self.options.limit,
                done.writes,
                done.jobs,
                self.log.display()
            );
            if self.options.is_broken && host.restarts == restarts {
                // What was lost will never be done.
                break;
            }
        }
        bar.finish_and_clear();
        Ok((crew.kills, outages))
    }

    fn check(&self) -> Result<()> {
        let status = Command::new(&self.binary).arg("check").arg(self.plan.to_string()).status();
        let status = status.with_context(|| format!("could not start {}", self.binary.display()))?;
        ensure!(status.success(), "what was acknowledged and what is there do not agree");
        Ok(())
    }
}

/// Runs `restart`, and returns the longest time in which no write was acknowledged meanwhile.
fn watch(progress: &mut Progress, restart: impl FnOnce() -> Result<()> + Send) -> Result<Duration> {
    let mut count = progress.read()?.writes;
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    std::thread::scope(|scope| {
        let mut restarting = Some(scope.spawn(restart));
        // The outage ends with a write after the restart.
        let mut since = None;
        while since.is_none_or(|since| last < since && last.elapsed() < OUTAGE) {
            if let Some(ended) = restarting.take_if(|it| it.is_finished()) {
                ended.join().map_err(|_| anyhow::anyhow!("the restart panicked"))??;
                since = Some(Instant::now());
            }
            std::thread::sleep(TICK);
            let now = progress.read()?.writes;
            longest = longest.max(last.elapsed());
            if now > count {
                (count, last) = (now, Instant::now());
            }
        }
        Ok(longest)
    })
}
