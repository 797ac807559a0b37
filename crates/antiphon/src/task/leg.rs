//! Executes one leg of a task. A worker calls this module after it has leased the job of the leg.

use std::{sync::Arc, time::Duration};

use antiphon_replay::{Key, Machine};
use antiphon_store::Job;

use super::{
    Ended, Tasks,
    record::TaskRecord,
    reducer::Transition,
    store::{JobPayload, Unloaded},
    writer::TaskWriter,
};
use crate::{
    base::{Defect, jitter, now_millis},
    error::{Error, ErrorKind, Result},
    run::{Client, Leg, Pace, Persistence, Run, Stop, fits, run_leg},
    telemetry::{How, LegSpan, Outcome},
    tool::{Tool, ToolOutput},
};

/// The result of a job, which determines what the worker does with the job.
#[derive(Debug)]
pub(super) enum JobOutcome {
    /// The job is completed.
    Done,
    /// The worker must retry the job after this time, for example because the store could not write the progress.
    Later(Duration),
    /// This replica cannot read the record of the run. Another replica may be able to read the record.
    Unreadable,
    /// Another worker executes the run now.
    Lost,
}

/// How long a job waits for a retry after the store has failed.
const FAILED: Duration = Duration::from_secs(1);

/// How long a job waits the first time that a replica does not have the tool.
const MISSING: Duration = Duration::from_secs(2);
/// The longest time that a job waits for a replica that has the tool.
const MISSING_LONG: Duration = Duration::from_secs(300);

impl Tasks {
    /// Executes the function of a run until the function waits or the run ends.
    pub(super) async fn leg(self: &Arc<Self>, payload: &JobPayload, job: &Job) -> JobOutcome {
        let (attempt, lease) = (job.attempt, &job.lease);
        let key = payload.key.as_str();
        // This code extends the lease while the record is loaded. If the lease expired during the load, two legs could
        // run at the same time.
        let (mut record, revision) = match self.while_held(lease, self.try_load(key)).await {
            Some(Ok(Some(loaded))) => loaded,
            // An operator purged the run, or the run has ended and its record has expired.
            Some(Ok(None)) => return JobOutcome::Done,
            Some(Err(Unloaded::Failed(_))) => return JobOutcome::Later(FAILED),
            // The run still exists, and waits for a replica that can read the record of the run.
            Some(Err(Unloaded::Unreadable(reason))) => {
                if Defect::UnreadableAcknowledged.is_planted() {
                    return JobOutcome::Done;
                }
                self.unreadable(key, reason);
                return JobOutcome::Unreadable;
            }
            None => return JobOutcome::Lost,
        };
        self.readable();
        let Some(job) = record.job.filter(|job| job.number == payload.number) else {
            // A process can die after it has stored the number of the next job and before it has queued this job. So
            // this code queues the job again. If the job is already queued, the push has no effect.
            return match record.job {
                Some(due) if !self.push(key, &record, due, now_millis()).await => JobOutcome::Later(FAILED),
                _ => JobOutcome::Done,
            };
        };
        if record.is_over() {
            return JobOutcome::Done;
        }
        let now = now_millis();
        if let Some(until) = record.held.filter(|until| *until > now) {
            // The process in which the run became a task still executes the run. So this code queues a new job that
            // waits. A new job has no delivery attempts, so the wait does not use up the attempts of the first job.
            let due = super::record::Due { at: until + 100, ..job };
            let again = format!("{}~{until}", Self::job_id(&record.id, job.number));
            let pushed = self.push_as(&again, key, &record, due, now).await;
            return if pushed { JobOutcome::Done } else { JobOutcome::Later(FAILED) };
        }
        // A replica can queue a job again although another job already executes this leg. The duplicate job must not
        // start a second leg, so the leg marks the run as held. An overdue job can be a duplicate. A job that was
        // delivered before can also have a duplicate, because the earlier worker can still be alive.
        let holds = attempt > 1
            || record.held.is_some()
            || lease.id != Self::job_id(&record.id, job.number)
            || Self::is_overdue(job.at, now);
        // The first write of the leg also stores this transition.
        record.apply(Transition::Start { replica: &self.runtime.replica, attempt }, now);
        let id = record.id.clone();
        let writer = TaskWriter::new(self, key.to_owned(), record, revision, Some(lease.clone()), None);
        let work = Box::pin(async {
            if attempt > self.config.max_worker_deaths {
                self.give_up(&writer, attempt).await?;
                self.runtime.recorder.run_ended(&payload.tool, Outcome::Dead);
                return Ok(());
            }
            if holds {
                writer.hold().await?;
            }
            self.work(&writer).await
        });
        let worked = tokio::select! {
            biased;
            worked = work => worked,
            // The worker drops the leg here, because this worker can no longer store the results of the leg.
            () = writer.beat() => Err(Stop::Lost),
        };
        match worked {
            Ok(()) => JobOutcome::Done,
            Err(Stop::Lost) => {
                tracing::info!(
                    task = id,
                    "a worker stopped its work on a run: another worker has taken the run over"
                );
                JobOutcome::Lost
            }
            Err(Stop::Failed(error)) if error.is_terminal() => {
                let ended = Ended::Error { code: -32603, message: error.to_string(), data: None };
                match writer.end(&ended, Some(&error.to_string()), "ended", false).await {
                    Ok(()) => JobOutcome::Done,
                    Err(_) => JobOutcome::Later(FAILED),
                }
            }
            Err(Stop::Failed(error)) => {
                tracing::warn!(%error, task = id, "the progress of a run could not be stored; its job is retried");
                JobOutcome::Later(FAILED)
            }
        }
    }

