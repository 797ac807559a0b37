//! `cargo xtask soak`: three replicas under a steady load, something broken every minute, and nothing lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use fastrand::Rng;

use crate::chaos::ledger::Audit;
use crate::project::{Profile, Project};
use crate::services::{Backend, Host};

mod balancer;
mod breaker;
mod caller;
mod chart;
mod collector;
mod fault;
mod figures;
mod histogram;
mod load;
mod memory;
mod people;
mod progress;
mod replicas;
mod report;
mod samples;
mod tally;
mod visit;
mod window;

use self::balancer::Balancer;
use self::breaker::Breaker;
use self::caller::World;
use self::collector::Collector;
use self::figures::Figures;
use self::load::Load;
use self::people::People;
use self::progress::Progress;
use self::replicas::{COUNT, Place, Replicas};
use self::samples::Samples;

/// Options of `cargo xtask soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How long.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// What the replicas share.
    #[arg(long, value_enum, default_value = "postgres")]
    store: Backend,
    /// How many visits begin in a second, whatever becomes of those before; each is one request or several.
    #[arg(long, default_value_t = 12)]
    rate: u64,
    /// Makes the choices repeatable; their timing is not.
    #[arg(long)]
    seed: Option<u64>,
    /// Take the build that tests have made, not a release.
    #[arg(long)]
    dev: bool,
    /// Use this executable instead of building the example `deployed`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Write the report, its figures and the plot into `docs/soak`, and not only into the target folder.
    #[arg(long)]
    keep: bool,
}

/// How often something is broken, if there is time for it.
const MINUTE: Duration = Duration::from_mins(1);

/// What each caller may send to each replica in a second: far more than those who behave need.
const CALLER_RATE: u64 = 20;

/// What each caller may have the model use in a minute, in tokens; a question takes fifty.
const CALLER_TOKENS: u64 = 5000;

/// How often the balancer asks whether a replica is ready.
const PROBE: Duration = Duration::from_millis(250);

/// How often in a row a replica may say nothing before it counts as gone.
const SILENT: u32 = 2;

/// Runs the whole thing, reports, and fails if anything happened that must not.
pub(crate) fn main(options: &Options) -> Result<()> {
    ensure!(options.minutes > 0 && options.rate > 0, "a soak takes at least a minute and a visit a second");
    let project = Project::open()?;
    let profile = if options.dev { Profile::Dev } else { Profile::Release };
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => project.build("deployed", "deployed", profile)?,
    };
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    // Now: somebody may commit something before it is over.
    let about = figures::About::new(&project, options, seed)?;
    let folder = project.target.join("soak");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder.join("snapshots")).context("no place for snapshots")?;
    let engine = options.store.engine();
    eprintln!("starting {}, seed {seed}; logs are in {}", engine.name(), folder.display());
    let mut host = Host::start(engine, &folder, options.store.settings())?;
    let outcome = soak(options, Rng::with_seed(seed), binary, &folder, &mut host);
    host.end()?;
    let figures = outcome?.finish(about);
    report::print(&figures);
    report::write(&folder, &figures)?;
    if options.keep {
        report::write(&project.root.join("docs").join("soak"), &figures)?;
    }
    report::judge(&figures).map_err(|error| {
        anyhow!(
            "{error}; repeat with `--seed {seed}`, or read what the replicas wrote in {}",
            folder.display()
        )
    })
}

/// What is left when it is over.
struct Outcome {
    world: World,
    samples: Samples,
    audit: Audit,
    spans: u64,
    began: Instant,
    time: Duration,
}

impl Outcome {
    fn finish(self, about: figures::About) -> Figures {
        let Self { world, samples, audit, spans, began, time } = self;
        let mut figures = Figures::new(&world.tally.counts(), &samples.all(), &audit);
        figures.windows = figures::windows(&world.windows.all(), began);
        figures.faults = world.windows.counts();
        figures.about = figures::About { seconds: time.as_secs_f64(), ..about };
        figures.spans = spans;
        figures
    }
}

