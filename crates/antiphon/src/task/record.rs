//! The stored record of a run.

use std::collections::BTreeMap;

use antiphon_replay::Journal;
use antiphon_store::Pieces;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Tasks,
    store::Unreadable,
    view::{Ended, TaskStatus, TaskView},
};
use crate::{
    base::Defect,
    protocol::Revision,
    run::{
        Channels, Claimed,
        channels::{allows_relay, is_link},
    },
    telemetry,
};

/// The newest record format that this version can read and write. [`TaskRecord::ask`] sets this format.
pub(super) const FORMAT: u32 = 3;

/// Returns the format number of a record that contains no questions. A record with channels needs a newer format than
/// 1. A version of Antiphon that reads only format 1 would ignore the channels and end the run at the next question.
pub(super) fn format(channels: Channels) -> u32 {
    if channels.any() { 2 } else { 1 }
}

/// The maximum number of events in a record. If a run has more events, the record contains only the oldest and the
/// newest events.
const EVENTS: usize = 128;

/// A complete run: the metadata, the journal, the open questions and the result.
///
/// The store contains each run as a single record, so a single conditional write changes the run. If this write
/// conflicts, another process has changed the run first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are stored, each under its name")]
pub(crate) struct TaskRecord {
    #[serde(rename = "v")]
    pub(super) format: u32,
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) principal: Option<String>,
    /// Whether the client uses MCP 2026-07-28 (rounds).
    pub(crate) rounds: bool,
    /// The capabilities that the client declared.
    pub(crate) capabilities: Value,
    pub(crate) status: TaskStatus,
    pub(crate) message: Option<String>,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) ttl: Option<u64>,
    pub(crate) poll: u64,
    pub(crate) journal: Journal,
    /// The number of times that any process has written the record. The record contains this number in encrypted form,
    /// so that a process can detect a rollback.
    #[serde(default)]
    pub(super) serial: u64,
    /// The number of times that legs have written the record. If this number has changed since a leg last read the
    /// record, another leg has written the record.
    pub(super) written: u64,
    /// The open questions, by wire key.
    pub(crate) asks: BTreeMap<String, Asked>,
    /// The answers that no leg has used yet, by question key.
    pub(super) answers: BTreeMap<String, Value>,
    /// The number of times that the run has opened each question. With this number, the record creates a new wire key
    /// each time.
    pub(super) put: BTreeMap<String, u32>,
    /// The job of the current or the next leg.
    pub(super) job: Option<Due>,
    /// The number of jobs that processes have created for this run so far.
    pub(super) jobs: u64,
    /// The end of the hold, in milliseconds since 1970. A hold prevents a second leg while the running leg has no job,
    /// or has a job that `job` does not contain.
    pub(super) held: Option<u64>,
    /// The number of legs that workers have started.
    pub(crate) legs: u64,
    /// The number of failed attempts since the run last made progress.
    pub(crate) failures: u32,
    pub(crate) ended: Option<Ended>,
    /// Whether the run was cancelled and the tool has not cleaned up yet.
    pub(super) cleaning: bool,
    /// Whether the server has given up the run. If `true`, an operator must retry or remove the run.
    pub(crate) dead: bool,
    /// The events in the timeline of the run, for operators.
    pub(crate) events: Vec<TaskEvent>,
    /// The digest of the server's audience. The text is empty in records that version 0.1.0 has written.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) audience: String,
    /// How long the store keeps the record after the run has ended, in milliseconds. `None` means that the store keeps
    /// the record until an operator purges the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retention: Option<u64>,
    /// Whether the client requested the TTL that `retention` contains.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) requested: bool,
    /// The time at which a leg first failed because the replica does not have the tool. The value is `None` if the
    /// replica of the last leg had the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) toolless: Option<u64>,
    /// The at-most-once steps that the run has started, by idempotency key. When a step has returned, the journal
    /// contains the result, so this map no longer contains the step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) claims: BTreeMap<String, Claimed>,
    /// The channels, other than the client, through which the user can answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) channels: Channels,
    /// Whether the model reads the result with the tool `task_result`, because the client does not read tasks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_read_with_a_tool: bool,
    /// How long a question stays open, in milliseconds. `None` means that a question stays open until the run ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) question_life: Option<u64>,
    /// The name of the call, which equal calls share. If the caller repeats a call while its run waits for the user,
    /// the repeated call joins this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<String>,
    /// The name of the connection of an unauthenticated caller, if the connection belongs to one client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) connection: Option<String>,
    /// The digest of each answer that arrived through a channel, by the wire key of the question.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) taken: BTreeMap<String, String>,
    /// The pieces that contain the run, if the run is too large for a single record.
    #[serde(skip)]
    pub(super) apart: Option<Pieces>,
    /// Whether the audit must write the record again. The reason is that the record is not encrypted with the active
    /// key, or that an older version of Antiphon limited the lifetime of the record.
    #[serde(skip)]
    pub(super) stale: bool,
}

