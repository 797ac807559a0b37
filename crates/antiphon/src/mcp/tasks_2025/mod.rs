//! Tasks as 2025-11-25 has them.
//!
//! The SDK reads only what 2026-07-28 says of tasks, so these requests come under names of ours: `antiphon/tasks/get`
//! is `tasks/get`, `antiphon/tasks/call` is a `tools/call` with a `task`, and `antiphon/tools/list` is `tools/list`,
//! whose tools have an `execution` here. A layer below the SDK gives them these names; a client that uses them by
//! itself gets the same. To a request of 2026-07-28 they are unknown.
//!
//! - `call`: a call that is to be a task, and the tools that say whether they can be one.
//! - `look`: what an owner sees of tasks, and `tasks/cancel`.
//! - `result`: waits for a task, and meanwhile asks what it asks. `task/asking.rs` keeps a question from being asked twice.
//! - `status`: a session hears of its tasks.

mod call;
mod look;
mod result;
mod status;

use rmcp::{
    ErrorData, RoleServer,
    model::{CustomRequest, CustomResult, ErrorCode, Extensions, InitializeResult, JsonObject},
    service::RequestContext,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub(super) use call::required;
pub(super) use status::Followed;

use super::{Handler, admit::pass, handler::unknown_method};
use crate::{mcp::Service, task::Tasks};

/// Where the capability is until the layer below the SDK puts it in its place, which the SDK does not have.
const CAPABILITY: &str = "antiphon/tasks";

/// Says of a message which task it belongs to.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// What 2025-11-25 has and the SDK does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Tools,
    Call,
    Get,
    Cancel,
    List,
    Result,
}

impl Method {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "antiphon/tools/list" => Self::Tools,
            "antiphon/tasks/call" => Self::Call,
            "antiphon/tasks/get" => Self::Get,
            "antiphon/tasks/cancel" => Self::Cancel,
            "antiphon/tasks/list" => Self::List,
            "antiphon/tasks/result" => Self::Result,
            _ => return None,
        })
    }

    /// What 2025-11-25 calls it, if it is about tasks that are there.
    fn of_tasks(self) -> Option<&'static str> {
        match self {
            Self::Tools | Self::Call => None,
            Self::Get => Some("tasks/get"),
            Self::Cancel => Some("tasks/cancel"),
            Self::List => Some("tasks/list"),
            Self::Result => Some("tasks/result"),
        }
    }
}

/// The parameters of what is about one task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfTask {
    task_id: String,
}

impl Handler {
    /// Answers a request of 2025-11-25.
    pub(super) async fn legacy(
        &self,
        method: Method,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // What lists and calls tools is looked at and counted there.
        if let Some(name) = method.of_tasks() {
            self.permit(name, None, &context.extensions)?;
            pass(&self.service, &context.extensions)?;
        }
        let answer = match (method, &self.service.tasks) {
            (Method::Tools, _) => self.tools_with_execution(params(&request)?, context).await,
            (_, None) => return self.without_tasks(method, request, context).await,
            (Method::Call, Some(tasks)) => self.call_as_task(tasks, params(&request)?, context).await,
            (Method::Get, Some(tasks)) => self.show_task(tasks, params(&request)?, context).await,
            (Method::Cancel, Some(tasks)) => self.end_task(tasks, params(&request)?, &context).await,
            (Method::List, Some(tasks)) => self.list_tasks(tasks, params(&request)?, &context).await,
            (Method::Result, Some(tasks)) => self.task_result(tasks, params(&request)?, context).await,
        };
        answer.map(CustomResult)
    }

    /// A server without tasks takes a call as if it did not ask for one. A handler that is served along may have
    /// tasks of its own.
    async fn without_tasks(
        &self,
        method: Method,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if let Some(inner) = &self.service.inner {
            let answer = inner.custom(request.clone(), context.clone()).await;
            if !matches!(&answer, Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND) {
                return answer;
            }
        }
        match method {
            Method::Call => self.call_at_once(params(&request)?, context).await.map(CustomResult),
            _ => Err(unknown_method(&request, false)),
        }
    }
}

/// Declares what this client may do with tasks.
pub(super) fn declare(service: &Service, extensions: &Extensions, result: &mut InitializeResult) {
    let Some(tasks) = &service.tasks else { return };
    // Before, there were no tasks.
    if result.protocol_version.as_str() < crate::protocol::revision::SESSION {
        return;
    }
    let mut declared = JsonObject::new();
    if may_list(service, tasks, extensions) {
        declared.insert("list".into(), json!({}));
    }
    declared.insert("cancel".into(), json!({}));
    declared.insert("requests".into(), json!({"tools": {"call": {}}}));
    result.capabilities.experimental.get_or_insert_default().insert(CAPABILITY.to_owned(), declared);
}

/// Whether the caller may list tasks: they are its own if somebody knows who it is, and if it has the connection and the
/// tasks to itself. Strangers on the network, and those of processes that share a backend, are one owner, and would see
/// each other's.
fn may_list(service: &Service, tasks: &Tasks, extensions: &Extensions) -> bool {
    let alone = !is_over_http(extensions) && service.runtime.backend.is_none();
    tasks.config.anonymous_list || alone || service.principal(extensions).is_some()
}

fn is_over_http(extensions: &Extensions) -> bool {
    extensions.get::<http::request::Parts>().is_some()
}

fn params<T: DeserializeOwned>(request: &CustomRequest) -> Result<T, ErrorData> {
    let given = request.params.clone().unwrap_or_else(|| json!({}));
    serde_json::from_value(given).map_err(|error| {
        let method = request.method.trim_start_matches("antiphon/");
        ErrorData::invalid_params(
            format!("the parameters of `{method}` are not what it takes: {error}"),
            None,
        )
    })
}

fn method_not_found(message: String) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

/// A result as 2025-11-25 has it.
fn to_json(mut result: rmcp::model::ServerResult) -> Result<Value, ErrorData> {
    result.strip_result_type_for_legacy_peer();
    serde_json::to_value(result).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