fn soak(options: &Options, mut rng: Rng, binary: PathBuf, folder: &Path, host: &mut Host) -> Result<Outcome> {
    let places = (0..COUNT).map(|_| Place::find()).collect::<Result<Vec<_>>>()?;
    let balancer = Balancer::start(&places.iter().map(|place| place.address).collect::<Vec<_>>())?;
    let (people, collector) = (People::draw(&mut rng), Collector::start()?);
    let ledger = folder.join("ledger");
    // It is there, though nothing may ever be written to it.
    fs::write(&ledger, "").with_context(|| format!("could not write {}", ledger.display()))?;
    let variables = vec![
        ("STORE_URL", host.url()),
        ("SEAL_KEYS", format!("1={:032x}{:032x}", rng.u128(..), rng.u128(..))),
        ("PUBLIC_URL", format!("http://{}", balancer.address)),
        ("API_KEYS", people.hashes()),
        ("CALLER_RATE", CALLER_RATE.to_string()),
        ("CALLER_TOKENS", CALLER_TOKENS.to_string()),
        ("SNAPSHOTS_URL", format!("file://{}", folder.join("snapshots").display())),
        ("ORDERS", ledger.display().to_string()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.address)),
        ("RUST_LOG", "warn,rmcp=error".into()),
    ];
    let replicas = Replicas::start(binary, folder.join("replicas.log"), places, variables)?;
    let (world, samples) = (World::new(balancer, people), Samples::default());
    // They are; the probes say so only a moment later.
    (0..COUNT).for_each(|number| world.balancer.set_ready(number, Some(true)));
    let length = MINUTE * u32::try_from(options.minutes).context("nobody waits that long")?;
    let began = Instant::now();
    let until = began + length;
    let (over, had_all) = (AtomicBool::new(false), AtomicBool::new(false));
    let progress = Progress::new(length);
    let broken: Mutex<Option<anyhow::Error>> = Mutex::default();

    thread::scope(|scope| {
        for number in 0..COUNT {
            let (world, replicas, over) = (&world, &replicas, &over);
            scope.spawn(move || {
                let mut silent = 0;
                while !over.load(Ordering::Relaxed) {
                    let said = replicas.probe(number);
                    silent = if said.is_none() { silent + 1 } else { 0 };
                    // What says no is out at once; what says nothing may be slow for once.
                    if said.is_some() || silent >= SILENT {
                        world.balancer.set_ready(number, said);
                    }
                    thread::sleep(PROBE);
                }
            });
        }
        scope.spawn(|| {
            let mut next = began + samples::EVERY;
            while !over.load(Ordering::Relaxed) {
                if Instant::now() >= next {
                    samples.take(began, &replicas, &world.tally);
                    next += samples::EVERY;
                }
                progress.show(began, &world.tally.counts());
                thread::sleep(Duration::from_millis(200));
            }
        });
        let breaking = {
            let (over, broken, progress) = (&over, &broken, &progress);
            let mut breaker = Breaker {
                replicas: &replicas,
                balancer: &world.balancer,
                windows: &world.windows,
                backend: options.store,
                host,
                rng: rng.fork(),
                every: MINUTE.min(length / 9),
                until,
                had_all: &had_all,
            };
            scope.spawn(move || {
                if let Err(error) = breaker.rage(over, |fault| progress.tell(fault)) {
                    *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    over.store(true, Ordering::Relaxed);
                }
            })
        };
        let load = Load { world: &world, rate: options.rate, until, over: &over, had_all: &had_all };
        load.run(rng.fork());
        // What was broken last is repaired before the others stop looking.
        let _ = breaking.join();
        over.store(true, Ordering::Relaxed);
    });
    progress.end();
    if let Some(error) = broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    samples.take(began, &replicas, &world.tally);
    let effects = std::mem::take(&mut *world.effects.lock().unwrap_or_else(PoisonError::into_inner));
    let audit = Audit::of(&ledger, &effects)?;
    Ok(Outcome { world, samples, audit, spans: collector.batches(), began, time: began.elapsed() })
}
