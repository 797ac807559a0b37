//! What the store keeps of a run.

use std::collections::BTreeMap;

use antiphon_replay::Journal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::view::{Ended, TaskStatus, TaskView};
use crate::{keep::Pieces, run::now_millis, telemetry, wire::Revision};

/// The format this version writes.
pub(super) const FORMAT: u32 = 1;

/// How many events a run remembers of itself, the oldest ones and the newest.
const EVENTS: usize = 128;

/// A run, whole: its head, its journal, what it waits for and what came of it.
///
/// It is one record, so that every change is one conditional write. Whoever lost a race knows it by that.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskRecord {
    #[serde(rename = "v")]
    pub(super) format: u32,
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) principal: Option<String>,
    /// Which revision its client speaks.
    pub(crate) rounds: bool,
    /// What its client can be asked.
    pub(crate) capabilities: Value,
    pub(crate) status: TaskStatus,
    pub(crate) message: Option<String>,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) ttl: Option<u64>,
    pub(crate) poll: u64,
    pub(crate) journal: Journal,
    /// How often the record was written, by whomever. Sealed with it, so that one that was put back is known by it.
    #[serde(default)]
    pub(super) serial: u64,
    /// How often the journal was written: only legs write it, so a leg that finds another number is not alone.
    pub(super) written: u64,
    /// The questions that are out, by their key on the wire.
    pub(crate) asks: BTreeMap<String, Asked>,
    /// Answers no leg has seen yet, by the question's own key.
    pub(super) answers: BTreeMap<String, Value>,
    /// How often each question was put. On the wire, a key is used once.
    pub(super) put: BTreeMap<String, u32>,
    /// The job that runs the next leg, or is running it.
    pub(super) job: Option<Due>,
    /// How many jobs there have been.
    pub(super) jobs: u64,
    /// A leg that no job runs: it began before there was a task.
    pub(super) held: Option<u64>,
    /// How many legs were begun.
    pub(crate) legs: u64,
    /// How often it ended with an error since it last came further.
    pub(crate) failures: u32,
    pub(crate) ended: Option<Ended>,
    /// Whether it was cancelled and has not cleaned up yet.
    pub(super) cleaning: bool,
    /// Whether it was given up: a person has to look.
    pub(crate) dead: bool,
    /// What happened to it, for people.
    pub(crate) events: Vec<Happened>,
    /// Where it is, if it is too large for one record.
    #[serde(skip)]
    pub(super) apart: Option<Pieces>,
}

/// A question that is out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) key: String,
    pub(crate) request: Value,
}

/// A job, and when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Due {
    pub(super) number: u64,
    pub(super) at: u64,
}

/// Something that happened to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Happened {
    pub(crate) at: u64,
    /// `created`, `leg`, `asked`, `answered`, `waits`, `retried`, `cancelled`, `ended`, `died`, `drifted`, `revived`.
    pub(crate) what: String,
    /// Which replica, keys, words: never a value of the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
}

impl TaskRecord {
    pub(crate) fn note(&mut self, what: &str, detail: impl Into<Option<String>>) {
        if self.events.len() >= EVENTS {
            // The beginning says where it came from; the end, where it is.
            self.events.remove(EVENTS / 4);
        }
        self.events.push(Happened { at: now_millis(), what: what.to_owned(), detail: detail.into() });
    }

    pub(crate) fn revision(&self) -> Revision {
        if self.rounds { Revision::Rounds } else { Revision::Session }
    }

    /// When its next leg is due.
    pub(super) fn due(&self) -> Option<u64> {
        self.job.map(|job| job.at)
    }

    pub(super) fn set_status(&mut self, status: TaskStatus) {
        self.status = status;
        self.updated = now_millis().max(self.updated + 1);
    }

    /// Puts a question: under a key the wire has not seen.
    pub(super) fn ask(&mut self, key: &str, request: Value) -> String {
        let count = self.put.entry(key.to_owned()).or_default();
        *count += 1;
        let wire = if *count == 1 { key.to_owned() } else { format!("{key}@{count}") };
        self.asks.insert(wire.clone(), Asked { key: key.to_owned(), request });
        wire
    }

    /// The next job, due at `at`.
    pub(super) fn next_job(&mut self, at: u64) -> Due {
        self.jobs += 1;
        let due = Due { number: self.jobs, at };
        self.job = Some(due);
        due
    }

    /// Whether a leg is under way, or about to be.
    pub(super) fn is_awake(&self, now: u64) -> bool {
        self.job.is_some_and(|job| job.at <= now) || self.held.is_some_and(|until| until > now)
    }

    /// A question as it goes out. What is kept is the question alone, so that it is known again in another leg.
    fn traced(&self, request: &Value) -> Value {
        let mut request = request.clone();
        telemetry::put_place(&mut request, &self.journal);
        request
    }

    pub(super) fn view(&self, version: u64) -> TaskView {
        TaskView {
            id: self.id.clone(),
            status: self.status,
            message: self.message.clone(),
            created: self.created,
            updated: self.updated,
            ttl: self.ttl,
            poll: self.poll,
            asks: self.asks.iter().map(|(key, asked)| (key.clone(), self.traced(&asked.request))).collect(),
            ended: self.ended.clone(),
            version,
        }
    }
}