/// An open question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) key: String,
    pub(crate) request: Value,
    /// The time until which the user can answer the question, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<u64>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A job and the time at which it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Due {
    pub(super) number: u64,
    pub(super) at: u64,
}

/// An event in the timeline of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskEvent {
    pub(crate) at: u64,
    /// The kind of the event: `created`, `promoted`, `leg`, `asked`, `answered`, `waits`, `retried`, `repaired`,
    /// `revived`, `cancelled`, `cleaned up`, `ended`, `died`, `drifted` or `expired`.
    pub(crate) what: String,
    /// Details of the event, for example the name of the replica, question keys or a message. The details never contain
    /// recorded data of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
}

impl TaskRecord {
    /// Parses a record that this version or an older version of Antiphon has written.
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
        // This code checks the format version first. Without this check, an old version of Antiphon could parse a newer
        // record. The next write would then remove the fields that the old version does not support.
        if serde_json::from_slice::<Version>(json).map_err(damaged)?.v > FORMAT
            || serde_json::from_slice::<Inside>(json).map_err(damaged)?.journal.v > antiphon_replay::FORMAT
        {
            return Err(Unreadable::NewerFormat);
        }
        let mut record: Self = serde_json::from_slice(json).map_err(damaged)?;
        // Version 0.1.0 counted the lifetime of a run from the creation of the run, and removed even runs that had not
        // ended.
        if !record.status.is_final()
            && let Some(ttl) = record.ttl.take()
        {
            record.retention.get_or_insert(ttl);
            record.stale = true;
        }
        Ok(record)
    }

    /// Sets the TTL of the record before a write. The TTL begins when the run ends.
    pub(super) fn settle_ttl(&mut self, now: u64) {
        self.ttl = match self.ttl {
            _ if !self.is_over() => None,
            Some(ttl) => Some(ttl),
            None => self.retention.map(|kept| now.saturating_sub(self.created).saturating_add(kept)),
        };
    }

    pub(super) fn note(&mut self, what: &str, detail: impl Into<Option<String>>, now: u64) {
        if self.events.len() >= EVENTS {
            // If the record contains too many events, this code removes an event in the middle. The first events show
            // how the run started, and the last events show the current state of the run.
            self.events.remove(EVENTS / 4);
        }
        self.events.push(TaskEvent { at: now, what: what.to_owned(), detail: detail.into() });
    }

    pub(crate) fn revision(&self) -> Revision {
        if self.rounds { Revision::Rounds } else { Revision::Session }
    }

    /// Returns the TTL that the server sends to the client, counted from the creation of the task. Before the run has
    /// ended, the exact TTL is unknown. So this method then returns the TTL that the client requested, because the
    /// server stores the task for at least this time.
    fn shown_ttl(&self) -> Option<u64> {
        if self.status.is_final() { self.ttl } else { self.retention.filter(|_| self.requested) }
    }

    /// Returns the time at which the next leg is due.
    pub(super) fn due(&self) -> Option<u64> {
        self.job.map(|job| job.at)
    }

    pub(super) fn set_status(&mut self, status: TaskStatus, now: u64) {
        self.status = status;
        self.updated = now.max(self.updated + 1);
    }

    /// Adds an open question under a new wire key. Returns the wire key.
    pub(super) fn ask(&mut self, key: &str, request: Value, now: u64) -> String {
        // A version of Antiphon that reads only format 2 would end the run at a question with a link. That version
        // would also treat a relayed answer like an answer from a form that the client showed.
        let is_shown_as_link = is_link(&request) && self.channels.carry(&request);
        if is_shown_as_link || (self.is_read_with_a_tool && allows_relay(&request)) {
            self.format = FORMAT;
        }
        let count = self.put.entry(key.to_owned()).or_default();
        *count += 1;
        let wire = if *count == 1 { key.to_owned() } else { format!("{key}@{count}") };
        let until = self.question_life.map(|life| now.saturating_add(life));
        self.asks.insert(wire.clone(), Asked { key: key.to_owned(), request, until });
        wire
    }

    /// Returns the time at which the first open question expires.
    pub(super) fn questions_end(&self) -> Option<u64> {
        self.asks.values().filter_map(|asked| asked.until).min()
    }

    /// Creates and returns the next job of the run, which is due at the time `at`.
    pub(super) fn next_job(&mut self, at: u64) -> Due {
        if !Defect::JobIdReused.is_planted() {
            self.jobs += 1;
        }
        let due = Due { number: self.jobs, at };
        self.job = Some(due);
        due
    }

    /// Returns `true` if a leg is running, or if the next leg is due.
    pub(super) fn is_awake(&self, now: u64) -> bool {
        self.job.is_some_and(|job| job.at <= now) || self.held.is_some_and(|until| until > now)
    }

    /// Returns the time at which the current wait began: the time of the last progress, or the time at which the run
    /// should have continued.
    pub(super) fn waits_since(&self) -> u64 {
        self.updated.max(self.due().unwrap_or_default()).max(self.held.unwrap_or_default())
    }

    /// Returns a question, with the trace context added. The record contains the question without the trace context, so
    /// that a later leg recognizes the question.
    fn traced(&self, request: &Value) -> Value {
        let mut request = request.clone();
        telemetry::put_place(&mut request, &self.journal);
        request
    }

    pub(super) fn view(&self, version: u64) -> TaskView {
        TaskView {
            id: self.id.clone(),
            owner: Tasks::owner(self.principal.as_deref()),
            tool: self.tool.clone(),
            status: self.status,
            message: self.message.clone(),
            created: self.created,
            updated: self.updated,
            ttl: self.shown_ttl(),
            poll: self.poll,
            asks: self.asks.iter().map(|(key, asked)| (key.clone(), self.traced(&asked.request))).collect(),
            ended: self.ended.clone(),
            channels: self.channels,
            is_read_with_a_tool: self.is_read_with_a_tool,
            questions_end: self.questions_end(),
            version,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a record in the format of version 0.1.0.
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
        newer["v"] = json!(4);
        journal["journal"]["v"] = json!(2);
        assert_eq!(read(&newer).unwrap_err(), Unreadable::NewerFormat);
        assert_eq!(read(&journal).unwrap_err(), Unreadable::NewerFormat);
        // If the rest of a record cannot be parsed, the reader must still read the format version.
        assert_eq!(read(&json!({"v": 4, "body": "new"})).unwrap_err(), Unreadable::NewerFormat);
        assert_eq!(read(&json!({"v": 1})).unwrap_err(), Unreadable::Damaged);
    }

    #[test]
    fn question_that_older_versions_misread_raises_the_format_of_its_record() {
        let asks = |params: Value| json!({"method": "elicitation/create", "params": params});
        let form = asks(json!({"mode": "form", "message": "?"}));
        let link = asks(json!({"mode": "url", "message": "?", "url": "https://example.com/pay"}));
        let relayed = asks(json!({"mode": "form", "message": "?", "_meta": {"antiphon/relay": true}}));
        let (none, app) = (Channels::default(), Channels { app: true, ..Channels::default() });
        for (channels, is_read_with_a_tool, request, expected) in [
            (none, false, &form, 1),
            // If the task has no channels, the client shows the link. So every version of Antiphon can continue the
            // run.
            (none, false, &link, 1),
            (none, false, &relayed, 1),
            (none, true, &form, 1),
            (app, true, &form, 2),
            (app, true, &link, 3),
            (app, true, &relayed, 3),
            (none, true, &relayed, 3),
        ] {
            let mut run = read(&record()).unwrap();
            run.format = format(channels);
            (run.channels, run.is_read_with_a_tool) = (channels, is_read_with_a_tool);
            run.ask("question", request.clone(), 1000);
            let stored = serde_json::to_value(&run).unwrap();
            assert_eq!(stored["v"], expected, "{channels:?}, {is_read_with_a_tool}: {request}");
            run.ask("another", form.clone(), 1000);
            assert_eq!(run.format, expected, "the format of a record does not fall");
            assert_eq!(read(&stored).unwrap().format, expected);
        }
    }

    #[test]
    fn life_of_an_unfinished_run_of_an_older_version_begins_at_its_end() {
        let mut run = read(&record()).unwrap();
        assert_eq!((run.ttl, run.retention, run.stale), (None, Some(86_400_000), true));
        run.settle_ttl(5000);
        assert_eq!(run.ttl, None);
        run.set_status(TaskStatus::Completed, 5000);
        run.settle_ttl(5000);
        assert_eq!(run.created + run.ttl.unwrap(), 5000 + 86_400_000);
    }
}
