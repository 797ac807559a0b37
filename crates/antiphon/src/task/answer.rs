//! The operations of a task's owner: to answer questions and to cancel the task.

use std::{collections::BTreeMap, sync::Arc};

use antiphon_replay::canonical;
use serde_json::Value;

use super::{Ended, Owner, TaskStatus, TaskView, Tasks, record::TaskRecord, store::Change};
use crate::{
    base::{digest, now_millis},
    error::Result,
    run::{Channel, fits},
    telemetry::Outcome,
};

/// The result of a cancellation.
#[derive(Debug)]
pub(crate) enum Cancelled {
    Now(TaskView),
    /// The task had already ended before the cancellation.
    Before(TaskView),
}

/// The open questions of a task, with the arguments and the principal of its call.
#[derive(Debug)]
pub(crate) struct OpenQuestions {
    pub(crate) view: TaskView,
    pub(crate) arguments: Value,
    pub(crate) principal: Option<String>,
}

/// The result of delivering answers to a task.
#[derive(Debug)]
pub(crate) enum Delivered {
    Taken(TaskView),
    /// The same answers were already stored.
    Repeated(TaskView),
    /// Other answers were already stored, or a question is already closed.
    Used,
}

/// The maximum number of answer digests in a record. With these digests, the server recognizes an answer that a form
/// sends twice. Repeated answers arrive soon after the first answer, so old digests can be removed.
const TAKEN: usize = 64;

impl Tasks {
    /// Returns the open questions of a task. Returns `None` if the owner has no such task.
    pub(crate) async fn questions(
        self: &Arc<Self>,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<OpenQuestions>> {
        self.begin();
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        let Some((record, revision)) = self.load(&key).await? else { return Ok(None) };
        self.heal(&key, &record).await;
        let view = record.view(revision.0);
        Ok(Some(OpenQuestions { view, arguments: record.arguments, principal: record.principal }))
    }

    /// Stores answers that arrived through a channel. For each question, only the first answer is accepted. Returns
    /// `None` if the task does not exist.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        owner: &Owner,
        id: &str,
        answers: &BTreeMap<String, Value>,
        channel: Channel,
    ) -> Result<Option<Delivered>> {
        self.begin();
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        let digests: BTreeMap<&String, String> =
            answers.iter().map(|(wire, answer)| (wire, digest(&[&canonical(answer)]))).collect();
        self.set_alarm_to_now(&key).await;
        let changed = self
            .change(&key, |record| {
                let now = now_millis();
                let is_open = |wire: &String| {
                    record.asks.get(wire).is_some_and(|asked| asked.until.is_none_or(|until| until > now))
                };
                if !answers.keys().all(is_open) || answers.is_empty() || record.status.is_final() {
                    let same = |(wire, digest): (&&String, &String)| record.taken.get(*wire) == Some(digest);
                    return Change::Leave((None, !answers.is_empty() && digests.iter().all(same)));
                }
                take(record, answers, channel);
                record.taken.extend(digests.iter().map(|(wire, digest)| ((*wire).clone(), digest.clone())));
                while record.taken.len() > TAKEN {
                    record.taken.pop_first();
                }
                let awake = record.is_awake(now);
                Change::Write((Some((!awake).then(|| record.next_job(now))), false))
            })
            .await?;
        let Some(((taken, repeated), record, revision)) = changed else { return Ok(None) };
        let Some(due) = taken else {
            let view = record.view(revision.0);
            return Ok(Some(if repeated { Delivered::Repeated(view) } else { Delivered::Used }));
        };
        self.unlist_answered(&record).await;
        match due {
            Some(due) => {
                self.push(&key, &record, due, due.at).await;
            }
            None => {
                self.heal(&key, &record).await;
            }
        }
        self.announce(&record, false).await;
        Ok(Some(Delivered::Taken(record.view(revision.0))))
    }

    /// Records that the client does not show the questions of a task. Does nothing if the task has no other channel.
    pub(crate) async fn leave_client(&self, owner: &Owner, id: &str) -> Result<()> {
        let Some(key) = Self::key(owner, id) else { return Ok(()) };
        let left = self.change(&key, |record| {
            let others = record.channels.without_client();
            if !record.channels.client || !others.any() {
                return Change::Leave(());
            }
            record.channels = others;
            Change::Write(())
        });
        left.await.map(drop)
    }

    /// Adds answers to a task. If a question is not open, its answer is ignored. Returns `None` if the task does not
    /// exist.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        owner: &Owner,
        id: &str,
        answers: &BTreeMap<String, Value>,
    ) -> Result<Option<TaskView>> {
        self.begin();
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        // The alarm is set before the answer is stored. If this process dies after storing the answer, another replica
        // finds that the run is due.
        self.set_alarm_to_now(&key).await;
        let changed = self
            .change(&key, |record| {
                let now = now_millis();
                if !take(record, answers, Channel::Client) {
                    return Change::Leave(None);
                }
                // If a leg is running, no new job is needed, because the leg checks for answers before it is
                // suspended.
                let awake = record.is_awake(now);
                Change::Write((!awake).then(|| record.next_job(now)))
            })
            .await?;
        let Some((due, record, revision)) = changed else { return Ok(None) };
        self.unlist_answered(&record).await;
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

    /// Cancels a task. The status of the task changes immediately. A running leg receives the cancellation at its next
    /// question or timer. The tool can then clean up.
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
        self.unlist_waiting(&record).await;
        if let Some(due) = due {
            self.push(key, &record, due, due.at).await;
        }
        self.announce(&record, true).await;
        self.runtime.recorder.run_ended(&record.tool, Outcome::Cancelled);
        Ok(Some(Cancelled::Now(view)))
    }
}

/// Stores the answers to open questions in the record. Returns whether the record changed.
fn take(record: &mut TaskRecord, answers: &BTreeMap<String, Value>, channel: Channel) -> bool {
    if record.status.is_final() {
        return false;
    }
    let mut taken = Vec::new();
    let mut misfits = false;
    for (wire, answer) in answers {
        let Some(asked) = record.asks.remove(wire) else { continue };
        if fits(&asked.request, answer) {
            let mut answer = answer.clone();
            channel.mark(&mut answer);
            record.answers.insert(asked.key, answer);
            taken.push(wire.clone());
        } else {
            // The wire key of this question has been used and cannot be used again. The question stays open under a
            // new wire key.
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
    let mut detail = taken.join(", ");
    if channel != Channel::Client {
        detail = format!("{detail} ({})", channel.name());
    }
    record.note("answered", detail);
    record.set_status(if record.asks.is_empty() { TaskStatus::Working } else { TaskStatus::InputRequired });
    true
}
