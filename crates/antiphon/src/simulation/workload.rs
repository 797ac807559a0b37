//! The tool of the simulation, and the rules for its side effects.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::process::{Process, below};
use crate::{
    Ctx,
    base::{lock, random},
    error::{Error, ErrorKind, Result},
};

/// One action of the simulated tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) enum Action {
    /// A step that runs at least once. It fails in its first executions, this many times.
    Step { failures: u32 },
    /// An at-most-once step.
    Once,
    /// A step whose result is so large that the record is stored in pieces.
    Large,
    /// A question to the user.
    Ask,
    /// Two questions to the user at the same time.
    AskBoth,
    /// A pause of this many milliseconds.
    Sleep(u64),
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Plan {
    /// The number of the run within the schedule.
    pub(super) run: usize,
    pub(super) actions: Vec<Action>,
}

impl Plan {
    pub(super) fn random(run: usize, is_large: bool) -> Self {
        let mut actions: Vec<_> = (0..=below(4))
            .map(|_| match below(10) {
                0..3 => Action::Step { failures: u32::from(below(4) == 0) },
                3 | 4 => Action::Once,
                5..7 => Action::Ask,
                7 => Action::AskBoth,
                _ => Action::Sleep(100 * below(100)),
            })
            .collect();
        if is_large {
            actions.insert(0, Action::Large);
        }
        Self { run, actions }
    }
}

/// The answer to every question of the simulated tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Number {
    pub(super) number: u64,
}

/// The side effects of all runs.
#[derive(Debug)]
pub(super) struct Effects {
    /// Whether the backend never fails. Then a worker can lose its lease only if its process stalls or dies.
    is_backend_sound: bool,
    /// The side effects that are being executed.
    running: Mutex<Vec<Execution>>,
    /// For each action of each run, how often the action was executed.
    counts: Mutex<BTreeMap<(usize, usize), u32>>,
    violations: Mutex<Vec<String>>,
}

/// A side effect that a process executes.
#[derive(Debug)]
struct Execution {
    run: usize,
    process: Arc<Process>,
    /// How often the process had stalled before the execution.
    stalls: u64,
}

/// A side effect that ends when this value is dropped.
struct Running<'a> {
    effects: &'a Effects,
    process: &'a Arc<Process>,
    run: usize,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.effects.end(self.process, self.run);
    }
}

impl Effects {
    pub(super) fn new(is_backend_sound: bool) -> Self {
        let (running, counts, violations) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { is_backend_sound, running, counts, violations }
    }

    /// Checks that no other healthy process executes this run at the same time.
    fn begin<'a>(&'a self, process: &'a Arc<Process>, run: usize) -> Running<'a> {
        let mut running = lock(&self.running);
        let is_healthy =
            |other: &&Execution| !other.process.is_dead() && other.process.stalls() == other.stalls;
        if self.is_backend_sound && running.iter().filter(is_healthy).any(|other| other.run == run) {
            self.violate(format!("run {run}: two processes executed steps at the same time"));
        }
        running.push(Execution { run, process: Arc::clone(process), stalls: process.stalls() });
        Running { effects: self, process, run }
    }

    fn end(&self, process: &Arc<Process>, run: usize) {
        let mut running = lock(&self.running);
        let is_this = |it: &Execution| it.run == run && Arc::ptr_eq(&it.process, process);
        if let Some(place) = running.iter().position(is_this) {
            running.swap_remove(place);
        }
    }

    pub(super) fn violate(&self, violation: String) {
        lock(&self.violations).push(violation);
    }

    pub(super) fn violations(&self) -> Vec<String> {
        lock(&self.violations).clone()
    }

    pub(super) fn count(&self, run: usize, action: usize) -> u32 {
        lock(&self.counts).get(&(run, action)).copied().unwrap_or_default()
    }

    /// Executes a side effect, and checks the rules for side effects. Returns the number of the execution.
    async fn execute(&self, process: &Arc<Process>, run: usize, action: usize, is_once: bool) -> u32 {
        // If the process stalls after its last check of the lease, nothing can prevent a late side effect.
        let is_late = !process.runs_since(process.stalls());
        let stalls = process.stalls();
        process.runs().await;
        let is_late = is_late || process.stalls() != stalls;
        let _running = self.begin(process, run);
        let count = {
            let mut counts = lock(&self.counts);
            // The tool reaches an action only after the results of all earlier actions were stored.
            if !is_late && let Some((later, _)) = counts.range((run, action + 1)..(run + 1, 0)).next() {
                let later = later.1;
                self.violate(format!("run {run}: step {action} ran again after step {later} had started"));
            }
            let count = counts.entry((run, action)).or_default();
            *count += 1;
            *count
        };
        if is_once && count > 1 {
            self.violate(format!("run {run}: the at-most-once step {action} ran {count} times"));
        }
        sleep(Duration::from_millis(below(1500))).await;
        process.runs().await;
        count
    }
}

/// What the tool of one process uses.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) process: Arc<Process>,
    pub(super) effects: Arc<Effects>,
}

/// Returns a text that is larger than a record can be, and that cannot be compressed to less.
fn noise() -> String {
    (0..40_000).fold(String::new(), |mut text, _| {
        let _ = write!(text, "{:016x}", random().unwrap_or_default());
        text
    })
}

/// The tool. Its actions run one after the other, and it returns the answers of the user.
pub(super) async fn follow_plan(ctx: &Ctx, plan: Plan) -> Result<String> {
    let Place { process, effects } = ctx.state::<Place>()?.clone();
    let mut answers = Vec::new();
    for (number, action) in plan.actions.iter().enumerate() {
        let (process, effects, run) = (Arc::clone(&process), Arc::clone(&effects), plan.run);
        let effect = move |is_once| async move { effects.execute(&process, run, number, is_once).await };
        match *action {
            Action::Step { failures } => {
                let step = ctx.step(&format!("step {number}"), || async move {
                    let count = effect(false).await;
                    if count <= failures { Err(Error::tool("this execution fails")) } else { Ok(count) }
                });
                step.await?;
            }
            Action::Once => {
                let step =
                    ctx.step_with_key(&format!("once {number}"), |_| async move { Ok(effect(true).await) });
                match step.at_most_once().await {
                    Ok(_) => answers.push("once".to_owned()),
                    Err(error) if matches!(error.kind(), ErrorKind::Cancelled) => return Err(error),
                    // If a process dies during the step, nobody knows whether the step had its effect.
                    Err(_) => answers.push("unknown".to_owned()),
                }
            }
            Action::Large => {
                let step = ctx.step("large", || async move {
                    effect(false).await;
                    Ok(noise())
                });
                step.await?;
            }
            Action::Ask => {
                let question = ctx.elicit::<Number>("A number?").key(&format!("ask{number}"));
                answers.push(question.await?.accepted()?.number.to_string());
            }
            Action::AskBoth => {
                let (first, second) = tokio::join!(
                    ctx.elicit::<Number>("A number?").key(&format!("ask{number}a")),
                    ctx.elicit::<Number>("Another number?").key(&format!("ask{number}b")),
                );
                answers.push(first?.accepted()?.number.to_string());
                answers.push(second?.accepted()?.number.to_string());
            }
            Action::Sleep(millis) => ctx.sleep(Duration::from_millis(millis)).await?,
        }
    }
    Ok(answers.join(" "))
}
