//! Tasks in the protocol revision 2026-07-28.

use std::{collections::BTreeMap, sync::Arc};

use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, CreateTaskResult,
        DetailedTask, GetTaskParams, GetTaskResult, InputRequests, JsonObject, Task, TaskPayload,
        TaskStatus as WireStatus, UpdateTaskParams,
    },
};
use serde_json::{Value, json};

use super::{Client, Revision, admit::count, join::call_name};
use crate::{
    base::timestamp,
    mcp::Service,
    protocol::reply::{put_trace, to_call_result, to_error_data, tool_error},
    run::{AskOptions, Channels},
    task::{Ended, NewTask, Owner, TaskStatus, TaskView, Tasks},
    telemetry,
    tool::Tool,
};

/// Handles calls of tools whose runs are always tasks.
pub(super) async fn call(
    service: &Arc<Service>,
    tasks: &Arc<Tasks>,
    tool: &Tool,
    request: CallToolRequestParams,
    client: &Client,
    ask: Option<AskOptions>,
) -> Result<CallToolResponse, ErrorData> {
    if ask.is_none() && client.revision() == Revision::Session {
        return Err(super::tasks_2025::required(&request.name));
    }
    if ask.is_none() && !client.knows_tasks() {
        let required = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(required));
    }
    let arguments = Value::Object(request.arguments.unwrap_or_default());
    count(service, tool, &arguments, client).await?;
    if let Err(error) = tool.arguments.check(&arguments, service.runtime.limits.argument_depth) {
        return Ok(tool_error(&error, client.revision())?.into());
    }
    let mut new = new(service, tool, arguments, client, None);
    let follows = ask.is_none();
    if let Some(ask) = ask {
        new = new.followed_by_nobody(ask);
        new.call = call_name(service, client, ask, &new);
        if let Some(view) = tasks.joined(&new).await {
            return Ok(super::promote::task_response(service, &view));
        }
        if let Err(error) = tasks.check_waiting(&new).await {
            return Ok(tool_error(&error, client.revision())?.into());
        }
    }
    let view = begin(service, tasks, new, client).await?;
    if let Some(asking) = service.asking.as_ref().filter(|_| !follows) {
        let owner = owner(service, client.extensions());
        let view = tokio::select! {
            view = asking.first_step(tasks, &owner, view.clone()) => view,
            () = client.cancelled().cancelled() => {
                // The client has cancelled the call, so it does not receive the ID of the task. The user could not
                // cancel the run later.
                if let Err(error) = tasks.cancel(&owner, &view.id).await {
                    tracing::warn!(%error, "the run of a cancelled call could not be cancelled");
                }
                view
            }
        };
        return Ok(asking.result(&view, client.revision()).into());
    }
    Ok(super::promote::task_response(service, &view))
}

/// Starts a run that is a task from the beginning.
pub(super) async fn begin(
    service: &Arc<Service>,
    tasks: &Arc<Tasks>,
    mut new: NewTask,
    client: &Client,
) -> Result<TaskView, ErrorData> {
    new.journal = telemetry::begun(client.extensions());
    let tool = new.tool.clone();
    let view = tasks.create(new).await.map_err(|error| to_error_data(&error))?;
    service.runtime.recorder.run_begun(&tool);
    Ok(view)
}

/// Returns the data from which the server creates the task of a call.
pub(super) fn new(
    service: &Service,
    tool: &Tool,
    arguments: Value,
    client: &Client,
    ttl: Option<u64>,
) -> NewTask {
    NewTask {
        tool: tool.name().to_owned(),
        arguments,
        principal: service.principal(client.extensions()),
        revision: client.revision(),
        capabilities: client.declared(),
        ttl,
        journal: None,
        asks: Vec::new(),
        due: None,
        channels: Channels::default(),
        is_read_with_a_tool: false,
        question_life: None,
        call: None,
        max_waiting: None,
        connection: client.connection_name(),
    }
}

/// Returns the error for an unknown task. A task of another caller causes the same error, so a caller cannot find out
/// whether other callers have tasks.
pub(super) fn unknown() -> ErrorData {
    ErrorData::invalid_params("there is no such task: its ID is wrong, or it has expired", None)
}

