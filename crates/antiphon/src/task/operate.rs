//! The operations for operators, which list, inspect, retry, cancel and purge runs.

use std::{fmt, sync::Arc};

use antiphon_replay::Outcome;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Cancelled, Owner, RECORDS, TaskStatus, Tasks, record::TaskRecord, reducer::Transition};
use crate::{
    base::{now_millis, timestamp},
    error::{Error, Result},
    seal::shape,
    trace,
};

/// A handle with which operators list, inspect, retry, cancel and purge the runs of all callers.
/// [`Server::runs`](crate::Server::runs) returns this handle.
///
/// Operators can see the progress and the open questions of a run. Operators cannot see arguments, answers and results,
/// because this data belongs to the caller. But operators can see the error messages and progress messages of tools,
/// and the beginning of each question's text.
#[derive(Clone)]
pub struct Runs {
    tasks: Arc<Tasks>,
}

/// A page of the list of runs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RunPage {
    /// The runs on this page, in the order in which the store returns them.
    pub runs: Vec<RunSummary>,
    /// The cursor for the next page, or `None` on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A short description of a run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunSummary {
    /// The name of the run: a digest of the owner, `/`, and the ID of the task.
    pub run: String,
    /// The name of the tool.
    pub tool: String,
    /// The current status of the run.
    pub status: TaskStatus,
    /// The last progress message or error message of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The time at which the run was created, as an ISO 8601 timestamp.
    pub created: String,
    /// The time at which the status last changed, as an ISO 8601 timestamp.
    pub updated: String,
    /// The time at which the server removes the run, as an ISO 8601 timestamp. The value is `None` if the run has not
    /// ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The number of times that a worker has started the tool's function for this run.
    pub legs: u64,
    /// The number of failed attempts since the run last made progress.
    pub failures: u32,
    /// Whether the server has given up the run. If `true`, an operator must retry or remove the run.
    pub dead: bool,
    /// The question keys of the questions that have no answer yet.
    pub waits_for: Vec<String>,
    /// The time at which a worker can next execute the run, if the run waits for a point in time or for a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
}

/// A detailed description of a run, with the timeline and the journal.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunReport {
    /// The summary of the run.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// The structure of the arguments: the fields and types, without the data.
    pub arguments: Value,
    /// The events of the run, oldest first.
    pub timeline: Vec<RunEvent>,
    /// The entries of the journal, in the order in which the tool received the results.
    pub journal: Vec<RunEntry>,
}

/// An event in the timeline of a run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RunEvent {
    /// The time of the event.
    pub at: String,
    /// The kind of the event: `created`, `promoted`, `leg`, `asked`, `answered`, `waits`, `retried`, `repaired`,
    /// `revived`, `cancelled`, `cleaned up`, `ended`, `died`, `drifted` or `expired`.
    pub what: String,
    /// Details of the event, for example the name of the replica, question keys or a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An entry of a run's journal: the result of a finished question, a finished step or a finished loop iteration.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RunEntry {
    /// The question key, or the key of the step.
    pub key: String,
    /// The kind and the label of the entry, for example `step charge`. For a question, the label contains the beginning
    /// of the question's text.
    pub op: String,
    /// How the question or step ended: `answered`, `done`, `failed` or `refused`.
    pub outcome: &'static str,
    /// The channel through which the user answered: `client`, `app`, `page` or `relay`. The value is `None` if the
    /// entry does not contain the answer of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<&'static str>,
    /// The structure of the recorded value: the fields and types, without the data. For a failure, `shape` is the error
    /// message.
    pub shape: Value,
}

/// The effect of an operator's request to change a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RunChanged {
    /// The run was changed as requested.
    Done,
    /// The run was not changed, because the run already has the requested state or can no longer change.
    Unchanged,
    /// The run does not exist.
    Unknown,
}

impl Runs {
    pub(crate) fn new(tasks: Arc<Tasks>) -> Self {
        Self { tasks }
    }

