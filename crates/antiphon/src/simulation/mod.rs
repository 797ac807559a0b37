//! Simulates the task engine in virtual time, with processes that die and stall, and with a backend that fails.
//!
//! A *schedule* is one simulation. Its seed determines everything that happens in the schedule, so a failing schedule
//! can be repeated exactly. Real servers with real workers run on one thread. Their backend is in memory.

mod process;
mod workload;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use antiphon_store::{
    Backend, Memory, QueueConfig,
    flaky::{Flaky, FlakyConfig, seed_pauses},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use self::{
    process::{Process, Reached, below},
    workload::{Action, Effects, Place, Plan, follow_plan},
};
pub use crate::base::Defect;
use crate::{
    Server,
    base::{enter, leave, now_millis, repairs},
    protocol::Revision,
    run::Channels,
    seal::{KeyRing, SealConfig},
    task::{NewTask, RetryPolicy, TaskConfig, TaskPolicy, TaskStatus, TaskView, Tasks},
    tool::Tool,
};

/// The lease of a job. If a process dies, another process continues its runs after this time.
const LEASE: Duration = Duration::from_secs(4);
const HEARTBEAT: Duration = Duration::from_secs(1);
const REPAIR: Duration = Duration::from_secs(5);

/// The time after the last fault in which every run must end.
const PATIENCE: Duration = Duration::from_secs(600);

/// An outage that is longer than the lifetime of a claim in the store.
const LONG_OUTAGE: Duration = Duration::from_secs(3 * 3600);

/// The result of one schedule.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The violated rules. A correct engine violates none.
    pub violations: Vec<String>,
    /// How often each event occurred, for example how many runs completed and how many processes died.
    pub coverage: BTreeMap<&'static str, u64>,
    /// All events of the schedule with their virtual times. Two simulations of a seed have the same log.
    pub log: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.log {
            writeln!(f, "{line}")?;
        }
        for violation in &self.violations {
            writeln!(f, "violation: {violation}")?;
        }
        Ok(())
    }
}

/// Simulates the schedule of a seed.
///
/// # Panics
///
/// Panics if the Tokio runtime cannot be created.
pub fn simulate(seed: u64, defect: Option<Defect>) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime with a virtual clock needs no resources");
    let report = runtime.block_on(async {
        enter(seed, defect);
        seed_pauses(Some(seed));
        Schedule::new(seed, defect).run().await
    });
    // Dead processes still have tasks, which must not outlive the simulation.
    drop(runtime);
    leave();
    seed_pauses(None);
    report
}

struct Replica {
    process: Arc<Process>,
    /// The simulation keeps the server of a dead process, because the futures of the process must not be dropped.
    server: Server,
    /// Whether the replica can read the runs.
    can_read: bool,
}

fn tasks(server: &Server) -> &Arc<Tasks> {
    server.shared.service.tasks.as_ref().expect("every simulated server has tasks")
}

/// A run that a client started.
struct Run {
    plan: Plan,
    id: String,
    /// The status that the client has seen last.
    seen: TaskStatus,
    /// The accepted answers by question key.
    answers: BTreeMap<String, u64>,
    is_cancelled: bool,
}

struct Schedule {
    memory: Memory,
    queue: QueueConfig,
    faults: FlakyConfig,
    has_faults: bool,
    losses: u64,
    defect: Option<Defect>,
    effects: Arc<Effects>,
    replicas: Vec<Replica>,
    runs: Vec<Run>,
    report: Report,
    began: u64,
}

impl Schedule {
    fn new(seed: u64, defect: Option<Defect>) -> Self {
        let has_faults = below(3) > 0;
        let rate = if has_faults { below(60) } else { 0 };
        let faults = FlakyConfig::seeded(seed)
            .with_refused(rate)
            .with_lost(rate)
            .with_unreported(rate)
            .with_delayed(3 * rate)
            .with_delay(Duration::from_millis(1 + below(4000)));
        Self {
            memory: Memory::default(),
            queue: QueueConfig::default().with_lease(LEASE).with_max_attempts(1000),
            faults,
            has_faults,
            losses: if has_faults { below(100) } else { 0 },
            defect,
            effects: Arc::new(Effects::new(rate == 0)),
            replicas: Vec::new(),
            runs: Vec::new(),
            report: Report::default(),
            began: now_millis(),
        }
    }

