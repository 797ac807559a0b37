//! Operations of a task's owner: answer and cancel.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{Ended, Owner, TaskStatus, TaskView, Tasks, record::TaskRecord, store::Change};
use crate::{base::now_millis, error::Result, run::fits, telemetry::Outcome};

/// The result of a cancellation.
#[derive(Debug)]
pub(crate) enum Cancelled {
    Now(TaskView),
    /// The task had already ended.
    Before(TaskView),
}

impl Tasks {
    /// Adds answers to a task. Ignores the keys of questions that are not open. Returns `None` if the task
    /// does not exist.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        owner: &Owner,
        id: &str,
        answers: &BTreeMap<String, Value>,
    ) -> Result<Option<TaskView>> {
        self.begin();
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        // Set the alarm before the answer is stored. If this process then dies, another replica finds that
        // the run is due.
        self.set_alarm_to_now(&key).await;
        let changed = self
            .change(&key, |record| {
                let now = now_millis();
                if !take(record, answers) {
                    return Change::Leave(None);
                }
                // A running leg checks for answers before it suspends.
                let awake = record.is_awake(now);
                Change::Write((!awake).then(|| record.next_job(now)))
            })
            .await?;
        let Some((due, record, revision)) = changed else { return Ok(None) };
        match due {
            Some(due) => {
                self.push(&key, &record, due, due.at).await;
            }
            None => {
                self.heal(&key, &record).await;
            }
        }
        self.announce(&record, false).await;
        Ok(Some(record.view(revision.0)))
    }

    /// Cancels a task. Its status changes at once. A running leg receives the cancellation at its next
    /// question or timer, and can then clean up.
    pub(crate) async fn cancel(self: &Arc<Self>, owner: &Owner, id: &str) -> Result<Option<Cancelled>> {
        self.begin();
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        self.cancel_key(&key).await
    }

    pub(super) async fn cancel_key(self: &Arc<Self>, key: &str) -> Result<Option<Cancelled>> {
        self.set_alarm_to_now(key).await;
        let changed = self
            .change(key, |record| {
                if record.status.is_final() {
                    return Change::Leave(None);
                }
                let now = now_millis();
                record.set_status(TaskStatus::Cancelled);
                record.message = Some("the task was cancelled".into());
                record.ended = Some(Ended::Cancelled);
                record.asks.clear();
                record.answers.clear();
                record.cleaning = true;
                record.note("cancelled", None);
                let awake = record.is_awake(now);
                Change::Write(Some((!awake).then(|| record.next_job(now))))
            })
            .await?;
        let Some((cancelled, record, revision)) = changed else { return Ok(None) };
        let view = record.view(revision.0);
        let Some(due) = cancelled else { return Ok(Some(Cancelled::Before(view))) };
        if let Some(due) = due {
            self.push(key, &record, due, due.at).await;
        }
        self.announce(&record, true).await;
        self.runtime.recorder.run_ended(&record.tool, Outcome::Cancelled);
        Ok(Some(Cancelled::Now(view)))
    }
}

/// Stores the answers to open questions. Returns whether the record changed.
fn take(record: &mut TaskRecord, answers: &BTreeMap<String, Value>) -> bool {
    if record.status.is_final() {
        return false;
    }
    let mut taken = Vec::new();
    let mut misfits = false;
    for (wire, answer) in answers {
        let Some(asked) = record.asks.remove(wire) else { continue };
        if fits(&asked.request, answer) {
            record.answers.insert(asked.key, answer.clone());
            taken.push(wire.clone());
        } else {
            // This wire key has been answered and cannot be used again. The question stays open under a new
            // one.
            record.ask(&asked.key, asked.request);
            misfits = true;
        }
    }
    if taken.is_empty() {
        if misfits {
            record.set_status(TaskStatus::InputRequired);
        }
        return misfits;
    }
    record.note("answered", taken.join(", "));
    record.set_status(if record.asks.is_empty() { TaskStatus::Working } else { TaskStatus::InputRequired });
    true
}