    /// Returns a page of runs. If `status` is set, the page contains only runs with this status.
    ///
    /// Even a page before the last page can contain fewer than `limit` runs.
    pub async fn list(
        &self,
        status: Option<TaskStatus>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<RunPage> {
        let (records, next) = self.tasks.records(RECORDS, after, limit.clamp(1, 1000)).await?;
        let runs = records
            .iter()
            .filter(|(_, record, _)| status.is_none_or(|status| record.status == status))
            .map(|(key, record, _)| summary(key, record))
            .collect();
        Ok(RunPage { runs, next })
    }

    /// Returns a run with its timeline and its journal, or `None` if the run does not exist.
    pub async fn inspect(&self, run: &str) -> Result<Option<RunReport>> {
        let Some(key) = key(run) else { return Ok(None) };
        let Some((record, _)) = self.tasks.load(&key).await? else { return Ok(None) };
        let journal = record.journal.entries.iter().map(|entry| {
            let (outcome, shape) = match &entry.outcome {
                Outcome::Answer(value) => ("answered", shape(value)),
                Outcome::Done(value) => ("done", shape(value)),
                Outcome::Failed(failure) => ("failed", json!(failure.message)),
                Outcome::Refused(why) => ("refused", json!(why)),
            };
            let (key, op, via) = (entry.key.to_string(), entry.describe(), trace::via(entry));
            RunEntry { key, op, outcome, via, shape }
        });
        Ok(Some(RunReport {
            summary: summary(&key, &record),
            arguments: shape(&record.arguments),
            timeline: timeline(&record),
            journal: journal.collect(),
        }))
    }

    /// Retries a run that failed, or that the server gave up. The run continues from the last stored journal. If the
    /// run has not ended but the queue has lost the run's job, this method queues the job again.
    pub async fn retry(&self, run: &str) -> Result<RunChanged> {
        let Some(key) = key(run) else { return Ok(RunChanged::Unknown) };
        self.tasks.set_alarm_to_now(&key).await;
        let retried = self.tasks.apply(&key, Transition::Retry).await?;
        let Some((effect, record, _)) = retried else { return Ok(RunChanged::Unknown) };
        let Some(due) = effect.job else { return Ok(RunChanged::Unchanged) };
        self.tasks.begin();
        self.tasks.push(&key, &record, due, now_millis()).await;
        self.tasks.announce(&record, false).await;
        Ok(RunChanged::Done)
    }

    /// Cancels a run, in the same way as a cancellation by the caller.
    pub async fn cancel(&self, run: &str) -> Result<RunChanged> {
        let Some(key) = key(run) else { return Ok(RunChanged::Unknown) };
        self.tasks.begin();
        Ok(match self.tasks.cancel_key(&key).await? {
            Some(Cancelled::Now(_)) => RunChanged::Done,
            Some(Cancelled::Before(_)) => RunChanged::Unchanged,
            None => RunChanged::Unknown,
        })
    }

    /// Removes a run that has ended, together with the run's result.
    ///
    /// # Errors
    ///
    /// Returns an error if the run has not ended. Cancel the run first.
    pub async fn purge(&self, run: &str) -> Result<RunChanged> {
        let Some(key) = key(run) else { return Ok(RunChanged::Unknown) };
        let Some((record, revision)) = self.tasks.load(&key).await? else {
            return Ok(RunChanged::Unknown);
        };
        if !record.is_over() {
            return Err(Error::tool(format!(
                "the run is {} and cannot be removed; cancel it first",
                record.status.name()
            )));
        }
        let removed = self.tasks.remove(&key, record, revision).await?;
        Ok(if removed { RunChanged::Done } else { RunChanged::Unchanged })
    }
}

impl Tasks {
    /// Returns the trace of a run, for the owner of the run.
    pub(crate) async fn trace(&self, owner: &Owner, id: &str) -> Result<Option<Value>> {
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        let Some((record, _)) = self.load(&key).await? else { return Ok(None) };
        Ok(Some(json!({
            "run": record.journal.run,
            "task": record.id,
            "legs": record.legs,
            "entries": trace::entries(&record.journal),
            "events": timeline(&record),
        })))
    }
}

fn timeline(record: &TaskRecord) -> Vec<RunEvent> {
    let shown = record.events.iter().map(|event| RunEvent {
        at: timestamp(event.at),
        what: event.what.clone(),
        detail: event.detail.clone(),
    });
    shown.collect()
}

/// Returns the name of a run's record in the store, or `None` if `run` is not a valid name of a run.
fn key(run: &str) -> Option<String> {
    let (owner, id) = run.split_once('/')?;
    let named = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (named(owner) && named(id)).then(|| format!("{RECORDS}{owner}/{id}"))
}

fn summary(key: &str, record: &TaskRecord) -> RunSummary {
    RunSummary {
        run: key.strip_prefix(RECORDS).unwrap_or(key).to_owned(),
        tool: record.tool.clone(),
        status: record.status,
        message: record.message.clone(),
        created: timestamp(record.created),
        updated: timestamp(record.updated),
        expires: record
            .ttl
            .filter(|_| record.status.is_final())
            .map(|ttl| timestamp(record.created.saturating_add(ttl))),
        legs: record.legs,
        failures: record.failures,
        dead: record.dead,
        waits_for: record.asks.keys().cloned().collect(),
        due: record.due().map(timestamp),
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_run_cannot_lead_elsewhere() {
        assert_eq!(key("anyone/12ab").as_deref(), Some("tasks/anyone/12ab"));
        for bad in ["12ab", "a/b/c", "../seal/x", "a/", "/b", "a b/c"] {
            assert_eq!(key(bad), None, "{bad}");
        }
    }
}
