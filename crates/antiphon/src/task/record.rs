//! What the store keeps of a run.

use std::collections::BTreeMap;

use antiphon_replay::Journal;
use antiphon_store::Pieces;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    store::Unreadable,
    view::{Ended, TaskStatus, TaskView},
};
use crate::{base::now_millis, protocol::Revision, run::Claimed, telemetry};

/// The format this version writes.
pub(super) const FORMAT: u32 = 1;

/// How many events a run remembers of itself, the oldest ones and the newest.
const EVENTS: usize = 128;

/// A run, whole: its head, its journal, what it waits for and what came of it.
///
/// It is one record, so that every change is one conditional write. Whoever lost a race knows it by that.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are stored, each under its name")]
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
    pub(crate) events: Vec<TaskEvent>,
    /// The server it belongs to, as a digest. Empty in records of version 0.1.0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) audience: String,
    /// How long the record is kept after the run has ended, in milliseconds. `None`: until somebody purges it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retention: Option<u64>,
    /// Whether the client asked for that time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) requested: bool,
    /// Since when no replica that took the run had its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) toolless: Option<u64>,
    /// The steps that may be taken at most once and were begun, by their idempotency key. What a step returned is in the
    /// journal, and then it is no longer here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) claims: BTreeMap<String, Claimed>,
    /// Where it is, if it is too large for one record.
    #[serde(skip)]
    pub(super) apart: Option<Pieces>,
    /// Whether it should be written again: its key is no longer the active one, or an older version limited its life.
    #[serde(skip)]
    pub(super) stale: bool,
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
pub(crate) struct TaskEvent {
    pub(crate) at: u64,
    /// `created`, `leg`, `asked`, `answered`, `waits`, `retried`, `cancelled`, `ended`, `died`, `drifted`, `revived`.
    pub(crate) what: String,
    /// Which replica, keys, words: never a value of the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
}

impl TaskRecord {
    /// Reads a record of this or an older version.
    pub(super) fn read(json: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        #[derive(Deserialize)]
        struct Inside {
            journal: Version,
        }
        let damaged = |_| Unreadable::Damaged;
        // The versions first: a newer record may parse as one of ours and lose what we do not know when it is written.
        if serde_json::from_slice::<Version>(json).map_err(damaged)?.v > FORMAT
            || serde_json::from_slice::<Inside>(json).map_err(damaged)?.journal.v > antiphon_replay::FORMAT
        {
            return Err(Unreadable::NewerFormat);
        }
        let mut record: Self = serde_json::from_slice(json).map_err(damaged)?;
        // Version 0.1.0 counted the life of a run from its creation, and removed runs that had not ended.
        if !record.status.is_final()
            && let Some(ttl) = record.ttl.take()
        {
            record.retention.get_or_insert(ttl);
            record.stale = true;
        }
        Ok(record)
    }

    /// The life of the record, whenever it is written: it ends some time after the run has.
    pub(super) fn settle_ttl(&mut self) {
        self.ttl = match self.ttl {
            _ if !self.status.is_final() || self.cleaning => None,
            Some(ttl) => Some(ttl),
            None => self.retention.map(|kept| now_millis().saturating_sub(self.created).saturating_add(kept)),
        };
    }

    pub(crate) fn note(&mut self, what: &str, detail: impl Into<Option<String>>) {
        if self.events.len() >= EVENTS {
            // The beginning says where it came from; the end, where it is.
            self.events.remove(EVENTS / 4);
        }
        self.events.push(TaskEvent { at: now_millis(), what: what.to_owned(), detail: detail.into() });
    }

    pub(crate) fn revision(&self) -> Revision {
        if self.rounds { Revision::Rounds } else { Revision::Session }
    }

    /// What the client is told: how long after its creation the task is gone. Before the run has ended nobody knows; a
    /// client that asked for a time is told that it gets at least that.
    fn shown_ttl(&self) -> Option<u64> {
        if self.status.is_final() { self.ttl } else { self.retention.filter(|_| self.requested) }
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

    /// When the run was last known to come further, or is next expected to: from then on it waits.
    pub(super) fn waits_since(&self) -> u64 {
        self.updated.max(self.due().unwrap_or_default()).max(self.held.unwrap_or_default())
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
            tool: self.tool.clone(),
            status: self.status,
            message: self.message.clone(),
            created: self.created,
            updated: self.updated,
            ttl: self.shown_ttl(),
            poll: self.poll,
            asks: self.asks.iter().map(|(key, asked)| (key.clone(), self.traced(&asked.request))).collect(),
            ended: self.ended.clone(),
            version,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A record as version 0.1.0 wrote it.
    fn record() -> Value {
        json!({
            "v": 1, "id": "1", "tool": "onboard", "arguments": {}, "principal": null, "rounds": true,
            "capabilities": {}, "status": "working", "message": null, "created": 1000, "updated": 1000,
            "ttl": 86_400_000, "poll": 1000, "journal": {"v": 1, "run": "1", "r": 0}, "serial": 1, "written": 1,
            "asks": {}, "answers": {}, "put": {}, "job": {"number": 1, "at": 1000}, "jobs": 1, "held": null,
            "legs": 1, "failures": 0, "ended": null, "cleaning": false, "dead": false, "events": [],
        })
    }

    fn read(record: &Value) -> Result<TaskRecord, Unreadable> {
        TaskRecord::read(&serde_json::to_vec(record).unwrap())
    }

    #[test]
    fn record_of_a_newer_format_is_left_alone() {
        let (mut newer, mut journal) = (record(), record());
        newer["v"] = json!(2);
        journal["journal"]["v"] = json!(2);
        assert_eq!(read(&newer).unwrap_err(), Unreadable::NewerFormat);
        assert_eq!(read(&journal).unwrap_err(), Unreadable::NewerFormat);
        // One that cannot be parsed otherwise still says its version.
        assert_eq!(read(&json!({"v": 2, "body": "new"})).unwrap_err(), Unreadable::NewerFormat);
        assert_eq!(read(&json!({"v": 1})).unwrap_err(), Unreadable::Damaged);
    }

    #[test]
    fn life_of_an_unfinished_run_of_an_older_version_begins_at_its_end() {
        let mut run = read(&record()).unwrap();
        assert_eq!((run.ttl, run.retention, run.stale), (None, Some(86_400_000), true));
        run.settle_ttl();
        assert_eq!(run.ttl, None);
        run.set_status(TaskStatus::Completed);
        run.settle_ttl();
        let left = run.created + run.ttl.unwrap() - now_millis();
        assert!((86_399_000..=86_400_000).contains(&left), "{left}");
    }
}