    fn log(&mut self, kind: &'static str, detail: impl fmt::Display) {
        *self.report.coverage.entry(kind).or_default() += 1;
        self.report.log.push(format!("{:>9} ms {kind} {detail}", now_millis() - self.began));
    }

    /// Creates a server. With `workers` of 0, the server executes no runs.
    fn server(&self, process: &Arc<Process>, workers: usize, is_faulty: bool, key: u8) -> Server {
        let Backend { store, queue, bus, .. } = self.memory.backend(self.queue.clone());
        let (mut losses, mut faults) = (self.losses, self.faults.clone());
        if !is_faulty {
            losses = 0;
            faults = faults.with_refused(0).with_lost(0).with_unreported(0).with_delayed(0);
        }
        let backend = Backend::new(
            Reached {
                inner: Arc::new(Flaky::new(store, faults.clone())) as _,
                process: Arc::clone(process),
                losses,
            },
            Reached {
                inner: Arc::new(Flaky::new(queue, faults.clone())) as _,
                process: Arc::clone(process),
                losses,
            },
            Reached { inner: Arc::new(Flaky::new(bus, faults)) as _, process: Arc::clone(process), losses },
        );
        let config = TaskConfig::default()
            .with_workers(workers)
            .with_shards(2)
            .with_heartbeat_interval(HEARTBEAT)
            .with_repair_interval(REPAIR)
            .with_max_worker_deaths(1000)
            .with_retry(RetryPolicy { attempts: 1000, ..RetryPolicy::default() });
        let place = Place { process: Arc::clone(process), effects: Arc::clone(&self.effects) };
        let tool = Tool::new("plan", "Follows a plan", follow_plan).with_tasks(TaskPolicy::Always);
        Server::builder("simulation", "1.0.0")
            .with_backend(backend)
            .with_seal(SealConfig::default().with_keys(KeyRing::new(key, [key; 32])))
            .with_tasks(config)
            .with_state(place)
            .tool(tool)
            .build()
            .expect("the configuration of the simulation is valid")
    }

    /// Starts a replica with the usual key. If `can_read` is `false`, the replica has another key, or it is an older
    /// version that cannot read the records.
    fn start_replica(&mut self, can_read: bool) {
        let process = Arc::new(Process::default());
        let is_old = !can_read && below(2) == 0;
        let server = self.server(&process, 4, true, if can_read || is_old { 1 } else { 2 });
        tasks(&server).is_old.store(is_old, Ordering::Relaxed);
        let replica = Replica { process, server, can_read };
        if self.defect != Some(Defect::IdleWorkers) {
            tasks(&replica.server).begin();
        }
        self.replicas.push(replica);
        let kind = match (can_read, is_old) {
            (true, _) => "start",
            (false, true) => "start an old version",
            (false, false) => "start with another key",
        };
        self.log(kind, self.replicas.len() - 1);
    }

    /// Selects a living replica that has our key.
    fn living(&self) -> Option<usize> {
        let mut living = self.replicas.iter().enumerate();
        let of_life = |(_, replica): &(usize, &Replica)| replica.can_read && !replica.process.is_dead();
        let living: Vec<_> = living.by_ref().filter(of_life).map(|(number, _)| number).collect();
        let chosen = usize::try_from(below(living.len() as u64)).unwrap_or_default();
        living.get(chosen).copied()
    }

    async fn run(mut self) -> Report {
        // The observer only reads.
        let observer = self.server(&Arc::default(), 0, false, 1);
        let observer = Arc::clone(tasks(&observer));
        for _ in 0..=1 + below(2) {
            self.start_replica(true);
        }
        let is_large = below(24) == 0;
        // A client that does not know the ID of its run cannot follow the run. So the process that creates the runs
        // fails only after that.
        let creator = Arc::new(Process::default());
        let server = self.server(&creator, 0, false, 1);
        for run in 0..=usize::try_from(below(3)).unwrap_or_default() {
            self.create(&server, Plan::random(run, is_large && run == 0)).await;
        }
        creator.kill();
        if below(6) == 0 {
            self.start_replica(false);
        }
        let faults = if self.has_faults { 1 + below(4) } else { 0 };
        for _ in 0..faults {
            self.live(&observer, 1 + below(6)).await;
            self.fault().await;
        }
        if below(8) == 0 {
            self.outage().await;
        }
        let is_calm = !self.has_faults && !self.report.coverage.contains_key("outage");
        self.settle(&observer).await;
        if is_calm && repairs() > 0 {
            let repairs = repairs();
            self.effects.violate(format!("{repairs} jobs were lost, although nothing failed"));
        }
        self.judge(&observer).await;
        self.report.violations.extend(self.effects.violations());
        self.report
    }

