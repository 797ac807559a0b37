//! What is done to the world, in a file that many processes add to.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use antiphon::Result;
use anyhow::Context as _;
use fastrand::Rng;
use serde::Serialize;

use crate::Plan;

/// What is noted. Times are milliseconds of this machine's clock.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Note<'a> {
    /// The tool was called: a leg has begun.
    Leg { run: &'a str },
    /// A step that may be taken once was claimed and is being taken.
    Began { run: &'a str, step: &'a str },
    /// The world has changed. The step returns `value`, and the tool had seen these before.
    Effect { run: &'a str, step: &'a str, value: &'a str, saw: &'a BTreeMap<String, String> },
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
    broken: bool,
    rng: Mutex<Rng>,
}

impl Ledger {
    pub(crate) fn open(plan: &Plan) -> anyhow::Result<Self> {
        let file = File::options().append(true).create(true).open(&plan.ledger);
        Ok(Self {
            file: file.with_context(|| format!("could not write {}", plan.ledger.display()))?,
            process: plan.process.clone(),
            falls: plan.falls,
            broken: plan.broken,
            rng: Mutex::new(Rng::with_seed(plan.seed)),
        })
    }

    /// A leg of the run has begun.
    pub(crate) fn leg(&self, run: &str) -> Result<()> {
        self.note(Note::Leg { run })
    }

    /// Changes the world, and returns what came of it.
    pub(crate) async fn effect(
        &self,
        run: &str,
        step: &str,
        saw: &BTreeMap<String, String>,
    ) -> Result<String> {
        // Something else happens meanwhile, in this process and in others.
        tokio::time::sleep(Duration::from_millis(self.chance(20).into())).await;
        let value = format!("{:016x}", fastrand::u64(..));
        self.note(Note::Effect { run, step, value: &value, saw })?;
        self.file.sync_data()?;
        if self.chance(1000) < self.falls {
            self.note(Note::Fell { run, step })?;
            // No destructor runs and nobody is told, as with `kill -9`, but exactly here.
            std::process::abort();
        }
        Ok(value)
    }

    /// As [`effect`](Self::effect), for what may happen once.
    pub(crate) async fn effect_once(
        &self,
        run: &str,
        step: &str,
        saw: &BTreeMap<String, String>,
    ) -> Result<String> {
        self.note(Note::Began { run, step })?;
        if self.broken && self.chance(10) == 0 {
            self.effect(run, step, saw).await?;
        }
        self.effect(run, step, saw).await
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