    async fn give_up(&self, writer: &TaskWriter, attempt: u32) -> Result<(), Stop> {
        let times = attempt - 1;
        let message = format!(
            "{times} workers died during the task, so the server stopped it; an operator can retry it with `antiphon runs retry`"
        );
        tracing::error!(
            task = writer.id,
            times,
            "a run was stopped because several workers died during it; fix the cause, then use `antiphon runs retry`"
        );
        let ended = Ended::Error { code: -32603, message: message.clone(), data: None };
        writer.end(&ended, Some(&message), "died", true).await
    }

    /// Replays the tool's function up to the end of the journal, and then continues the function.
    pub(crate) async fn work(self: &Arc<Self>, writer: &Arc<TaskWriter>) -> Result<(), Stop> {
        loop {
            let record = writer.begin().await;
            let registry = self.catalog.registry();
            let Some(tool) = registry.tool(&record.tool) else {
                return self.missing(writer, &record).await;
            };
            let answers =
                record.answers.iter().map(|(key, answer)| (Key::from(key.as_str()), answer.clone()));
            let machine = Machine::new(record.journal.clone()).with_answers(answers).with_fits(fits);
            let client = Client::of_task(&record.id, &record.capabilities, record.revision());
            let mut run = Run::new(client, Arc::clone(&self.runtime), Some(machine));
            run.principal.clone_from(&record.principal);
            run.declared.clone_from(&tool.elicits);
            run.ask.channels = record.channels;
            run.ask.relay = record.is_read_with_a_tool && self.runtime.relays;
            let now = now_millis();
            let expired = record.asks.values().filter(|asked| asked.until.is_some_and(|until| until <= now));
            run.expired = expired.map(|asked| asked.key.clone()).collect();
            run.span = LegSpan::of_task(
                &self.runtime.recorder,
                &record.tool,
                &record.id,
                record.legs,
                &record.journal,
            );
            let run = Arc::new(run);
            if record.status.is_final() {
                writer.cancel();
            }
            run.persist(Arc::clone(writer) as Arc<dyn Persistence>);
            let ctx = tool.call.ctx(&run);
            let mut future = tool.call.call(&ctx, tool.arguments.taken(&record.arguments));
            let limit = tool.timeout;
            let pace =
                Pace { grace: self.runtime.limits.suspend_grace, limit, task_limit: limit, keep_alive: None };
            let check = |output: &ToolOutput| tool.check_output(output);
            let leg = run_leg(&run, future.as_mut(), pace, std::future::pending(), check).await;
            if !self.conclude(writer, &run, tool, leg).await? {
                return Ok(());
            }
        }
    }

