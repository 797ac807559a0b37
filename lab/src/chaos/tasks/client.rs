//! A client that brings runs to their end, whichever front end is alive.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::chaos::cluster::PAUSE;
use crate::mcp::{self, Connection};

/// One run, as its client saw it.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// What the world calls it.
    pub(super) name: String,
    /// What its task is called.
    pub(super) task: String,
    pub(super) word: String,
    /// How many legs it needs if nobody dies.
    pub(super) needs: u64,
    /// Whether its client left: it never looked again.
    pub(super) is_left: bool,
    /// The answer of `tasks/get` when it had ended.
    pub(super) end: Option<Value>,
    /// The keys that were used up.
    pub(super) keys: BTreeSet<String>,
    /// What must not be, in words, by the law it is about.
    pub(super) lost: Vec<String>,
    pub(super) reused: Vec<String>,
}

/// A client of its own thread.
#[derive(Debug)]
pub(super) struct Client {
    fronts: Vec<Connection>,
    hosts: Vec<String>,
    rng: Rng,
    id: u64,
    /// Requests that nobody answered.
    pub(super) unanswered: u64,
    /// Calls of which nobody knows whether they made a task: the name of the run, and whether it asks.
    pub(super) orphans: Vec<(String, bool)>,
    patience: Duration,
}

/// What a client does after it has started a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Looks until it has ended.
    Stays,
    /// Answers the question, and leaves.
    Answers,
    /// Leaves at once, for the run asks nothing.
    Leaves,
}

impl Client {
    pub(super) fn new(fronts: &[SocketAddr], rng: Rng, patience: Duration) -> Self {
        Self {
            hosts: fronts.iter().map(ToString::to_string).collect(),
            fronts: fronts.iter().map(|address| Connection::new(*address)).collect(),
            rng,
            id: 0,
            unanswered: 0,
            orphans: Vec::new(),
            patience,
        }
    }

    /// Begins a run, and brings it to its end or leaves it alone. Gives up after a long time.
    pub(super) fn run(&mut self, number: u64) -> Run {
        let start = Instant::now();
        let habit = match self.rng.u8(..4) {
            0 => Habit::Leaves,
            1 => Habit::Answers,
            _ => Habit::Stays,
        };
        let mut run = self.begin(number, habit, start);
        if habit == Habit::Leaves {
            run.is_left = run.lost.is_empty();
            return run;
        }
        let mut misfit = habit == Habit::Stays && self.rng.u8(..8) == 0;
        run.needs += u64::from(misfit);
        while start.elapsed() < self.patience {
            thread::sleep(PAUSE);
            let task = match self.get(&run.task) {
                Ok(task) => task,
                Err(error) => {
                    // A task that was created is never unknown; everything else is somebody being away.
                    if error.to_string().contains("no such task") {
                        run.lost.push(format!("{}: {error:#}", run.name));
                        return run;
                    }
                    continue;
                }
            };
            match task["status"].as_str() {
                Some("completed" | "failed" | "cancelled") => {
                    run.end = Some(task);
                    return run;
                }
                Some("input_required") => self.answer(&mut run, &task, &mut misfit),
                _ => {}
            }
            if habit == Habit::Answers && !run.keys.is_empty() {
                run.is_left = true;
                return run;
            }
        }
        run
    }

    fn begin(&mut self, number: u64, habit: Habit, start: Instant) -> Run {
        let (sleeps, asks) = (self.rng.bool(), habit != Habit::Leaves);
        let wait = if sleeps { self.rng.u64(600..1500) } else { self.rng.u64(1..200) };
        let mut attempt = 0;
        loop {
            // A call whose answer is lost may have begun a run, so the next one begins another.
            let name = format!("{number}.{attempt}");
            let arguments = json!({ "run": name, "wait_ms": wait, "asks": asks });
            let params = json!({ "name": "errand", "arguments": arguments });
            match self.send("tools/call", "errand", params) {
                Ok(created) if created["taskId"].is_string() => {
                    let task = created["taskId"].as_str().unwrap_or_default().to_owned();
                    let needs = 1 + u64::from(sleeps) + u64::from(asks);
                    let word = format!("word-{name}");
                    return Run { name, task, word, needs, ..Run::default() };
                }
                Ok(other) => {
                    let lost = vec![format!("{name} was answered with no task: {other}")];
                    return Run { name, lost, ..Run::default() };
                }
                Err(_) if start.elapsed() < self.patience => {
                    self.orphans.push((name, asks));
                    attempt += 1;
                    thread::sleep(PAUSE);
                }
                Err(error) => {
                    let lost = vec![format!("{name} could not be begun: {error:#}")];
                    return Run { name, lost, ..Run::default() };
                }
            }
        }
    }

    /// Answers what is asked; at first with what does not fit, if that is the mood.
    fn answer(&mut self, run: &mut Run, task: &Value, misfit: &mut bool) {
        let keys = task["inputRequests"].as_object().into_iter().flat_map(serde_json::Map::keys);
        for key in keys.cloned().collect::<Vec<_>>() {
            if run.keys.contains(&key) {
                run.reused.push(format!("{}: `{key}` was asked again after it was answered", run.name));
                continue;
            }
            let word = if *misfit { json!(7) } else { json!(run.word) };
            let response = json!({ key.clone(): { "action": "accept", "content": { "word": word } } });
            let params = json!({ "taskId": run.task, "inputResponses": response });
            // Once is enough, whether anybody hears of it or not: the tool asks again once.
            *misfit = false;
            // If the answer is lost, the next look says whether the question is still out.
            if self.send("tasks/update", &run.task, params).is_ok() {
                run.keys.insert(key);
            }
        }
    }

    fn get(&mut self, task: &str) -> Result<Value> {
        self.send("tasks/get", task, json!({ "taskId": task }))
    }

    /// What this front end says of a task, once it says anything.
    pub(super) fn get_from(&mut self, front: usize, task: &str) -> Result<Value> {
        let start = Instant::now();
        loop {
            match self.send_to(front, "tasks/get", task, json!({ "taskId": task })) {
                Err(error) if start.elapsed() < Duration::from_secs(20) => {
                    if error.to_string().contains("no such task") {
                        return Err(error);
                    }
                    thread::sleep(PAUSE);
                }
                answered => return answered,
            }
        }
    }

    fn send(&mut self, method: &str, name: &str, params: Value) -> Result<Value> {
        let front = self.rng.usize(..self.fronts.len());
        self.send_to(front, method, name, params)
    }

    fn send_to(&mut self, front: usize, method: &str, name: &str, params: Value) -> Result<Value> {
        self.id += 1;
        let request = mcp::modern(&self.hosts[front], self.id, method, name, params);
        let Ok(response) = self.fronts[front].exchange(&request.to_bytes()) else {
            self.unanswered += 1;
            bail!("nobody answers at {}", self.hosts[front]);
        };
        mcp::result(&response)
    }
}
