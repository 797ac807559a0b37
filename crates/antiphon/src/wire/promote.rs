//! Calls of tools that may become tasks on their way.

use std::sync::Arc;

use antiphon_replay::Suspension;
use rmcp::{
    ErrorData,
    model::{CallToolRequestParams, CallToolResponse},
};
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};

use super::{
    Link,
    invoke::{Call, drifted, input_required, machine, open},
    letting_in::{enter, not_too_much},
    reply::{put_trace, to_error_data, to_result, tool_error},
    tasks,
};
use crate::{
    ctx::Ctx,
    driver::{self, Leg, Pace},
    error::{Error, ErrorKind, Result},
    run::Run,
    seal::Binding,
    server::Shared,
    task::{Promoting, Promotion, Tasks},
    telemetry::{How, Outcome, Tale},
    tool::{Tool, ToolOutput},
};

/// Calls `tool` for a client that knows tasks. It is answered with what the tool returns or asks, or with a task if
/// that takes too long.
pub(super) async fn call(
    shared: &Arc<Shared>,
    tasks: &Arc<Tasks>,
    tool: Arc<Tool>,
    request: CallToolRequestParams,
    link: Link,
) -> Result<CallToolResponse, ErrorData> {
    let (reply, mut promoted) = oneshot::channel();
    let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
    if let Err(error) = tool.arguments.check(&arguments, shared.limits.argument_depth) {
        return Ok(tool_error(&error, link.revision())?.into());
    }
    let new = tasks::new(shared, &tool, arguments.clone(), &link, None);
    let promotion = Promotion { tasks: Arc::clone(tasks), shared: Arc::clone(shared), new, reply };
    let leg = Leaves { shared: Arc::clone(shared), tasks: Arc::clone(tasks), tool, request, arguments, link };
    // It outlives this request if it becomes a task, and ends with it if not.
    let mut running = Running(Some(tokio::spawn(leg.run(promotion))));
    let ended = tokio::select! {
        biased;
        Ok(view) = &mut promoted => {
            running.0 = None;
            return Ok(CallToolResponse::Task(tasks::created(&view)));
        }
        ended = running.ended() => ended,
    };
    ended.unwrap_or_else(|| {
        Err(ErrorData::internal_error("the tool failed unexpectedly; its log says more", None))
    })
}

type Replied = Result<CallToolResponse, ErrorData>;

/// A leg that ends with whoever waits for it.
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

/// A leg, and all it needs to outlive its request.
struct Leaves {
    shared: Arc<Shared>,
    tasks: Arc<Tasks>,
    tool: Arc<Tool>,
    request: CallToolRequestParams,
    arguments: Value,
    link: Link,
}