    /// Creates a run.
    async fn create(&mut self, server: &Server, plan: Plan) {
        let everything =
            json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        let new = NewTask {
            tool: "plan".into(),
            arguments: serde_json::to_value(&plan).expect("a plan is JSON"),
            principal: Some("client".into()),
            revision: Revision::Rounds,
            capabilities: everything,
            ttl: None,
            journal: None,
            asks: Vec::new(),
            due: None,
            channels: Channels::default(),
            is_read_with_a_tool: false,
            question_life: None,
            call: None,
            max_waiting: None,
            connection: None,
        };
        match tasks(server).create(new).await {
            Ok(view) => {
                self.log("create", format_args!("{} {:?}", view.id, plan.actions));
                let (id, seen) = (view.id, view.status);
                self.runs.push(Run { plan, id, seen, answers: BTreeMap::new(), is_cancelled: false });
            }
            Err(error) => self.effects.violate(format!("a task could not be created: {error}")),
        }
    }

    /// Injects one fault.
    async fn fault(&mut self) {
        let Some(number) = self.living() else { return self.start_replica(true) };
        match below(5) {
            0 | 1 => {
                self.replicas[number].process.kill();
                self.log("kill", number);
                sleep(Duration::from_millis(below(6000))).await;
                self.start_replica(true);
            }
            2 | 3 => {
                let duration = Duration::from_millis(below(9000));
                self.replicas[number].process.stall(duration);
                self.log("stall", format_args!("{number} for {duration:?}"));
            }
            _ => self.start_replica(below(3) > 0),
        }
    }

    /// Kills all replicas, and starts new replicas after hours.
    async fn outage(&mut self) {
        for replica in &self.replicas {
            replica.process.kill();
        }
        self.log("outage", "");
        sleep(LONG_OUTAGE).await;
        self.start_replica(true);
    }

    /// Lets clients answer and cancel for some seconds.
    async fn live(&mut self, observer: &Arc<Tasks>, seconds: u64) {
        for _ in 0..seconds {
            sleep(Duration::from_millis(500 + below(1000))).await;
            for number in 0..self.runs.len() {
                self.visit(observer, number).await;
            }
        }
    }

    /// Reads a run. Returns whether the run has ended and its tool has cleaned up.
    async fn view(&mut self, observer: &Arc<Tasks>, number: usize) -> Option<(TaskView, bool)> {
        let owner = Tasks::owner(Some("client"));
        let run = &mut self.runs[number];
        let (view, is_over) = match observer.observe(&owner, &run.id).await {
            Ok(Some(view)) => view,
            Ok(None) => {
                self.effects.violate(format!("run {number} does not exist any more"));
                return None;
            }
            Err(error) => {
                self.effects.violate(format!("run {number} cannot be read: {error}"));
                return None;
            }
        };
        if run.seen.is_final() && run.seen != view.status {
            let (seen, status) = (run.seen, view.status);
            self.effects.violate(format!("run {number} was {seen:?} and is now {status:?}"));
        }
        self.runs[number].seen = view.status;
        Some((view, is_over))
    }

    /// A client looks at its run, and answers or cancels.
    async fn visit(&mut self, observer: &Arc<Tasks>, number: usize) {
        let Some((view, _)) = self.view(observer, number).await else { return };
        if view.status.is_final() {
            return;
        }
        let Some(replica) = self.living() else { return };
        let replica = Arc::clone(tasks(&self.replicas[replica].server));
        let owner = Tasks::owner(Some("client"));
        // The process can die or stall during the call. The client then gives up, and asks another process.
        let limit = Duration::from_secs(5);
        if below(40) == 0 {
            self.log("cancel", number);
            let id = self.runs[number].id.clone();
            let _ = tokio::time::timeout(limit, replica.cancel(&owner, &id)).await;
            self.runs[number].is_cancelled = true;
            return;
        }
        if view.asks.is_empty() || below(3) == 0 {
            return;
        }
        let mut answers = BTreeMap::new();
        for wire in view.asks.keys() {
            let value = self.runs[number].answers.get(wire).copied().unwrap_or_else(|| below(1_000_000));
            self.runs[number].answers.insert(wire.clone(), value);
            answers.insert(wire.clone(), accept(value));
        }
        self.log("answer", format_args!("{number} {:?}", answers.keys()));
        let id = self.runs[number].id.clone();
        let _ = tokio::time::timeout(limit, replica.answer(&owner, &id, &answers)).await;
    }

