//! What an operator may see of runs and do to them.

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

/// The runs of all callers, for whoever operates the server. From [`Server::runs`](crate::Server::runs).
///
/// It shows what a run has done and waits for, and none of its values: those are its caller's. What a tool says when it
/// fails, or of its progress, is shown as it is.
#[derive(Clone)]
pub struct Runs {
    tasks: Arc<Tasks>,
}

/// One page of runs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RunPage {
    /// The runs, in the store's own order.
    pub runs: Vec<RunSummary>,
    /// Where the next page begins; none after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A run in one line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunSummary {
    /// Its name: whose it is, as a digest, and the id of its task.
    pub run: String,
    /// The tool.
    pub tool: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// How far it has come, or what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was created.
    pub created: String,
    /// When its status last changed.
    pub updated: String,
    /// When it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// How many legs were begun.
    pub legs: u64,
    /// How often it ended with an error since it last came further.
    pub failures: u32,
    /// Whether it was given up, and somebody has to look.
    pub dead: bool,
    /// The keys of the questions it waits for.
    pub waits_for: Vec<String>,
    /// When its next leg is due, if it waits for time or for a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
}

/// A run from its beginning to now.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunReport {
    /// The run in one line.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// The shape of its arguments; their values are not shown.
    pub arguments: Value,
    /// What happened to it.
    pub timeline: Vec<RunEvent>,
    /// What its journal holds, in the order in which the tool saw it.
    pub journal: Vec<RunEntry>,
}

/// Something that happened to a run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RunEvent {
    /// When.
    pub at: String,
    /// What: `created`, `leg`, `asked`, `answered`, `waits`, `retried`, `cancelled`, `ended`, `died`, `drifted`, `revived`.
    pub what: String,
    /// Which replica, which keys, which words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An entry of a journal.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RunEntry {
    /// The key of the question or step.
    pub key: String,
    /// What it is.
    pub op: String,
    /// `answered`, `done`, `failed` or `refused`.
    pub outcome: &'static str,
    /// The shape of the value; the value itself is not shown. Of a failure, its words.
    pub shape: Value,
}

/// What became of a wish of an operator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RunChanged {
    /// It was done.
    Done,
    /// There was nothing to do: it is so already, or it can no longer be.
    Unchanged,
    /// There is no such run.
    Unknown,
}

impl Runs {
    pub(crate) fn new(tasks: Arc<Tasks>) -> Self {
        Self { tasks }
    }

    /// Some runs: those with this status, where one is given.
    ///
    /// A page may hold fewer than `limit` and still not be the last.
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

    /// A run with its timeline; `None` where there is none of this name.
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
            RunEntry { key: entry.key.to_string(), op: entry.describe(), outcome, shape }
        });
        Ok(Some(RunReport {
            summary: summary(&key, &record),
            arguments: shape(&record.arguments),
            timeline: timeline(&record),
            journal: journal.collect(),
        }))
    }

    /// Has a run tried again that failed or was given up, from where it was; or one looked at that seems to be stuck.
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
                    // A leg is under way, or people are waited for; a lost job is pushed again below.
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

    /// Cancels a run, as its caller could.
    pub async fn cancel(&self, run: &str) -> Result<RunChanged> {
        let Some(key) = key(run) else { return Ok(RunChanged::Unknown) };
        self.tasks.begin();
        Ok(match self.tasks.cancel_key(&key).await? {
            Some(Cancelled::Now(_)) => RunChanged::Done,
            Some(Cancelled::Before(_)) => RunChanged::Unchanged,
            None => RunChanged::Unknown,
        })
    }

    /// Removes a run that has ended, with its result.
    ///
    /// # Errors
    ///
    /// Where it has not ended: cancel it first.
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
    /// What a run has done, for its owner.
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

/// The record of a run, if `run` can be the name of one.
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