impl Leaves {
    async fn run(self, promotion: Promotion) -> Replied {
        let Self { shared, tasks, tool, request, arguments, link } = self;
        let revision = link.revision();
        let principal = shared.principal(link.extensions());
        let call = Call {
            method: "tools/call",
            name: &request.name,
            arguments: &arguments,
            responses: request.input_responses.clone(),
            state: request.request_state.as_deref(),
            timeout: None,
            quota: tool.quota,
            keep_alive: None,
            declared: None,
        };
        let place = enter(&shared, &call, principal.as_deref(), &link).await?;
        let caller = principal.clone().unwrap_or_default();
        let binding = Binding::new(shared.audience(), &caller, "tools/call", &request.name, &arguments);
        let journal = match request.request_state.as_deref() {
            Some(state) => Some(open(&shared, state, &binding).await?),
            None => None,
        };
        let tale = Tale::of_request(&shared.recorder, &link, ("tools/call", tool.name()), journal.as_ref());
        let machine = machine(journal, request.input_responses);
        let promoting = Promoting::new(tasks.config.promote_after);
        let mut run =
            Run::new(link, Arc::clone(&shared), machine).with_promotion(Some((promotion, promoting)));
        run.principal = principal;
        run.place = Some(place);
        run.declared.clone_from(&tool.elicits);
        run.tale = tale;
        let run = Arc::new(run);
        let ctx = Ctx::new(Arc::clone(&run));
        let limit = tool.timeout.or(shared.limits.tool_timeout);
        let pace = Pace { grace: shared.limits.grace, limit, task_limit: tool.timeout, keep_alive: None };
        let mut future = (tool.call)(&ctx, tool.arguments.taken(&arguments));
        // One from beginning to end: dropped in the middle of a write, it would have the leg taken for another's.
        let mut beating = std::pin::pin!(beat(&run));
        let leg = tokio::select! {
            biased;
            leg = run.tale.within(driver::drive(&run, future.as_mut(), pace)) => leg,
            // Once it is a task, whoever cancels it says so of the task.
            () = cancelled(&run) => Leg::Done(Err(Error::new(ErrorKind::Cancelled))),
            () = &mut beating => return Err(to_error_data(&Error::new(ErrorKind::Cancelled))),
        };
        if let Some(keeper) = run.keeper() {
            let rest = async {
                if tasks.conclude(keeper, &run, &tool, leg).await? {
                    tasks.work(&shared, keeper).await?;
                }
                Ok(())
            };
            let ended = tokio::select! {
                ended = rest => ended,
                () = &mut beating => Err(crate::task::Stop::Lost),
            };
            if let Err(stop) = ended {
                tracing::warn!(?stop, "a run that became a task goes on elsewhere");
            }
            // Whoever called has been answered.
            return Err(to_error_data(&Error::new(ErrorKind::Cancelled)));
        }
        let result = match leg {
            Leg::Stopped(_) => Err(Error::new(ErrorKind::Cancelled)),
            Leg::Done(result) => finished(&run, &tool, result),
            Leg::Suspended => match run.suspend().map_err(drifted) {
                Ok(suspension) => return asked(&run, suspension, &binding).await,
                Err(error) => Err(error),
            },
        };
        run.ended(How::Over(Outcome::of(&result, |output| output.is_error)));
        let traced = run.trace_of_end(result.is_ok());
        let mut result = to_result(result, revision)?;
        put_trace(&mut result.meta, traced);
        Ok(result.into())
    }
}

fn finished(run: &Run, tool: &Tool, result: Result<ToolOutput>) -> Result<ToolOutput> {
    let output = result?;
    run.check_complete().map_err(drifted)?;
    not_too_much(run, &output)?;
    tool.check_output(&output)?;
    Ok(output)
}

/// Asks in a round, or as a task if too few rounds are left.
async fn asked(run: &Run, suspension: Suspension, binding: &Binding) -> Replied {
    let shared = &run.shared;
    let left = shared.limits.rounds.saturating_sub(suspension.journal.round);
    let promotion =
        run.take_promotion().filter(|promotion| left < promotion.tasks.config.promote_rounds_left);
    let Some(promotion) = promotion else {
        return match input_required(run, suspension, binding).await {
            Ok(result) => Ok(result.into()),
            Err(error) => {
                run.ended(How::Over(Outcome::Failed(error.kind().name())));
                Ok(tool_error(&error, run.link.revision())?.into())
            }
        };
    };
    let Promotion { tasks, shared, mut new, .. } = promotion;
    let asks = suspension.asks.iter();
    new.asks = asks.map(|(key, request)| (key.to_string(), run.link.adapt(request).into_owned())).collect();
    new.journal = Some(suspension.journal.clone());
    match tasks.create(&shared, new).await {
        Ok(view) => {
            run.ended(How::Waits);
            Ok(CallToolResponse::Task(tasks::created(&view)))
        }
        Err(error) => {
            // The rounds that are left may be enough.
            tracing::warn!(%error, "a run could not become a task");
            if let Ok(result) = input_required(run, suspension, binding).await {
                return Ok(result.into());
            }
            run.ended(How::Over(Outcome::Failed(error.kind().name())));
            Err(to_error_data(&error))
        }
    }
}

async fn cancelled(run: &Run) {
    run.link.cancelled().cancelled().await;
    if run.keeper().is_some() {
        std::future::pending::<()>().await;
    }
}

/// Shows, once the run is a task, that it is worked on here. The request it came with is over then.
async fn beat(run: &Run) {
    let keeper = run.kept().await;
    run.leave();
    keeper.beat(None).await;
}