    /// Ends all faults, and waits until all runs have ended.
    async fn settle(&mut self, observer: &Arc<Tasks>) {
        if self.has_faults {
            for replica in &self.replicas {
                replica.process.kill();
            }
        }
        let (has_faults, losses) = (self.has_faults, self.losses);
        (self.has_faults, self.losses) = (false, 0);
        self.faults = self.faults.clone().with_refused(0).with_lost(0).with_unreported(0).with_delayed(0);
        self.start_replica(true);
        (self.has_faults, self.losses) = (has_faults, losses);
        let end = now_millis() + crate::base::millis(PATIENCE);
        let mut pause = 200;
        while now_millis() < end {
            sleep(Duration::from_millis(pause)).await;
            pause = (pause * 5 / 4).min(10_000);
            let mut open = 0;
            for number in 0..self.runs.len() {
                if let Some((view, false)) = self.view(observer, number).await {
                    open += 1;
                    if !view.asks.is_empty() {
                        self.visit(observer, number).await;
                    }
                }
            }
            if open == 0 {
                break;
            }
        }
    }

    /// Checks the end of all runs.
    async fn judge(&mut self, observer: &Arc<Tasks>) {
        let owner = Tasks::owner(Some("client"));
        for number in 0..self.runs.len() {
            let Some((view, is_over)) = self.view(observer, number).await else { continue };
            let run = &self.runs[number];
            let (id, plan, is_cancelled) = (run.id.clone(), run.plan.clone(), run.is_cancelled);
            let trace = observer.trace(&owner, &id).await.ok().flatten().unwrap_or_default();
            if !is_over {
                self.effects.violate(format!("run {number} does not end: {view:?} {trace}"));
                continue;
            }
            let events = trace["events"].as_array().cloned().unwrap_or_default();
            if events.iter().any(|event| event["what"] == "repaired") {
                self.effects.violate(format!("run {number} had no job that continued it"));
            }
            match view.status {
                TaskStatus::Completed => {
                    self.log("completed", number);
                    self.judge_completed(number, &plan, &view);
                }
                TaskStatus::Cancelled if is_cancelled => self.log("cancelled", number),
                status => self.effects.violate(format!("run {number} is {status:?}: {:?}", view.message)),
            }
        }
    }

    fn judge_completed(&self, number: usize, plan: &Plan, view: &TaskView) {
        let output = serde_json::to_value(&view.ended).unwrap_or_default();
        let text = output.pointer("/output/content/0/text").and_then(Value::as_str).unwrap_or_default();
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        for (place, action) in plan.actions.iter().enumerate() {
            let count = self.effects.count(plan.run, place);
            let asked = match action {
                Action::Step { failures } if count <= *failures => {
                    self.effects.violate(format!("run {number}: step {place} ran only {count} times"));
                    continue;
                }
                Action::Large if count == 0 => {
                    self.effects.violate(format!("run {number}: step {place} did not run"));
                    continue;
                }
                Action::Once => {
                    // The outcome is unknown if a process died between the claim of the step and its result.
                    let outcome = words.next();
                    if outcome != Some("unknown") && (outcome, count) != (Some("once"), 1) {
                        self.effects
                            .violate(format!("run {number}: step {place} ran {count} times: {outcome:?}"));
                    }
                    continue;
                }
                Action::Ask => vec![format!("ask{place}")],
                Action::AskBoth => vec![format!("ask{place}a"), format!("ask{place}b")],
                _ => continue,
            };
            for key in asked {
                let given = self.runs[number].answers.get(&key).map(u64::to_string);
                let used = words.next().map(ToOwned::to_owned);
                if given != used {
                    self.effects
                        .violate(format!("run {number}: the answer to {key} was {given:?}, not {used:?}"));
                }
            }
        }
    }
}

fn accept(number: u64) -> Value {
    json!({"action": "accept", "content": {"number": number}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_no_violations_and_repeat_exactly() {
        for seed in 0..200 {
            let report = simulate(seed, None);
            assert!(report.violations.is_empty(), "seed {seed}\n{report}");
            if seed < 20 {
                assert_eq!(simulate(seed, None).log, report.log, "seed {seed}");
            }
        }
    }
}
