//! Tasks as 2026-07-28 has them.

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

use super::{
    Link, Revision,
    letting_in::count,
    reply::{put_trace, to_call_result, to_error_data, tool_error},
};
use crate::{
    server::Shared,
    task::{Ended, NewTask, Owner, TaskStatus, TaskView, Tasks},
    telemetry,
    tool::Tool,
};

/// Calls a tool whose runs are always tasks.
pub(super) async fn call(
    shared: &Arc<Shared>,
    tasks: &Arc<Tasks>,
    tool: &Tool,
    request: CallToolRequestParams,
    link: &Link,
) -> Result<CallToolResponse, ErrorData> {
    if !link.knows_tasks() {
        let required = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(required));
    }
    let arguments = Value::Object(request.arguments.unwrap_or_default());
    if let Err(error) = tool.arguments.check(&arguments, shared.limits.argument_depth) {
        return Ok(tool_error(&error, link.revision())?.into());
    }
    count(shared, tool, &arguments, link).await?;
    let new = new(shared, tool, arguments, link, None);
    let view = begin(shared, tasks, new, link).await?;
    Ok(CallToolResponse::Task(created(&view)))
}

/// Begins a run that is a task from the start.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    tasks: &Arc<Tasks>,
    mut new: NewTask,
    link: &Link,
) -> Result<TaskView, ErrorData> {
    new.journal = telemetry::begun(link);
    let tool = new.tool.clone();
    let view = tasks.create(shared, new).await.map_err(|error| to_error_data(&error))?;
    shared.recorder.run_begun(&tool);
    Ok(view)
}

/// The task that a call becomes.
pub(super) fn new(shared: &Shared, tool: &Tool, arguments: Value, link: &Link, ttl: Option<u64>) -> NewTask {
    NewTask {
        tool: tool.name().to_owned(),
        arguments,
        principal: shared.principal(link.extensions()),
        revision: link.revision(),
        capabilities: link.declared(),
        ttl,
        journal: None,
        asks: Vec::new(),
    }
}

/// What to say of a task that is not there, or is not the caller's: there is no telling which.
pub(super) fn unknown() -> ErrorData {
    ErrorData::invalid_params("there is no such task: its id is wrong, or its time is over", None)
}

pub(super) fn owner(shared: &Shared, extensions: &rmcp::model::Extensions) -> Owner {
    Tasks::owner(shared.principal(extensions).as_deref())
}

/// `tasks/get`.
pub(super) async fn get(
    shared: &Arc<Shared>,
    tasks: &Arc<Tasks>,
    owner: &Owner,
    request: GetTaskParams,
    permit: impl FnOnce(&TaskView) -> Result<(), ErrorData>,
) -> Result<GetTaskResult, ErrorData> {
    let found = tasks.get(shared, owner, &request.task_id).await.map_err(|error| to_error_data(&error))?;
    let view = found.ok_or_else(unknown)?;
    permit(&view)?;
    let mut result = detailed(view).map(GetTaskResult::new)?;
    if shared.traces {
        let traced = tasks.trace(shared, owner, &request.task_id).await;
        put_trace(&mut result.meta, traced.map_err(|error| to_error_data(&error))?);
    }
    Ok(result)
}

/// `tasks/update`.
pub(super) async fn update(
    shared: &Arc<Shared>,
    tasks: &Arc<Tasks>,
    owner: &Owner,
    request: UpdateTaskParams,
) -> Result<(), ErrorData> {
    let answers: BTreeMap<String, Value> = request.input_responses.into_iter().collect();
    let found = tasks.answer(shared, owner, &request.task_id, &answers).await;
    found.map_err(|error| to_error_data(&error))?.map(drop).ok_or_else(unknown)
}

/// `tasks/cancel`.
pub(super) async fn cancel(
    shared: &Arc<Shared>,
    tasks: &Arc<Tasks>,
    owner: &Owner,
    request: CancelTaskParams,
) -> Result<(), ErrorData> {
    let found = tasks.cancel(shared, owner, &request.task_id).await;
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

/// The answer to a call that became a task.
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

/// Milliseconds since 1970 as ISO 8601 has them.
pub(crate) fn timestamp(millis: u64) -> String {
    // Days since 0000-03-01, so that a leap day is the last of its year.
    let (days, rest) = (millis / 86_400_000 + 719_468, millis % 86_400_000);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_iso_8601() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(timestamp(1_763_211_845_006), "2025-11-15T13:04:05.006Z");
        assert_eq!(timestamp(4_102_444_799_999), "2099-12-31T23:59:59.999Z");
    }
}
