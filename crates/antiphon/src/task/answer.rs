//! The operations that the owner of a task can use: answering questions, and cancelling the task.

use std::{collections::BTreeMap, sync::Arc};

use antiphon_replay::canonical;
use serde_json::Value;

use super::{
    Owner, TaskView, Tasks,
    record::TaskRecord,
    reducer::{Effect, Reply, Transition},
};
use crate::{base::digest, error::Result, run::Channel, telemetry::Outcome};

/// The result of a cancellation.
#[derive(Debug)]
pub(crate) enum Cancelled {
    Now(TaskView),
    /// The task had already ended before the cancellation.
    Before(TaskView),
}

/// The open questions of a task, together with the arguments and the principal of the tool call.
#[derive(Debug)]
pub(crate) struct OpenQuestions {
    pub(crate) view: TaskView,
    pub(crate) arguments: Value,
    pub(crate) principal: Option<String>,
}

/// The result of an attempt to store answers in a task.
#[derive(Debug)]
pub(crate) enum Delivered {
    Taken(TaskView),
    /// The task already contains the same answers.
    Repeated(TaskView),
    /// The task already contains different answers, or a question is already closed.
    Used,
}

impl Tasks {
    /// Returns the open questions of a task. Returns `None` if the owner has no task with this ID.
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
        let digests = answers.iter().map(|(wire, answer)| (wire.clone(), digest(&[&canonical(answer)])));
        let digests = digests.collect();
        self.set_alarm_to_now(&key).await;
        let deliver = Transition::Deliver { answers, digests: &digests, channel };
        let Some((effect, record, revision)) = self.apply(&key, deliver).await? else { return Ok(None) };
        if !effect.changed {
            let view = record.view(revision.0);
            let is_repeated = effect.reply == Reply::Repeated;
            return Ok(Some(if is_repeated { Delivered::Repeated(view) } else { Delivered::Used }));
        }
        self.answered(&key, &effect, &record).await;
        Ok(Some(Delivered::Taken(record.view(revision.0))))
    }

    /// Records that the client does not show the questions of a task. Does nothing if the client is the user's only
    /// channel.
    pub(crate) async fn leave_client(&self, owner: &Owner, id: &str) -> Result<()> {
        let Some(key) = Self::key(owner, id) else { return Ok(()) };
        self.apply(&key, Transition::LeaveClient).await.map(drop)
    }

    /// Adds answers to a task. Ignores answers to questions that are not open. Returns `None` if the task does not
    /// exist.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        owner: &Owner,
        id: &str,
        answers: &BTreeMap<String, Value>,
    ) -> Result<Option<TaskView>> {
        self.begin();
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        // This code sets the alarm before the store receives the answer. If this process dies before the process queues
        // the next leg, another replica finds the run through the alarm.
        self.set_alarm_to_now(&key).await;
        let answer = Transition::Answer(answers);
        let Some((effect, record, revision)) = self.apply(&key, answer).await? else { return Ok(None) };
        self.answered(&key, &effect, &record).await;
        Ok(Some(record.view(revision.0)))
    }

    /// Queues the next leg of a run that has received answers, and announces the change.
    async fn answered(&self, key: &str, effect: &Effect, record: &TaskRecord) {
        self.unlist_answered(record).await;
        match effect.job {
            Some(due) => {
                self.push(key, record, due, due.at).await;
            }
            None => {
                self.heal(key, record).await;
            }
        }
        self.announce(record, false).await;
    }

    /// Cancels a task. The status of the task changes immediately. If the tool is running, the tool receives the
    /// cancellation at the next question or timer, and can then clean up.
    pub(crate) async fn cancel(self: &Arc<Self>, owner: &Owner, id: &str) -> Result<Option<Cancelled>> {
        self.begin();
        let Some(key) = Self::key(owner, id) else { return Ok(None) };
        self.cancel_key(&key).await
    }

    pub(super) async fn cancel_key(self: &Arc<Self>, key: &str) -> Result<Option<Cancelled>> {
        self.set_alarm_to_now(key).await;
        let Some((effect, record, revision)) = self.apply(key, Transition::Cancel).await? else {
            return Ok(None);
        };
        let view = record.view(revision.0);
        if !effect.changed {
            return Ok(Some(Cancelled::Before(view)));
        }
        self.unlist_waiting(&record).await;
        if let Some(due) = effect.job {
            self.push(key, &record, due, due.at).await;
        }
        self.announce(&record, true).await;
        self.runtime.recorder.run_ended(&record.tool, Outcome::Cancelled);
        Ok(Some(Cancelled::Now(view)))
    }
}
