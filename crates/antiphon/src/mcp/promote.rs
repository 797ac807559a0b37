//! Calls of tools whose runs can become tasks while the call is in progress.

use std::{sync::Arc, time::Duration};

use antiphon_replay::Suspension;
use rmcp::{
    ErrorData,
    model::{CallToolRequestParams, CallToolResponse},
};
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};

use super::{
    Client,
    invoke::{Call, admit, begin, input_required, wait_elsewhere, waits_elsewhere},
    join::call_name,
    tasks_2026,
};
use crate::{
    error::{Capability, Error, ErrorKind, Result},
    mcp::Service,
    protocol::reply::{put_trace, to_error_data, to_result, tool_error},
    run::{AskOptions, Leg, Pace, Promote, Run, Stop, run_leg},
    seal::Binding,
    task::{NewTask, Promotion, TaskView, Tasks},
    telemetry::{How, Outcome},
    tool::{Tool, ToolOutput},
};

/// Calls `tool`, and returns the result or the questions of the tool. If the call takes too long, a client that
/// supports tasks receives a task. A client without task support receives a waiting result, which tells the model how
/// to read the actual result later. `arguments` are the arguments that the caller of this function has removed from
/// `request`.
pub(super) async fn call(
    service: &Arc<Service>,
    tasks: &Arc<Tasks>,
    tool: Arc<Tool>,
    request: CallToolRequestParams,
    arguments: Value,
    client: Client,
    (ask, keep_alive): (AskOptions, Option<Duration>),
) -> Result<CallToolResponse, ErrorData> {
    let (reply, mut promoted) = oneshot::channel();
    let mut new = tasks_2026::new(service, &tool, arguments.clone(), &client, None);
    let after = if client.knows_tasks() {
        tasks.config.promote_after
    } else {
        new = new.followed_by_nobody(ask);
        // The server can use the client's model only while the request is open. If the run can need the client's model
        // later, the request stays open and the run does not become a task.
        let needed = client.supports(Capability::Sampling) && !service.runtime.models.has_provider();
        ask.hand_over_after.filter(|_| !needed)
    };
    let leg = DetachableCall {
        ask,
        keep_alive,
        after,
        service: Arc::clone(service),
        tasks: Arc::clone(tasks),
        tool,
        request,
        arguments,
        client,
    };
    // If the run becomes a task, this future continues after the request. If the run does not become a task, this
    // future ends with the request.
    let mut running = Running(Some(tokio::spawn(leg.run(new, reply))));
    let ended = tokio::select! {
        biased;
        Ok(view) = &mut promoted => {
            running.0 = None;
            return Ok(task_response(service, &view));
        }
        ended = running.ended() => ended,
    };
    ended.unwrap_or_else(|| {
        Err(ErrorData::internal_error(
            "the tool failed unexpectedly; the standard error output of the server contains the reason",
            None,
        ))
    })
}

type Replied = Result<CallToolResponse, ErrorData>;

/// The Tokio task that runs a leg. If the request is dropped, the Tokio task is aborted.
struct Running(Option<JoinHandle<Replied>>);

impl Running {
    async fn ended(&mut self) -> Option<Replied> {
        self.0.as_mut()?.await.ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(leg) = &self.0 {
            leg.abort();
        }
    }
}

/// The data with which a leg runs. The leg owns this data, because the leg continues after the request if the run
/// becomes a task.
struct DetachableCall {
    service: Arc<Service>,
    tasks: Arc<Tasks>,
    tool: Arc<Tool>,
    request: CallToolRequestParams,
    arguments: Value,
    client: Client,
    ask: AskOptions,
    keep_alive: Option<Duration>,
    /// How long the call can take before its run becomes a task.
    after: Option<Duration>,
}

/// Returns the response to a call whose run continues as a task. A client that supports tasks receives the task. A
/// client without task support receives a waiting result.
pub(super) fn task_response(service: &Service, view: &TaskView) -> CallToolResponse {
    match &service.asking {
        Some(asking) if view.is_read_with_a_tool => asking.waiting_result(view).into(),
        _ => CallToolResponse::Task(tasks_2026::created(view)),
    }
}

