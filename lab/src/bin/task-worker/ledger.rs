//! What is done to the world, in a file that many processes add to.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use antiphon::Result;
use anyhow::Context as _;
use fastrand::Rng;
use serde::Serialize;

use crate::{Plan, broken::Break};

/// What is noted. Times are milliseconds of this machine's clock.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Note<'a> {
    /// The tool was called: a leg has begun.
    Leg { run: &'a str, leg: &'a str },
    /// A step that may be taken once was claimed and is being taken.
    Began { run: &'a str, step: &'a str, leg: &'a str },
    /// The world has changed. The step returns `value`, and the tool had seen these before.
    Effect { run: &'a str, step: &'a str, value: &'a str, saw: &'a BTreeMap<String, String>, leg: &'a str },
    /// The tool was given what the step returned: that is written down.
    Saw { run: &'a str, step: &'a str, value: &'a str },
    /// The tool was told that nobody knows whether the step was taken.
    Unknown { run: &'a str, step: &'a str },
    /// The leg is over, and the process lives.
    Over { leg: &'a str },
    /// The process dies over what it has just done.
    Fell { run: &'a str, step: &'a str },
    /// The process was not given the processor for so long.
    Stalled { millis: u64 },
}

#[derive(Serialize)]
struct Line<'a> {
    at: u64,
    process: &'a str,
    note: Note<'a>,
}

/// The world, as one process changes it.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: File,
    process: String,
    falls: u32,
    doubles: bool,
    rng: Mutex<Rng>,
    legs: AtomicU64,
}

/// One leg of a run. That it is over is noted when this is dropped, so that a leg without an end is one whose process died.
#[derive(Debug)]
pub(crate) struct Leg {
    ledger: Arc<Ledger>,
    pub(crate) run: String,
    name: String,
}

impl Drop for Leg {
    fn drop(&mut self) {
        // A ledger that cannot be written makes the next note fail, too.
        let _ = self.ledger.note(Note::Over { leg: &self.name });
    }
}

impl Ledger {
    pub(crate) fn open(plan: &Plan) -> anyhow::Result<Self> {
        let file = File::options().append(true).create(true).open(&plan.ledger);
        Ok(Self {
            file: file.with_context(|| format!("could not write {}", plan.ledger.display()))?,
            process: plan.process.clone(),
            falls: plan.falls,
            doubles: plan.breaks == Some(Break::DoubleEffect),
            rng: Mutex::new(Rng::with_seed(plan.seed)),
            legs: AtomicU64::new(0),
        })
    }

    /// A leg of the run has begun.
    pub(crate) fn leg(self: &Arc<Self>, run: &str) -> Result<Leg> {
        let name = format!("{}/{}", self.process, self.legs.fetch_add(1, Ordering::Relaxed));
        self.note(Note::Leg { run, leg: &name })?;
        Ok(Leg { ledger: Arc::clone(self), run: run.to_owned(), name })
    }

    fn note(&self, note: Note<'_>) -> Result<()> {
        let mut line = serde_json::to_vec(&Line { at: now(), process: &self.process, note })?;
        line.push(b'\n');
        // One write, so that the lines of several processes do not mix.
        (&self.file).write_all(&line)?;
        Ok(())
    }

    fn chance(&self, of: u32) -> u32 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).u32(..of)
    }
}

impl Leg {
    /// Changes the world, and returns what came of it.
    pub(crate) async fn effect(&self, step: &str, saw: &BTreeMap<String, String>) -> Result<String> {
        let Self { ledger, run, name } = self;
        // Something else happens meanwhile, in this process and in others.
        tokio::time::sleep(Duration::from_millis(ledger.chance(20).into())).await;
        let value = format!("{:016x}", fastrand::u64(..));
        ledger.note(Note::Effect { run, step, value: &value, saw, leg: name })?;
        ledger.file.sync_data()?;
        if ledger.chance(1000) < ledger.falls {
            ledger.note(Note::Fell { run, step })?;
            // No destructor runs and nobody is told, as with `kill -9`, but exactly here.
            std::process::abort();
        }
        Ok(value)
    }

    /// As [`effect`](Self::effect), for what may happen once.
    pub(crate) async fn effect_once(&self, step: &str, saw: &BTreeMap<String, String>) -> Result<String> {
        self.ledger.note(Note::Began { run: &self.run, step, leg: &self.name })?;
        if self.ledger.doubles && self.ledger.chance(10) == 0 {
            self.effect(step, saw).await?;
        }
        self.effect(step, saw).await
    }

    /// The tool was given what a step returned.
    pub(crate) fn saw(&self, step: &str, value: &str) -> Result<()> {
        self.ledger.note(Note::Saw { run: &self.run, step, value })
    }

    /// The tool was told that nobody knows whether the step was taken.
    pub(crate) fn unknown(&self, step: &str) -> Result<()> {
        self.ledger.note(Note::Unknown { run: &self.run, step })
    }
}

/// Notes when this process was kept from working for so long that others may think it dead.
pub(crate) async fn watch_the_clock(ledger: Arc<Ledger>) {
    const TICK: Duration = Duration::from_millis(100);
    loop {
        let start = Instant::now();
        tokio::time::sleep(TICK).await;
        let late = start.elapsed().saturating_sub(TICK);
        if late > Duration::from_millis(500) {
            let millis = late.as_millis().try_into().unwrap_or(u64::MAX);
            let _ = ledger.note(Note::Stalled { millis });
        }
    }
}

/// Milliseconds of this machine's clock.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
