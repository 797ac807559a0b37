//! Calls that are to be tasks, and the tools that say whether they can be.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler as _,
    model::{CallToolRequestParams, JsonObject, PaginatedRequestParams, ServerResult},
    service::RequestContext,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{method_not_found, status::flat, to_json};
use crate::{
    mcp::{Handler, admit::count, tasks_2026},
    protocol::reply::to_error_data,
    task::Tasks,
    tool::TaskPolicy,
};

/// The parameters of a `tools/call` with a `task`.
#[derive(Debug, Deserialize)]
pub(super) struct Call {
    name: String,
    #[serde(default)]
    arguments: Option<JsonObject>,
    #[serde(default)]
    task: Option<Wish>,
}

/// What a client says of the task it wants.
#[derive(Debug, Default, Deserialize)]
struct Wish {
    /// Milliseconds.
    #[serde(default)]
    ttl: Option<u64>,
}

impl Handler {
    /// `tools/call` with a `task`: answered with the task.
    pub(super) async fn call_as_task(
        &self,
        tasks: &Arc<Tasks>,
        call: Call,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let Call { name, arguments, task } = call;
        let registry = self.service.registry();
        let Some(tool) = registry.tool(&name) else {
            return Err(match &self.service.inner {
                // The handler that is served along has not said that its tools can be.
                Some(_) => {
                    method_not_found(format!("there is no tool `{name}` that can be called as a task"))
                }
                None => ErrorData::invalid_params(format!("there is no tool `{name}`"), None),
            });
        };
        self.permit("tools/call", Some(tool), &context.extensions)?;
        if tool.tasks == TaskPolicy::Never {
            return Err(method_not_found(format!("the tool `{name}` cannot be called as a task")));
        }
        let arguments = Value::Object(tool.arguments.present(arguments.unwrap_or_default()));
        let peer = context.peer.clone();
        let client = self.client(context);
        count(&self.service, tool, &arguments, &client).await?;
        // What is refused here never was a task, so there is none whose result could tell of it.
        tool.arguments
            .check(&arguments, self.service.runtime.limits.argument_depth)
            .map_err(|error| to_error_data(&error))?;
        let new = tasks_2026::new(&self.service, tool, arguments, &client, task.unwrap_or_default().ttl);
        let view = tasks_2026::begin(&self.service, tasks, new, &client).await?;
        self.follow(tasks, &view, &client, peer);
        Ok(json!({"task": flat(&view)}))
    }

    /// The same where there are no tasks.
    pub(super) async fn call_at_once(
        &self,
        call: Call,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let mut request = CallToolRequestParams::new(call.name);
        request.arguments = call.arguments;
        let response = self.call_tool(request, context).await?;
        to_json(ServerResult::from(response))
    }

    /// `tools/list`, with what each of our tools says of tasks.
    pub(super) async fn tools_with_execution(
        &self,
        page: PaginatedRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let listed = self.list_tools(Some(page), context).await?;
        let mut listed = to_json(ServerResult::ListToolsResult(listed))?;
        if self.service.tasks.is_some() {
            let registry = self.service.registry();
            for tool in listed["tools"].as_array_mut().into_iter().flatten() {
                let policy =
                    tool["name"].as_str().and_then(|name| registry.tool(name)).map(|tool| tool.tasks);
                let Some(policy) = policy else { continue };
                let support = match policy {
                    TaskPolicy::Never => "forbidden",
                    TaskPolicy::WhenLong => "optional",
                    TaskPolicy::Always => "required",
                };
                tool["execution"] = json!({"taskSupport": support});
            }
        }
        Ok(listed)
    }
}

/// What a client is told that calls a tool whose runs are always tasks, and does not ask for one.
pub(in crate::mcp) fn required(name: &str) -> ErrorData {
    method_not_found(format!("the tool `{name}` requires task augmentation: call it with a `task`"))
}