impl DetachableCall {
    async fn run(self, mut new: NewTask, reply: oneshot::Sender<TaskView>) -> Replied {
        let Self { service, tasks, tool, request, arguments, client, ask, keep_alive, after } = self;
        let revision = client.revision();
        let call = Call {
            method: "tools/call",
            name: &request.name,
            arguments: &arguments,
            responses: request.input_responses,
            state: request.request_state.as_deref(),
            timeout: None,
            quota: tool.quota,
            keep_alive,
            declared: tool.elicits.clone(),
            ask,
        };
        let admitted = admit(&service, &call, &client).await?;
        new.call = call_name(&service, &client, ask, &new);
        let is_first = call.state.is_none() && call.responses.is_none();
        if is_first && let Some(view) = tasks.joined(&new).await {
            return Ok(task_response(&service, &view));
        }
        let invalid = tool.arguments.check(&arguments, service.runtime.limits.argument_depth).err();
        let (run, binding) = match begin(&service, call, client, admitted, invalid).await? {
            Ok(begun) => begun,
            Err(error) => return Ok(tool_error(&error, revision)?.into()),
        };
        // The time until the run becomes a task starts here, because the wait for admission does not count.
        let name = new.call.clone();
        let promotion = Promotion::new(&tasks, new, after, reply);
        let run = Arc::new(run.with_promotion(Arc::clone(&promotion) as Arc<dyn Promote>));
        let ctx = tool.call.ctx(&run);
        let limit = tool.timeout.or(service.runtime.limits.tool_timeout);
        let pace =
            Pace { grace: service.runtime.limits.suspend_grace, limit, task_limit: tool.timeout, keep_alive };
        let mut future = tool.call.call(&ctx, tool.arguments.taken(&arguments));
        // The whole call uses only one heartbeat future. If the heartbeat future were dropped during a write, the next
        // write would conflict, and the server would treat the leg as lost.
        let mut beating = std::pin::pin!(beat(&promotion));
        let check = |output: &ToolOutput| tool.check_output(output);
        let leg = tokio::select! {
            biased;
            leg = run_leg(&run, future.as_mut(), pace, cancelled(&run, &promotion), check) => leg,
            () = &mut beating => return Err(to_error_data(&Error::new(ErrorKind::Cancelled))),
        };
        if let Some(writer) = promotion.writer() {
            let rest = async {
                if tasks.conclude(writer, &run, &tool, leg).await? {
                    tasks.work(writer).await?;
                }
                Ok(())
            };
            let ended = tokio::select! {
                ended = rest => ended,
                () = &mut beating => Err(Stop::Lost),
            };
            if let Err(stop) = ended {
                tracing::warn!(
                    ?stop,
                    "a run that became a task stopped on this replica; a worker continues it"
                );
            }
            // The client has already received a response to this call, so the server does not send this error.
            return Err(to_error_data(&Error::new(ErrorKind::Cancelled)));
        }
        let result = match leg {
            Leg::Done(result) => result,
            Leg::Stopped(_) => Err(Error::new(ErrorKind::Cancelled)),
            Leg::Waits { suspension, due } if waits_elsewhere(&run, &suspension) => {
                let about = (tool.name(), &arguments, name);
                match wait_elsewhere(&service, &run, about, suspension, due).await {
                    Ok(view) => {
                        run.leave();
                        return Ok(task_response(&service, &view));
                    }
                    Err(error) => Err(error),
                }
            }
            Leg::Waits { suspension, .. } => {
                let replied = asked(&run, &tasks, &promotion, suspension, &binding).await;
                run.leave();
                return replied;
            }
        };
        run.leave();
        run.ended(How::Over(Outcome::of(&result)));
        let traced = run.trace_of_end(result.is_ok());
        let mut result = to_result(result, revision)?;
        put_trace(&mut result.meta, traced);
        Ok(result.into())
    }
}

/// Returns the questions of the run to the client. If too few rounds are left, the run becomes a task instead.
async fn asked(
    run: &Run,
    tasks: &Arc<Tasks>,
    promotion: &Promotion,
    suspension: Suspension,
    binding: &Binding,
) -> Replied {
    let left = run.runtime.limits.max_rounds.saturating_sub(suspension.journal.round);
    let answerable = !suspension.asks.values().any(|request| run.is_asked_elsewhere(request));
    let few = left < tasks.config.promote_rounds_left && run.client.knows_tasks() && answerable;
    let promoted = if few { promotion.take() } else { None };
    let Some(mut new) = promoted else {
        return match input_required(run, suspension, binding).await {
            Ok(result) => Ok(result.into()),
            Err(error) => {
                run.ended(How::Over(Outcome::Failed(error.kind().name())));
                Ok(tool_error(&error, run.client.revision())?.into())
            }
        };
    };
    let asks = suspension.asks.iter();
    new.asks = asks.map(|(key, request)| (key.to_string(), run.client.adapt(request).into_owned())).collect();
    new.journal = Some(suspension.journal.clone());
    match tasks.create(new).await {
        Ok(view) => {
            run.ended(How::Waits);
            Ok(CallToolResponse::Task(tasks_2026::created(&view)))
        }
        Err(error) => {
            // The number of rounds that are left can still be sufficient.
            tracing::warn!(%error, "a run could not become a task; it continues in rounds if enough rounds are left");
            if let Ok(result) = input_required(run, suspension, binding).await {
                return Ok(result.into());
            }
            run.ended(How::Over(Outcome::Failed(error.kind().name())));
            Err(to_error_data(&error))
        }
    }
}

/// Completes when the caller cancels the call. If the run has become a task, this function never completes, because the
/// caller can then cancel only the task.
async fn cancelled(run: &Run, promotion: &Promotion) {
    run.client.cancelled().cancelled().await;
    // The request also ends when the client receives the task. At this moment, `run` does not always contain the
    // information that the run is a task.
    if promotion.is_told() {
        std::future::pending::<()>().await;
    }
}

/// Sends heartbeats for a run that has become a task. The original request has ended at this time.
async fn beat(promotion: &Promotion) {
    promotion.kept().await.beat().await;
}
