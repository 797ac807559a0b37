//! Tasks in the protocol revision 2025-11-25.
//!
//! The SDK supports only the tasks of MCP 2026-07-28. So a layer below the SDK renames the requests of MCP 2025-11-25.
//! The layer renames `tasks/get` to `antiphon/tasks/get`, and renames a `tools/call` with a `task` field to
//! `antiphon/tasks/call`. The layer renames `tools/list` to `antiphon/tools/list`, so that the result can contain the
//! field `execution` of each tool. If clients themselves use one of these names, they receive the same result. On MCP
//! 2026-07-28, methods whose name begins with `antiphon/` are unknown.
//!
//! - `call`: handles calls that create tasks, and adds to the list of tools which tools support tasks.
//! - `look`: handles `tasks/get`, `tasks/cancel` and `tasks/list`.
//! - `result`: waits for the end of a task, and sends the task's questions during the wait. `task/asking.rs` ensures
//!   that a question is not sent twice.
//! - `status`: notifies sessions of status changes of their tasks.

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

use super::{Handler, admit::pass, handler::unknown_method};
use crate::{mcp::Service, task::Tasks};

/// The temporary name of the task capability. The SDK does not support the final name of this capability. So the layer
/// below the SDK replaces the temporary name with the final name.
const CAPABILITY: &str = "antiphon/tasks";

/// The `_meta` key under which a message contains the ID of its task.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The methods of MCP 2025-11-25 that the SDK does not support.
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

    /// Returns the name of the method in MCP 2025-11-25. Returns `None` if the method does not concern an existing
    /// task.
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

/// The parameters of a request that concerns one task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfTask {
    task_id: String,
}

impl Handler {
    /// Handles an MCP 2025-11-25 request that the SDK does not support.
    pub(super) async fn legacy(
        &self,
        method: Method,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // The methods that list and call tools check the permission themselves. These methods also count the request
        // themselves.
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

    /// Handles a request on a server without tasks. If the request is a call, the server ignores the `task` field. If
    /// the server wraps an SDK handler that has its own tasks, the SDK handler handles the request.
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

/// Declares the task requests that this client can send.
pub(super) fn declare(service: &Service, extensions: &Extensions, result: &mut InitializeResult) {
    let Some(tasks) = &service.tasks else { return };
    // Protocol revisions before 2025-11-25 do not define tasks.
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

/// Returns `true` if the caller can list tasks. A caller can list tasks if the server authenticates the caller. A
/// caller can also list tasks if no other caller uses the same connection or the same tasks.
///
/// Unauthenticated callers over HTTP have the same owner, and so do unauthenticated callers of several replicas that
/// share a backend. So unauthenticated callers would see each other's tasks.
fn may_list(service: &Service, tasks: &Tasks, extensions: &Extensions) -> bool {
    let alone = !is_over_http(extensions) && service.runtime.backend.is_none();
    tasks.config.anonymous_list || alone || service.principal(extensions).is_some()
}

fn is_over_http(extensions: &Extensions) -> bool {
    extensions.get::<http::request::Parts>().is_some()
}

pub(super) fn params<T: DeserializeOwned>(request: &CustomRequest) -> Result<T, ErrorData> {
    let given = request.params.clone().unwrap_or_else(|| json!({}));
    serde_json::from_value(given).map_err(|error| {
        let method = request.method.trim_start_matches("antiphon/");
        ErrorData::invalid_params(format!("the parameters of `{method}` are not valid: {error}"), None)
    })
}

fn method_not_found(message: String) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

/// Converts a result into the JSON format of MCP 2025-11-25.
fn to_json(mut result: rmcp::model::ServerResult) -> Result<Value, ErrorData> {
    result.strip_result_type_for_legacy_peer();
    serde_json::to_value(result).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
