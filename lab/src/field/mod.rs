//! `cargo xtask field`: the shipped programs as separate processes, used the way users leave them: alone.
//!
//! Each scenario starts `deployed` (and others) over HTTP against PostgreSQL, Redis or NATS, starts work, and leaves. A
//! ledger in this process records the effects; the programs under test cannot read it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::project::{Profile, Project};
use crate::services::{Backend, Host};
use crate::table::Table;

mod authority;
mod client;
mod fleet;
mod ledger;
mod scenario;
mod store;
mod websocket;

use self::client::Client;
use self::fleet::Fleet;
use self::ledger::Ledger;
use self::scenario::Scenario;
use self::store::Store;

/// Options of `cargo xtask field`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Run this scenario [default: all]. Repeat the option for several.
    #[arg(long, value_enum)]
    scenario: Vec<Scenario>,
    /// Do not run this scenario. Repeat the option for several.
    #[arg(long, value_enum, conflicts_with = "scenario")]
    skip: Vec<Scenario>,
    /// Run on this backend [default: all]. Repeat the option for several.
    #[arg(long, value_enum)]
    backend: Vec<Backend>,
    /// Use the programs in this folder instead of building them.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// The programs of an older version, for the scenario `skew`.
    #[arg(long)]
    old_programs: Option<PathBuf>,
    /// Run less of everything, so that all scenarios end within six minutes on two cores.
    #[arg(long)]
    short: bool,
    /// Break something on purpose, to show that the scenario can fail.
    #[arg(long = "break", value_enum)]
    breaks: Option<Break>,
}

/// What is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Break {
    /// The ledger confirms effects and forgets them: work is lost.
    DropEffect,
    /// The ledger records every effect twice.
    DoubleEffect,
    /// Processes that are asked to end are killed at once.
    Kill,
    /// The memory limit is 8 MiB.
    Memory,
    /// The time limits of probes and creation are 0 ms.
    Time,
    /// The authorization server treats every token as active, with every scope.
    Tokens,
    /// Task records are deleted while they are needed.
    DropRecords,
}

/// The programs under test.
#[derive(Debug, Clone)]
struct Programs {
    folder: PathBuf,
}

impl Programs {
    fn path(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(format!("{name}{}", env::consts::EXE_SUFFIX));
        ensure!(path.is_file(), "there is no program {}", path.display());
        Ok(path)
    }
}

/// One scenario on one backend.
#[derive(Debug)]
struct Field {
    backend: Backend,
    host: Host,
    ledger: Ledger,
    folder: PathBuf,
    programs: Programs,
    old_programs: Option<Programs>,
    short: bool,
    breaks: Option<Break>,
}

impl Field {
    /// `short` in a short run, else `long`.
    fn pick<T>(&self, short: T, long: T) -> T {
        if self.short { short } else { long }
    }

    fn is_broken(&self, by: Break) -> bool {
        self.breaks == Some(by)
    }

    fn store(&self) -> Store {
        Store::new(self.backend, &self.host.url())
    }

    /// The variables that all replicas share.
    fn variables(&self, keys: &str) -> Vec<(&'static str, String)> {
        vec![
            ("STORE_URL", self.host.url()),
            ("SEAL_KEYS", keys.to_owned()),
            ("EFFECTS", self.ledger.address.to_string()),
            ("RUST_LOG", "info,rmcp=error".into()),
            // The replicas are on loopback, and every scenario but `tokens` calls without a key.
            ("ALLOW_ANYBODY", "1".into()),
        ]
    }

    /// Replicas of `deployed` that share a key ring; none is started yet.
    fn fleet(&self, count: usize, extra: &[(&'static str, &str)]) -> Result<Fleet> {
        let mut variables = self.variables(&key_ring(&[(1, 'a')]));
        variables.extend(extra.iter().map(|(name, value)| (*name, (*value).to_owned())));
        Fleet::new(&self.programs.path("deployed")?, &self.folder, count, variables)
    }
}

/// A key ring of these ids, the first active; each secret is one hexadecimal digit.
fn key_ring(keys: &[(u8, char)]) -> String {
    let each = keys.iter().map(|(id, digit)| format!("{id}={}", digit.to_string().repeat(64)));
    each.collect::<Vec<_>>().join(",")
}

/// How one scenario ended on one backend.
#[derive(Debug)]
struct Verdict {
    scenario: Scenario,
    backend: Backend,
    /// What was measured, or why it failed.
    outcome: Result<String>,
    time: Duration,
}

/// Runs the scenarios and prints the matrix; fails if one failed.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let programs = match &options.programs {
        Some(folder) => Programs { folder: folder.clone() },
        None => build(&project)?,
    };
    let start = Instant::now();
    let verdicts = run_all(&project, options, &programs)?;
    print(&verdicts, start.elapsed());
    let failed = verdicts.iter().filter(|it| it.outcome.is_err()).count();
    println!("{} passed, {failed} failed", verdicts.len() - failed);
    ensure!(
        failed == 0,
        "{failed} scenarios failed; what the programs wrote is in {}",
        home(&project).display()
    );
    Ok(())
}

