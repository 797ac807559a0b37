//! The operations for operators: to list, inspect, retry, cancel and purge runs.

use std::{fmt, sync::Arc};

use antiphon_replay::Outcome;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Cancelled, Owner, RECORDS, TaskStatus, Tasks, record::TaskRecord, store::Change};
use crate::{
    base::{now_millis, timestamp},
    error::{Error, Result},
    seal::shape,
    trace,
};

/// A handle for operators. With this handle, operators can list, inspect, retry, cancel and purge the runs of all
/// callers. [`Server::runs`](crate::Server::runs) returns this handle.
///
/// Operators can see the progress of a run and its open questions. They cannot see arguments, answers and results,
/// because these belong to the caller. But they can see the unchanged error messages and progress messages of tools,
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
    /// The name of the run. It consists of a digest of the owner, `/`, and the ID of the task.
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
    /// The time at which the server removes the run, as an ISO 8601 timestamp. Set only if the run has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// How often an execution of the tool's function was started for this run.
    pub legs: u64,
    /// How often the run has failed since its last progress.
    pub failures: u32,
    /// Whether the server has given up the run. An operator must then act.
    pub dead: bool,
    /// The question keys of the questions that have no answer yet.
    pub waits_for: Vec<String>,
    /// If the run waits for a point in time or for a worker, the time at which its next execution can start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
}

/// A detailed description of a run. It contains the timeline and the journal.
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

/// An entry of a run's journal. It belongs to a finished question, a finished step or a finished loop iteration.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RunEntry {
    /// The key of the question or step.
    pub key: String,
    /// The kind and the label of the entry, for example `step charge`. For a question, the label contains the
    /// beginning of its text.
    pub op: String,
    /// The outcome of the question or step: `answered`, `done`, `failed` or `refused`.
    pub outcome: &'static str,
    /// The channel through which the user answered: `client`, `app`, `page` or `relay`. `None` if the entry does not
    /// contain the answer of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<&'static str>,
    /// The structure of the value: the fields and types, without the data. For a failure, this is the error message.
    pub shape: Value,
}

/// The effect of an operator's request to change a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RunChanged {
    /// The run was changed as requested.
    Done,
    /// The run was not changed. It already has the requested state, or it can no longer change.
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
    /// A page can contain fewer than `limit` runs even if more pages follow.
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

    /// Retries a run that failed, or that the server gave up. The run continues from its last stored state. If the run
    /// has not ended, but its job was lost, this method queues the job again.
    pub async fn retry(&self, run: &str) -> Result<RunChanged> {
        let Some(key) = key(run) else { return Ok(RunChanged::Unknown) };
        let now = now_millis();
        self.tasks.set_alarm_to_now(&key).await;
        let changed = self
            .tasks
            .change(&key, |record| {
                if matches!(record.status, TaskStatus::Completed | TaskStatus::Cancelled) {
                    return Change::Leave(None);
                }
                if !record.status.is_final() && (record.is_awake(now) || !record.asks.is_empty()) {
                    // A leg is running, or the run waits for users. If the job of the run was lost, it is queued again
                    // below.
                    return Change::Leave(record.job);
                }
                record.journal = std::mem::replace(&mut record.journal, antiphon_replay::Journal::new(""))
                    .without_last_failures();
                record.ended = None;
                record.dead = false;
                record.failures = 0;
                record.toolless = None;
                record.message = None;
                record.set_status(TaskStatus::Working);
                record.note("revived", None);
                Change::Write(Some(record.next_job(now)))
            })
            .await?;
        let Some((due, record, _)) = changed else { return Ok(RunChanged::Unknown) };
        let Some(due) = due else { return Ok(RunChanged::Unchanged) };
        self.tasks.begin();
        self.tasks.push(&key, &record, due, now).await;
        self.tasks.announce(&record, false).await;
        Ok(RunChanged::Done)
    }

    /// Cancels a run. The effect is the same as if the caller cancelled the run.
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
        if !record.status.is_final() || record.cleaning {
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