pub(super) fn owner(service: &Service, extensions: &rmcp::model::Extensions) -> Owner {
    Tasks::owner(service.principal(extensions).as_deref())
}

/// Handles `tasks/get`, which reads a task.
pub(super) async fn get(
    service: &Arc<Service>,
    tasks: &Arc<Tasks>,
    owner: &Owner,
    request: GetTaskParams,
    permit: impl FnOnce(&TaskView) -> Result<(), ErrorData>,
) -> Result<GetTaskResult, ErrorData> {
    let found = tasks.get(owner, &request.task_id).await.map_err(|error| to_error_data(&error))?;
    let view = found.ok_or_else(unknown)?;
    permit(&view)?;
    let mut result = detailed(view).map(GetTaskResult::new)?;
    if service.runtime.traces {
        let traced = tasks.trace(owner, &request.task_id).await;
        put_trace(&mut result.meta, traced.map_err(|error| to_error_data(&error))?);
    }
    Ok(result)
}

/// Handles `tasks/update`, which delivers answers to the questions of a task.
pub(super) async fn update(
    tasks: &Arc<Tasks>,
    owner: &Owner,
    request: UpdateTaskParams,
) -> Result<(), ErrorData> {
    let answers: BTreeMap<String, Value> = request.input_responses.into_iter().collect();
    let found = tasks.answer(owner, &request.task_id, &answers).await;
    found.map_err(|error| to_error_data(&error))?.map(drop).ok_or_else(unknown)
}

/// Handles `tasks/cancel`, which cancels a task.
pub(super) async fn cancel(
    tasks: &Arc<Tasks>,
    owner: &Owner,
    request: CancelTaskParams,
) -> Result<(), ErrorData> {
    let found = tasks.cancel(owner, &request.task_id).await;
    found.map_err(|error| to_error_data(&error))?.map(drop).ok_or_else(unknown)
}

fn detailed(view: TaskView) -> Result<DetailedTask, ErrorData> {
    let unreadable = |error: serde_json::Error| ErrorData::internal_error(error.to_string(), None);
    let task = task(&view);
    let payload = match (view.status, view.ended) {
        (TaskStatus::InputRequired, _) => {
            let requests =
                view.asks.into_iter().map(|(key, request)| Ok((key, serde_json::from_value(request)?)));
            TaskPayload::InputRequired {
                input_requests: requests.collect::<Result<InputRequests, _>>().map_err(unreadable)?,
            }
        }
        (TaskStatus::Completed, Some(Ended::Output(output))) => {
            let result = to_call_result(output.into(), Revision::Rounds);
            TaskPayload::Completed { result: object(serde_json::to_value(result).map_err(unreadable)?) }
        }
        (TaskStatus::Failed, Some(Ended::Error { code, message, data })) => {
            let mut error = json!({"code": code, "message": message});
            if let Some(data) = data {
                error["data"] = data;
            }
            TaskPayload::Failed { error: object(error) }
        }
        (TaskStatus::Cancelled, _) => TaskPayload::Cancelled,
        _ => TaskPayload::Working,
    };
    Ok(DetailedTask::new(task, payload))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

/// Returns the response to a call whose run became a task.
pub(super) fn created(view: &TaskView) -> CreateTaskResult {
    CreateTaskResult::new(task(view))
}

fn task(view: &TaskView) -> Task {
    let mut task = Task::new(&view.id, status(view.status), timestamp(view.created), timestamp(view.updated));
    task.ttl_ms = view.ttl;
    task.poll_interval_ms = Some(view.poll);
    task.status_message.clone_from(&view.message);
    task
}

fn status(status: TaskStatus) -> WireStatus {
    match status {
        TaskStatus::Working => WireStatus::Working,
        TaskStatus::InputRequired => WireStatus::InputRequired,
        TaskStatus::Completed => WireStatus::Completed,
        TaskStatus::Failed => WireStatus::Failed,
        TaskStatus::Cancelled => WireStatus::Cancelled,
    }
}
