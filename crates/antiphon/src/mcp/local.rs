//! Tool calls without a client. The program in which the server runs makes these calls.

use std::sync::Arc;

use antiphon_llm::BoxFuture;
use serde_json::Value;

use super::{
    Client,
    invoke::{Call, Reply, invoke},
};
use crate::{
    error::Error,
    mcp::Service,
    run::AskOptions,
    tool::{ToolCall, ToolOutput, ToolResult},
};

/// Runs a tool without a client. If this function were `async`, the compiler would compile its future again for each
/// program that contains a server.
pub(crate) fn call(service: &Arc<Service>, call: ToolCall) -> BoxFuture<'_, ToolResult> {
    Box::pin(execute(service, call))
}

async fn execute(service: &Arc<Service>, call: ToolCall) -> ToolResult {
    let registry = service.registry();
    let Some(tool) = registry.tool(&call.name) else {
        let output = ToolOutput::error(format!("there is no tool `{}`", call.name));
        return ToolResult::new(&call, output);
    };
    let arguments = Value::Object(tool.arguments.present(call.arguments.clone()));
    let taken = tool
        .arguments
        .check(&arguments, service.runtime.limits.argument_depth)
        .map(|()| tool.arguments.taken(&arguments));
    let leg = Call {
        method: "tools/call",
        name: &call.name,
        arguments: &arguments,
        responses: None,
        state: None,
        timeout: tool.timeout,
        quota: tool.quota,
        keep_alive: None,
        declared: tool.elicits.clone(),
        ask: AskOptions::default(),
    };
    let client = Client::local(call.id.clone());
    let check = |output: &ToolOutput| tool.check_output(output);
    let output = match invoke(service, leg, client, &tool.call, taken, check).await {
        Ok(Reply::Done(result, ..)) => result,
        Ok(Reply::InputRequired(_) | Reply::Waits(_)) => Err(Error::misuse(
            "the tool cannot ask a question: the program called the tool with `Server::call_tool`, so the call has no client",
        )),
        Err(refused) => Err(Error::tool(refused.message)),
    };
    ToolResult::new(&call, output.unwrap_or_else(|error| ToolOutput::error(format!("{error:#}"))))
}