    /// Stores the result of a leg. Returns `true` if the next leg can start immediately.
    pub(crate) async fn conclude(
        &self,
        writer: &Arc<TaskWriter>,
        run: &Run,
        tool: &Tool,
        leg: Leg<ToolOutput>,
    ) -> Result<bool, Stop> {
        let written = self.write_down(writer, run, tool, leg).await;
        // The telemetry counts only stored results. If another process has taken over the run, that process counts the
        // work of this leg.
        run.ended(written.as_ref().map_or(How::Lost, |(how, _)| *how));
        written.map(|(_, more)| more)
    }

    async fn write_down(
        &self,
        writer: &Arc<TaskWriter>,
        run: &Run,
        tool: &Tool,
        leg: Leg<ToolOutput>,
    ) -> Result<(How, bool), Stop> {
        let result = match leg {
            Leg::Stopped(stop) => return Err(stop),
            Leg::Done(result) => result,
            Leg::Waits { suspension, due } => {
                let more = writer
                    .suspend(&suspension, due, |request| run.client.adapt(request).into_owned())
                    .await?;
                return Ok((How::Waits, more));
            }
        };
        let record = writer.record().await;
        // If the run was cancelled, the metrics already contain the cancellation.
        let over = |outcome: Outcome| if writer.is_cancelled() { How::CleanedUp } else { How::Over(outcome) };
        if let Err(error) = &result {
            if writer.is_cancelled() {
                writer.end(&Ended::Cancelled, None, "cancelled", false).await?;
                return Ok((How::CleanedUp, false));
            }
            if let ErrorKind::Drift(drift) = error.kind() {
                let place = drift.place();
                tracing::error!(
                    task = record.id,
                    tool = record.tool,
                    place,
                    "drift: on replay, the tool's code does not match the journal of the run"
                );
                let message = error.to_string();
                let data =
                    serde_json::json!({"reason": "drift", "report": drift.to_string(), "hint": drift.hint()});
                let ended = Ended::Error { code: -32603, message: message.clone(), data: Some(data) };
                writer.end(&ended, Some(&message), "drifted", true).await?;
                return Ok((How::Over(Outcome::Drifted), false));
            }
            let policy = tool.retry.unwrap_or(self.config.retry);
            if is_retryable(error) && record.failures + 1 < policy.attempts {
                let journal = run.take_machine().into_journal().without_last_failures();
                // The jitter prevents runs that failed at the same time from being retried at the same time.
                let wait = jitter(policy.wait(record.failures + 1));
                writer.retry(&journal, wait, &error.to_string()).await?;
                return Ok((How::Again, false));
            }
        }
        let outcome = Outcome::of(&result);
        let message = result.as_ref().err().map(ToString::to_string);
        let ended = Ended::of(result, record.revision());
        // This code stores the complete journal, so that operators can see the whole run. With this journal, a later
        // retry does not ask the questions again.
        let journal = run.take_machine().into_journal();
        writer.finish(&journal, &ended, message.as_deref()).await?;
        Ok((over(outcome), false))
    }

    /// Schedules the leg for a replica that has the tool. Replicas can run different versions of the server and so have
    /// different tools.
    async fn missing(&self, writer: &TaskWriter, record: &TaskRecord) -> Result<(), Stop> {
        let (now, since) = (now_millis(), record.toolless);
        let missed = Duration::from_millis(since.map_or(0, |since| now.saturating_sub(since)));
        if missed < self.config.tool_wait {
            let why = format!("this replica has no tool `{}`", record.tool);
            return writer.wait_for_tool(missed.clamp(MISSING, MISSING_LONG), &why).await;
        }
        let message = format!("no replica of the server has the tool `{}` any more", record.tool);
        let ended = Ended::Error { code: -32603, message: message.clone(), data: None };
        writer.end(&ended, Some(&message), "died", true).await?;
        self.runtime.recorder.run_ended(&record.tool, Outcome::Dead);
        Ok(())
    }
}

/// Returns `true` if a retry of the task can succeed after this error.
fn is_retryable(error: &Error) -> bool {
    !error.is_terminal()
        && matches!(
            error.kind(),
            ErrorKind::Tool(_) | ErrorKind::Client { .. } | ErrorKind::Model(_) | ErrorKind::Timeout(_)
        )
}
