//! Calls that create tasks, and the task support in the list of tools.

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

/// The parameters of a `tools/call` with a `task`.
#[derive(Debug, Deserialize)]
pub(super) struct Call {
    name: String,
    #[serde(default)]
    arguments: Option<JsonObject>,
    #[serde(default)]
    task: Option<Wish>,
}

/// The task options of a call.
#[derive(Debug, Default, Deserialize)]
struct Wish {
    /// The requested TTL, in milliseconds.
    #[serde(default)]
    ttl: Option<u64>,
}

impl Handler {
    /// Handles `tools/call` with a `task`. Returns the created task.
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
                // A wrapped SDK handler has not declared that its tools support tasks.
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
        // A call that is rejected here does not create a task. So the error must be returned now, because it cannot be
        // part of a task result.
        tool.arguments
            .check(&arguments, self.service.runtime.limits.argument_depth)
            .map_err(|error| to_error_data(&error))?;
        let new = tasks_2026::new(&self.service, tool, arguments, &client, task.unwrap_or_default().ttl);
        let view = tasks_2026::begin(&self.service, tasks, new, &client).await?;
        self.follow(tasks, &view, &client, peer);
        Ok(json!({"task": flat(&view)}))
    }

    /// Handles `tools/call` with a `task` on a server without tasks. The `task` is ignored.
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

    /// Handles `tools/list`. Adds the task support to each tool of the registry.
    pub(super) async fn tools_with_execution(
        &self,
        page: PaginatedRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let listed = self.list_tools(Some(page), context).await?;
        self.with_execution(listed)
    }

    /// Adds the task support to each tool in a list that belongs to the registry.
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
                    // If a client does not follow tasks, the model can read the result with `task_result`.
                    TaskPolicy::Always if self.service.asking.is_some() => "optional",
                    TaskPolicy::Always => "required",
                };
                tool["execution"] = json!({"taskSupport": support});
            }
        }
        Ok(listed)
    }

    /// Returns the task policy of a listed tool if the tool belongs to the registry. A hidden tool of the registry and
    /// a tool of the inner handler can have the same name. To distinguish them, this method compares the addresses of
    /// their schemas.
    fn policy(&self, registry: &Registry, listed: &Tool) -> Option<TaskPolicy> {
        let own = registry.tool(&listed.name)?;
        let is_own = || Arc::ptr_eq(&own.definition.input_schema, &listed.input_schema);
        (self.service.inner.is_none() || is_own()).then_some(own.tasks)
    }
}

/// Returns the error for a call without a `task`, if the tool requires a task.
pub(in crate::mcp) fn required(name: &str) -> ErrorData {
    method_not_found(format!("the tool `{name}` requires task augmentation: call it with a `task`"))
}
