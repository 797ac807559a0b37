//! Tool calls that create tasks, and the fields in the list of tools that state which tools support tasks.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler as _,
    model::{CallToolRequestParams, JsonObject, ListToolsResult, PaginatedRequestParams, ServerResult, Tool},
    service::RequestContext,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{method_not_found, status::flat, to_json};
use crate::{
    mcp::{Handler, admit::count, tasks_2026},
    protocol::reply::to_error_data,
    registry::Registry,
    task::Tasks,
    tool::TaskPolicy,
};

/// The parameters of a `tools/call` request with a `task` field.
#[derive(Debug, Deserialize)]
pub(super) struct Call {
    name: String,
    #[serde(default)]
    arguments: Option<JsonObject>,
    #[serde(default)]
    task: Option<Wish>,
}

/// The values in the `task` field of a `tools/call` request.
#[derive(Debug, Default, Deserialize)]
struct Wish {
    /// The time to live that the client requests for the task, in milliseconds.
    #[serde(default)]
    ttl: Option<u64>,
}

impl Handler {
    /// Handles a `tools/call` request with a `task` field, and returns the created task.
    pub(super) async fn call_as_task(
        &self,
        tasks: &Arc<Tasks>,
        call: Call,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let Call { name, arguments, task } = call;
        let registry = self.service.registry();
        let Some(tool) = self.permit_call(&registry, &name, &context, |_| false).await? else {
            return Err(match &self.service.inner {
                // A wrapped SDK handler does not declare that its tools support tasks.
                Some(_) => {
                    method_not_found(format!("there is no tool `{name}` that can be called as a task"))
                }
                None => ErrorData::invalid_params(format!("there is no tool `{name}`"), None),
            });
        };
        if tool.tasks == TaskPolicy::Never {
            return Err(method_not_found(format!("the tool `{name}` cannot be called as a task")));
        }
        let arguments = Value::Object(tool.arguments.present(arguments.unwrap_or_default()));
        let peer = context.peer.clone();
        let client = self.client(context);
        count(&self.service, tool, &arguments, &client).await?;
        // If this check rejects the call, the server does not create a task. So the server returns the error now,
        // because no task result can contain the error.
        tool.arguments
            .check(&arguments, self.service.runtime.limits.argument_depth)
            .map_err(|error| to_error_data(&error))?;
        let new = tasks_2026::new(&self.service, tool, arguments, &client, task.unwrap_or_default().ttl);
        let view = tasks_2026::begin(&self.service, tasks, new, &client).await?;
        self.follow(tasks, &view, &client, peer);
        Ok(json!({"task": flat(&view)}))
    }

    /// Handles a `tools/call` request with a `task` field on a server without tasks. The server ignores the `task`
    /// field.
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

    /// Handles `tools/list`. The returned list states for each tool of the registry whether this tool supports tasks.
    pub(super) async fn tools_with_execution(
        &self,
        page: PaginatedRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let listed = self.list_tools(Some(page), context).await?;
        self.with_execution(listed)
    }

    /// Adds the field `execution` to each tool of the registry. The field `execution` states whether the tool supports
    /// tasks.
    pub(in crate::mcp) fn with_execution(&self, listed: ListToolsResult) -> Result<Value, ErrorData> {
        let registry = self.service.registry();
        let policies: Vec<_> = listed.tools.iter().map(|tool| self.policy(&registry, tool)).collect();
        let mut listed = to_json(ServerResult::ListToolsResult(listed))?;
        if self.service.tasks.is_some() {
            for (tool, policy) in listed["tools"].as_array_mut().into_iter().flatten().zip(policies) {
                let Some(policy) = policy else { continue };
                let support = match policy {
                    TaskPolicy::Never => "forbidden",
                    TaskPolicy::WhenLong => "optional",
                    // If a client does not support tasks, its model can read the result with the tool `task_result`.
                    TaskPolicy::Always if self.service.asking.is_some() => "optional",
                    TaskPolicy::Always => "required",
                };
                tool["execution"] = json!({"taskSupport": support});
            }
        }
        Ok(listed)
    }

    /// Returns the task policy of a listed tool. Returns `None` if the tool does not belong to the registry. A hidden
    /// tool of the registry and a tool of the inner handler can have the same name. To distinguish these two tools,
    /// this method compares the addresses of their schemas.
    fn policy(&self, registry: &Registry, listed: &Tool) -> Option<TaskPolicy> {
        let own = registry.tool(&listed.name)?;
        let is_own = || Arc::ptr_eq(&own.definition.input_schema, &listed.input_schema);
        (self.service.inner.is_none() || is_own()).then_some(own.tasks)
    }
}

/// Returns the error for a call without a `task` field if the tool requires a task.
pub(in crate::mcp) fn required(name: &str) -> ErrorData {
    method_not_found(format!("the tool `{name}` requires task augmentation: call it with a `task`"))
}