impl Options {
    fn scenarios(&self) -> Vec<Scenario> {
        if !self.scenario.is_empty() {
            return self.scenario.clone();
        }
        let has_old = self.old_programs.is_some();
        let runs = |it: &Scenario| !self.skip.contains(it) && (has_old || *it != Scenario::Skew);
        Scenario::ALL.into_iter().filter(runs).collect()
    }

    fn backends(&self, scenario: Scenario) -> Vec<Backend> {
        let chosen = if self.backend.is_empty() { Backend::ALL.to_vec() } else { self.backend.clone() };
        chosen.into_iter().filter(|backend| scenario.runs_on(*backend)).collect()
    }
}

fn home(project: &Project) -> PathBuf {
    project.target.join("field")
}

fn build(project: &Project) -> Result<Programs> {
    project.build("explore", "explore", Profile::Dev)?;
    project.build("antiphon-cli", "antiphon", Profile::Dev)?;
    let built = project.build("deployed", "deployed", Profile::Dev)?;
    let folder = built.parent().context("a program lies in a folder")?.to_path_buf();
    Ok(Programs { folder })
}

/// Runs the scenarios one after the other. `keys` is the longest and mostly waits, so it runs beside the others, but not
/// beside those that measure load.
fn run_all(project: &Project, options: &Options, programs: &Programs) -> Result<Vec<Verdict>> {
    let chosen = options.scenarios();
    let (load, others): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|it| it.is_load());
    let (keys, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|it| *it == Scenario::Keys);
    let run_each = |scenarios: Vec<Scenario>| -> Result<Vec<Verdict>> {
        let each: Result<Vec<_>> =
            scenarios.into_iter().map(|it| run(project, options, programs, it)).collect();
        Ok(each?.into_iter().flatten().collect())
    };
    let mut verdicts = thread::scope(|scope| -> Result<Vec<Verdict>> {
        let keys = scope.spawn(|| run_each(keys));
        let mut verdicts = run_each(others)?;
        verdicts.extend(keys.join().expect("a scenario does not panic")?);
        Ok(verdicts)
    })?;
    verdicts.extend(run_each(load)?);
    Ok(verdicts)
}

/// Runs one scenario on each of its backends, all at once where it measures no load.
fn run(
    project: &Project,
    options: &Options,
    programs: &Programs,
    scenario: Scenario,
) -> Result<Vec<Verdict>> {
    let folder = home(project).join(scenario.name());
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    let run = |backend: Backend| {
        let start = Instant::now();
        let outcome = run_on(options, programs, scenario, backend, &folder.join(backend.engine().name()));
        let verdict = Verdict { scenario, backend, outcome, time: start.elapsed() };
        eprintln!("{}", line(&verdict));
        verdict
    };
    let backends = options.backends(scenario);
    if scenario.is_load() {
        return Ok(backends.into_iter().map(run).collect());
    }
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = backends.into_iter().map(|backend| scope.spawn(move || run(backend))).collect();
        threads.into_iter().map(|it| it.join().expect("a scenario does not panic")).collect()
    }))
}

fn run_on(
    options: &Options,
    programs: &Programs,
    scenario: Scenario,
    backend: Backend,
    folder: &Path,
) -> Result<String> {
    fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    let host = Host::start(backend.engine(), folder, backend.settings())?;
    let ledger = Ledger::start(options.breaks)?;
    let old_programs = options.old_programs.clone().map(|folder| Programs { folder });
    let mut field = Field {
        backend,
        host,
        ledger,
        folder: folder.to_path_buf(),
        programs: programs.clone(),
        old_programs,
        short: options.short,
        breaks: options.breaks,
    };
    let outcome = scenario.run(&mut field);
    field.host.end()?;
    outcome
}

fn line(verdict: &Verdict) -> String {
    let Verdict { scenario, backend, outcome, time } = verdict;
    let (result, why) = match outcome {
        Ok(measured) => ("pass", measured.clone()),
        // What a server wrote can have many lines.
        Err(error) => ("FAIL", format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")),
    };
    format!(
        "{} on {}: {result} in {:.1} s: {why}",
        scenario.name(),
        backend.engine().name(),
        time.as_secs_f64()
    )
}

fn print(verdicts: &[Verdict], time: Duration) {
    let names: Vec<&str> = Backend::ALL.iter().map(|backend| backend.engine().name()).collect();
    let mut table = Table::of(&[&["scenario"], &names[..]].concat());
    let mut scenarios: Vec<Scenario> = verdicts.iter().map(|it| it.scenario).collect();
    scenarios.dedup();
    for scenario in scenarios {
        let cell = |backend: &Backend| {
            let found =
                verdicts.iter().find(|it| it.scenario == scenario && it.backend.engine() == backend.engine());
            found.map_or_else(String::new, |verdict| {
                let result = if verdict.outcome.is_ok() { "pass" } else { "FAIL" };
                format!("{result} {:.0} s", verdict.time.as_secs_f64())
            })
        };
        table
            .push(std::iter::once(scenario.name().to_owned()).chain(Backend::ALL.iter().map(cell)).collect());
    }
    println!("{table}");
    for verdict in verdicts {
        println!("{}", line(verdict));
    }
    println!("\ntotal: {:.0} s", time.as_secs_f64());
}
