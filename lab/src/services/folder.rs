//! What we started, as noted in the target folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::engine::{Engine, Site};
use super::process::Process;
use crate::project::Project;
use crate::server;

const READY_LIMIT: Duration = Duration::from_mins(1);

/// The folder of services, ours alone until this goes out of scope.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    _lock: File,
}

/// A server that we started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) site: Site,
    pub(super) process: Process,
    /// Whether it runs until somebody says `down`, or only while a command needs it.
    pub(super) kept: bool,
}

impl Folder {
    pub(super) fn path(project: &Project) -> PathBuf {
        project.target.join("services")
    }

    pub(super) fn lock(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("could not create {}", path.display()))?;
        let file = path.join("lock");
        let lock = File::create(&file).with_context(|| format!("could not write {}", file.display()))?;
        if lock.try_lock().is_err() {
            eprintln!("waiting for another `cargo xtask` that starts or stops services");
            lock.lock().with_context(|| format!("could not lock {}", file.display()))?;
        }
        Ok(Self { path: path.to_path_buf(), _lock: lock })
    }

    /// Starts those of `engines` that do not run, all at once, and waits until all serve.
    pub(super) fn up(&self, engines: &[Engine], kept: bool) -> Result<Vec<Site>> {
        thread::scope(|scope| {
            let start = |engine: &Engine| {
                let engine = *engine;
                scope.spawn(move || {
                    self.up_one(engine, kept).with_context(|| format!("could not start {}", engine.name()))
                })
            };
            let threads: Vec<_> = engines.iter().map(start).collect();
            let each = threads.into_iter().map(|it| it.join().expect("starting a server does not panic"));
            // All are waited for: what has started must be noted, whatever became of the others.
            each.collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// Stops those that run and that `choose` picks; says how many there were.
    pub(super) fn down(&self, choose: impl Fn(&Record) -> bool) -> Result<usize> {
        let mut stopped = 0;
        for engine in Engine::ALL {
            let Some(record) = self.noted(engine) else { continue };
            if !choose(&record) {
                continue;
            }
            if record.process.is_alive() {
                let stopping = record.process.stop(engine.stop_signal());
                stopping.with_context(|| format!("could not stop {}", engine.name()))?;
                eprintln!("stopped {}", engine.name());
                stopped += 1;
            }
            record.site.remove()?;
            let note = self.note(engine);
            fs::remove_file(&note).with_context(|| format!("could not remove {}", note.display()))?;
        }
        Ok(stopped)
    }

    /// The server of that kind, if we started one and it has not ended.
    pub(super) fn running(&self, engine: Engine) -> Option<Record> {
        self.noted(engine).filter(|record| record.process.is_alive())
    }

    fn up_one(&self, engine: Engine, kept: bool) -> Result<Site> {
        if let Some(mut record) = self.running(engine) {
            eprintln!("{} runs already", engine.name());
            record.kept |= kept;
            self.write(&record)?;
            return Ok(record.site);
        }
        let start = Instant::now();
        if let Some(gone) = self.noted(engine) {
            gone.site.remove()?;
        }
        let site = Site::prepare(engine, &self.path.join(engine.name()))?;
        let log = self.path.join(format!("{}.log", engine.name()));
        let mut child = spawn(&site, &log, kept)?;
        // To install it may have taken longer.
        let spawned = Instant::now();
        // Noted before it is ready: should we end now, `down` still knows of it.
        let process = Process::of(child.id()).with_context(|| ended(&log))?;
        self.write(&Record { site: site.clone(), process, kept })?;
        while let Err(error) = site.check() {
            if child.try_wait()?.is_some() {
                bail!(ended(&log));
            }
            if spawned.elapsed() > READY_LIMIT {
                return Err(error).with_context(|| format!("not ready after {} s", READY_LIMIT.as_secs()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{} is ready after {:.1} s", engine.name(), start.elapsed().as_secs_f64());
        Ok(site)
    }

    fn note(&self, engine: Engine) -> PathBuf {
        self.path.join(format!("{}.json", engine.name()))
    }

    fn noted(&self, engine: Engine) -> Option<Record> {
        serde_json::from_slice(&fs::read(self.note(engine)).ok()?).ok()
    }

    fn write(&self, record: &Record) -> Result<()> {
        let note = self.note(record.site.engine);
        fs::write(&note, serde_json::to_vec_pretty(record)?)
            .with_context(|| format!("could not write {}", note.display()))
    }
}

fn spawn(site: &Site, log: &Path, kept: bool) -> Result<Child> {
    let output = File::create(log).with_context(|| format!("could not write {}", log.display()))?;
    let mut command = site.command()?;
    if kept {
        stay(&mut command);
    }
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    command.spawn().with_context(|| format!("could not start {}", command.get_program().display()))
}

fn ended(log: &Path) -> String {
    format!("the server ended before it served; it wrote:\n{}", server::tail(log))
}

/// Ctrl-C in our terminal is not for a server that stays; one for a single command ends with it.
#[cfg(unix)]
fn stay(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn stay(_command: &mut Command) {}
