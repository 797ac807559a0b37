//! The reducer: every change of a run as a pure function.
//!
//! [`TaskRecord::apply`] changes a record and returns an [`Effect`], which says what the engine must do after it has
//! stored the record. The reducer performs no I/O and reads no clock, so its tests can apply changes in any order.

use std::collections::{BTreeMap, BTreeSet};

use antiphon_replay::{Failure, Journal, Key, Outcome};
use serde_json::Value;

use super::{
    Ended, TaskStatus,
    record::{Due, TaskRecord},
};
use crate::{
    base::Defect,
    run::{Channel, Claimed, fits},
};

/// A change of a run. All times are milliseconds since 1970, and all durations are milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Transition<'a> {
    /// The client answers questions, by wire key. Answers to questions that are not open are ignored.
    Answer(&'a BTreeMap<String, Value>),
    /// Answers arrive through a channel. Either all of these answers are accepted, or none.
    Deliver {
        answers: &'a BTreeMap<String, Value>,
        /// The digests of the answers, by wire key.
        digests: &'a BTreeMap<String, String>,
        channel: Channel,
    },
    /// The client does not show the questions of the run. The run then uses only its other channels.
    LeaveClient,
    /// The caller or an operator cancels the run. The status changes immediately, and the tool can then clean up.
    Cancel,
    /// The run has waited for its user for too long, and ends.
    Expire { max_wait: Option<u64> },
    /// A run without a job, a hold and open questions gets a new job.
    Revive,
    /// An operator retries a run that failed, or that the server gave up.
    Retry,
    /// A leg starts.
    Start { replica: &'a str, attempt: u32 },
    /// The leg marks the run as held, so that no other leg starts.
    Hold { until: u64 },
    /// The leg sends a heartbeat, or stores a progress message.
    Touch { progress: bool },
    /// The leg stores the results of questions and steps.
    Save { journal: &'a Journal },
    /// The leg claims an at-most-once step.
    Claim { idempotency_key: &'a str, step: &'a str },
    /// A claimed step failed.
    ClaimFailed { idempotency_key: &'a str, failure: &'a Failure },
    /// The tool waits for answers, for the time `due`, or for both.
    Suspend {
        journal: &'a Journal,
        asks: &'a BTreeMap<Key, Value>,
        due: Option<u64>,
        /// The questions whose answers the tool received at the start of the leg.
        given: &'a BTreeSet<String>,
    },
    /// The leg failed. Another leg starts after `wait`.
    Fail { journal: &'a Journal, wait: u64, why: &'a str },
    /// The replica does not have the tool. Another leg starts after `wait`.
    WaitForTool { wait: u64, why: &'a str },
    /// The leg ends the run.
    End {
        /// The complete journal, if the tool returned.
        journal: Option<&'a Journal>,
        ended: &'a Ended,
        message: Option<&'a str>,
        /// The kind of the event in the timeline.
        event: &'a str,
        /// Whether the server gives up the run. An operator must then act.
        dead: bool,
    },
}

/// What the engine must do after a [`Transition`].
#[derive(Debug, Default)]
pub(super) struct Effect {
    /// Whether the record changed and must be written.
    pub(super) changed: bool,
    /// The job that the engine must queue.
    pub(super) job: Option<Due>,
    /// The reply to the author of the transition.
    pub(super) reply: Reply,
}

/// The reply to the author of a [`Transition`].
#[derive(Debug, Default, PartialEq)]
pub(super) enum Reply {
    /// The transition was applied, or it had no effect.
    #[default]
    None,
    /// Reply to a transition that delivers answers: the record already contains the same answers.
    Repeated,
    /// Reply to [`Transition::Suspend`]: an answer to one of the questions is already stored, or the run was cancelled
    /// and cleans up. So the next leg starts immediately.
    Continue,
    /// Reply to [`Transition::Claim`]: an earlier leg has already claimed the step.
    Claimed(Claimed),
}

/// The maximum number of answer digests in a record. With these digests, the server recognizes an answer that a form
/// sends twice. Repeated answers arrive soon after the first answer, so old digests can be removed.
const TAKEN: usize = 64;

impl Effect {
    fn unchanged() -> Self {
        Self::default()
    }

    fn changed(job: Option<Due>) -> Self {
        Self { changed: true, job, reply: Reply::None }
    }
}

impl TaskRecord {
    /// Applies a transition at the time `now`.
    pub(super) fn apply(&mut self, transition: Transition<'_>, now: u64) -> Effect {
        match transition {
            Transition::Answer(answers) => self.answer(answers, now),
            Transition::Deliver { answers, digests, channel } => self.deliver(answers, digests, channel, now),
            Transition::LeaveClient => self.leave_client(),
            Transition::Cancel => self.cancel(now),
            Transition::Expire { max_wait } => self.expire(max_wait, now),
            Transition::Revive => self.revive(now),
            Transition::Retry => self.retry(now),
            Transition::Start { replica, attempt } => {
                self.legs += 1;
                self.note("leg", format!("{} at {replica}, attempt {attempt}", self.legs), now);
                Effect::changed(None)
            }
            Transition::Hold { until } => {
                self.held = Some(until);
                Effect::changed(None)
            }
            Transition::Touch { progress } => {
                if progress {
                    self.set_status(self.status, now);
                }
                Effect::changed(None)
            }
            Transition::Save { journal } => self.save(journal),
            Transition::Claim { idempotency_key, step } => self.claim(idempotency_key, step),
            Transition::ClaimFailed { idempotency_key, failure } => {
                if let Some(claimed) = self.claims.get_mut(idempotency_key) {
                    claimed.failed = Some(failure.clone());
                }
                Effect::changed(None)
            }
            Transition::Suspend { journal, asks, due, given } => self.suspend(journal, asks, due, given, now),
            Transition::Fail { journal, wait, why } => self.fail(journal, wait, why, now),
            Transition::WaitForTool { wait, why } => self.wait_for_tool(wait, why, now),
            Transition::End { journal, ended, message, event, dead } => {
                if let Some(journal) = journal {
                    self.journal = journal.clone();
                }
                self.dead |= dead;
                self.end(ended, message, event, now)
            }
        }
    }

    /// Applies a transition of the leg that holds the run. `message` is the latest progress message. Each such
    /// transition extends the hold until `hold_until`.
    pub(super) fn apply_by_leg(
        &mut self,
        transition: Transition<'_>,
        message: Option<String>,
        hold_until: u64,
        now: u64,
    ) -> Effect {
        if message.is_some() {
            self.message = message;
        }
        let effect = self.apply(transition, now);
        self.written += 1;
        self.held = self.held.map(|_| hold_until);
        effect
    }

    /// Returns whether a run has waited for its user for longer than `max_wait`. A run with a job does not wait for its
    /// user.
    pub(super) fn has_waited_too_long(&self, max_wait: Option<u64>, now: u64) -> bool {
        let Some(limit) = max_wait else { return false };
        self.job.is_none() && !self.asks.is_empty() && self.waits_since().saturating_add(limit) < now
    }

    /// Returns whether nothing can continue this run.
    pub(super) fn is_stuck(&self) -> bool {
        self.job.is_none() && self.held.is_none() && self.asks.is_empty() && !self.is_over()
    }

    /// Returns whether the run has ended and its tool has cleaned up.
    pub(super) fn is_over(&self) -> bool {
        self.status.is_final() && !self.cleaning
    }

    /// Returns the job that continues a run after a change from outside. If a leg is running or due, no new job is
    /// needed, because the leg looks for answers and for a cancellation before it is suspended.
    fn wake(&mut self, now: u64) -> Option<Due> {
        (!self.is_awake(now) && !Defect::AnswerWithoutJob.is_planted()).then(|| self.next_job(now))
    }

    fn answer(&mut self, answers: &BTreeMap<String, Value>, now: u64) -> Effect {
        if !self.take(answers, Channel::Client, now) {
            return Effect::unchanged();
        }
        Effect::changed(self.wake(now))
    }

    fn deliver(
        &mut self,
        answers: &BTreeMap<String, Value>,
        digests: &BTreeMap<String, String>,
        channel: Channel,
        now: u64,
    ) -> Effect {
        let is_open = |wire: &String| {
            self.asks.get(wire).is_some_and(|asked| asked.until.is_none_or(|until| until > now))
        };
        if !answers.keys().all(is_open) || answers.is_empty() || self.status.is_final() {
            let is_same = |(wire, digest): (&String, &String)| self.taken.get(wire) == Some(digest);
            let is_repeated = !answers.is_empty() && digests.iter().all(is_same);
            let reply = if is_repeated { Reply::Repeated } else { Reply::None };
            return Effect { reply, ..Effect::unchanged() };
        }
        self.take(answers, channel, now);
        self.taken.extend(digests.iter().map(|(wire, digest)| (wire.clone(), digest.clone())));
        while self.taken.len() > TAKEN {
            self.taken.pop_first();
        }
        Effect::changed(self.wake(now))
    }

    /// Stores the answers to open questions. Returns whether the record changed.
    fn take(&mut self, answers: &BTreeMap<String, Value>, channel: Channel, now: u64) -> bool {
        if self.status.is_final() {
            return false;
        }
        let mut taken = Vec::new();
        let mut misfits = false;
        for (wire, answer) in answers {
            let Some(asked) = self.asks.remove(wire) else { continue };
            if fits(&asked.request, answer) {
                let mut answer = answer.clone();
                channel.mark(&mut answer);
                self.answers.insert(asked.key, answer);
                taken.push(wire.clone());
            } else {
                // The wire key of this question has been used and cannot be used again. The question stays open under
                // a new wire key.
                self.ask(&asked.key, asked.request, now);
                misfits = true;
            }
        }
        if taken.is_empty() {
            if misfits {
                self.set_status(TaskStatus::InputRequired, now);
            }
            return misfits;
        }
        let mut detail = taken.join(", ");
        if channel != Channel::Client {
            detail = format!("{detail} ({})", channel.name());
        }
        self.note("answered", detail, now);
        let is_answered = self.asks.is_empty();
        self.set_status(if is_answered { TaskStatus::Working } else { TaskStatus::InputRequired }, now);
        true
    }

    fn leave_client(&mut self) -> Effect {
        let others = self.channels.without_client();
        if !self.channels.client || !others.any() {
            return Effect::unchanged();
        }
        self.channels = others;
        Effect::changed(None)
    }

    fn cancel(&mut self, now: u64) -> Effect {
        if self.status.is_final() {
            return Effect::unchanged();
        }
        self.set_status(TaskStatus::Cancelled, now);
        self.message = Some("the task was cancelled".into());
        self.ended = Some(Ended::Cancelled);
        self.asks.clear();
        self.answers.clear();
        self.cleaning = true;
        self.note("cancelled", None, now);
        Effect::changed(self.wake(now))
    }

    fn expire(&mut self, max_wait: Option<u64>, now: u64) -> Effect {
        if !self.has_waited_too_long(max_wait, now) || self.is_over() {
            return Effect::unchanged();
        }
        self.job = None;
        self.held = None;
        self.cleaning = false;
        self.asks.clear();
        self.answers.clear();
        if !self.status.is_final() {
            let message = "the task was ended: no answer arrived within the maximum waiting time (`TaskConfig::with_max_wait`)";
            self.ended = Some(Ended::Error { code: -32603, message: message.into(), data: None });
            self.message = Some(message.into());
            self.set_status(TaskStatus::Failed, now);
        }
        self.note("expired", None, now);
        Effect::changed(None)
    }

    fn revive(&mut self, now: u64) -> Effect {
        if !self.is_stuck() {
            return Effect::unchanged();
        }
        self.note("repaired", None, now);
        Effect::changed(Some(self.next_job(now)))
    }

    fn retry(&mut self, now: u64) -> Effect {
        if matches!(self.status, TaskStatus::Completed | TaskStatus::Cancelled) {
            return Effect::unchanged();
        }
        if !self.status.is_final() && (self.is_awake(now) || !self.asks.is_empty()) {
            // A leg is running, or the run waits for its user. If the job of the run was lost, the engine queues this
            // job again.
            return Effect { job: self.job, ..Effect::unchanged() };
        }
        let journal = std::mem::replace(&mut self.journal, Journal::new(""));
        self.journal = journal.without_last_failures();
        self.ended = None;
        self.dead = false;
        self.failures = 0;
        self.toolless = None;
        self.message = None;
        self.set_status(TaskStatus::Working, now);
        self.note("revived", None, now);
        Effect::changed(Some(self.next_job(now)))
    }

    fn save(&mut self, journal: &Journal) -> Effect {
        self.answers.retain(|key, _| journal.asked.contains_key(&Key::from(key.as_str())));
        if !self.claims.is_empty() {
            // If a step has returned, this write stores its result in the journal, so its claim can be removed. A
            // failed step can be retried, so its claim stays.
            let has_returned = |step: &str| {
                let mut entries = journal.entries.iter();
                entries.any(|entry| entry.key.as_str() == step && matches!(entry.outcome, Outcome::Done(_)))
            };
            self.claims.retain(|_, claimed| !has_returned(&claimed.step));
        }
        self.journal = journal.clone();
        Effect::changed(None)
    }

    fn claim(&mut self, idempotency_key: &str, step: &str) -> Effect {
        let mut effect = Effect::changed(None);
        match self.claims.get(idempotency_key) {
            Some(claimed) => effect.reply = Reply::Claimed(claimed.clone()),
            None if Defect::ClaimsNotStored.is_planted() => {}
            None => {
                let claimed = Claimed { step: step.to_owned(), failed: None };
                self.claims.insert(idempotency_key.to_owned(), claimed);
            }
        }
        effect
    }

    fn suspend(
        &mut self,
        journal: &Journal,
        asks: &BTreeMap<Key, Value>,
        due: Option<u64>,
        given: &BTreeSet<String>,
        now: u64,
    ) -> Effect {
        // In a loop, a new question can have the same key, and the text of a question can change. So an answer is used
        // only once, and only for the question that was open when the answer arrived.
        let out = std::mem::replace(&mut self.journal, journal.clone()).asked;
        self.answers.retain(|key, _| {
            let asked = Key::from(key.as_str());
            !given.contains(key) && journal.asked.get(&asked).is_some_and(|now| out.get(&asked) == Some(now))
        });
        self.failures = 0;
        self.toolless = None;
        if self.status.is_final() {
            if self.cleaning {
                return Effect { reply: Reply::Continue, ..Effect::changed(None) };
            }
            self.held = None;
            self.job = None;
            return Effect::changed(None);
        }
        let is_answered = asks.keys().any(|key| self.answers.contains_key(key.as_str()));
        // A loop can ask the same question again after the question has expired. The new question has its own expiry
        // time.
        self.asks.retain(|_, asked| asked.until.is_none_or(|until| until > now));
        self.put(asks, now);
        if is_answered {
            // The leg continues in this process, so the run stays held. A job that becomes due must not start another
            // leg.
            return Effect { reply: Reply::Continue, ..Effect::changed(None) };
        }
        self.held = None;
        if self.asks.is_empty() {
            self.set_status(TaskStatus::Working, now);
        } else {
            let names: Vec<_> = self.asks.keys().cloned().collect();
            self.note("asked", names.join(", "), now);
            self.set_status(TaskStatus::InputRequired, now);
        }
        self.job = None;
        let due = [due, self.questions_end()].into_iter().flatten().min();
        let job = due.map(|due| {
            self.note("waits", format!("{} ms", due.saturating_sub(now)), now);
            self.next_job(due)
        });
        Effect::changed(job)
    }

    /// Opens the questions that the tool waits for. If a question is already open, its wire key stays the same.
    fn put(&mut self, asks: &BTreeMap<Key, Value>, now: u64) {
        let mut new = Vec::new();
        let mut kept = BTreeMap::new();
        for (key, request) in asks {
            if self.answers.contains_key(key.as_str()) {
                continue;
            }
            let is_same =
                |asked: &super::record::Asked| asked.key == key.as_str() && asked.request == *request;
            match self.asks.iter().find(|(_, asked)| is_same(asked)) {
                Some((wire, asked)) => drop(kept.insert(wire.clone(), asked.clone())),
                None => new.push((key.as_str(), request)),
            }
        }
        self.asks = kept;
        for (key, request) in new {
            self.ask(key, request.clone(), now);
        }
    }

    fn fail(&mut self, journal: &Journal, wait: u64, why: &str, now: u64) -> Effect {
        self.journal = journal.clone();
        self.held = None;
        self.failures += 1;
        self.note("retried", format!("in {wait} ms: {why}"), now);
        // If the run was cancelled in the meantime, it stays cancelled. The next leg cleans up.
        if !self.status.is_final() {
            self.message = Some(format!("the run failed and will be retried: {why}"));
            self.set_status(TaskStatus::Working, now);
        }
        Effect::changed(Some(self.next_job(now + wait)))
    }

    fn wait_for_tool(&mut self, wait: u64, why: &str, now: u64) -> Effect {
        if self.toolless.is_none() {
            self.toolless = Some(now);
            self.note("waits", why.to_owned(), now);
            self.message = Some(format!("the run waits for a worker: {why}"));
        }
        self.held = None;
        Effect::changed(Some(self.next_job(now + wait)))
    }

    fn end(&mut self, ended: &Ended, message: Option<&str>, event: &str, now: u64) -> Effect {
        self.job = None;
        self.held = None;
        self.cleaning = false;
        if self.status.is_final() && !Defect::CancelOverwritten.is_planted() {
            self.note("cleaned up", None, now);
            return Effect::changed(None);
        }
        self.asks.clear();
        self.answers.clear();
        self.ended = Some(ended.clone());
        self.message = message.map(ToOwned::to_owned);
        self.note(event, message.map(ToOwned::to_owned), now);
        self.set_status(
            match ended {
                Ended::Output(_) => TaskStatus::Completed,
                Ended::Error { .. } => TaskStatus::Failed,
                Ended::Cancelled => TaskStatus::Cancelled,
            },
            now,
        );
        Effect::changed(None)
    }
}

#[cfg(test)]
mod tests;
