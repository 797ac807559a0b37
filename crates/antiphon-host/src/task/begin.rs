//! Creates tasks: the server runs a call as a task, or the host requests a task.

use std::{fmt, future::IntoFuture, sync::Arc, time::Duration};

use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use super::{
    Held, TaskHandle,
    info::{TaskInfo, unwrapped_result},
    known::Support,
    read,
};
use crate::{
    connection::{Answer, Call, Connection, Options, parse},
    error::{Error, Result},
    form::BoxFuture,
};

/// The error code that a 2025-11-25 server returns for a plain call of a tool that requires a task.
const METHOD_NOT_FOUND: i32 = -32601;

impl<'a> Call<'a> {
    /// Runs the call as a task. `.await` returns a handle as soon as the server has created the task.
    ///
    /// On MCP 2025-11-25 the host requests a task if the tool supports tasks. On MCP 2026-07-28 the server decides
    /// whether to create a task. If the server does not create a task, `.await` waits for the result of the call, and
    /// the handle contains this result.
    pub fn as_task(self) -> TaskCall<'a> {
        TaskCall { call: self, ttl: None }
    }
}

/// A tool call that runs as a task. `.await` sends the call and returns a handle to the task.
#[must_use = "a tool is called when the call is awaited"]
pub struct TaskCall<'a> {
    call: Call<'a>,
    ttl: Option<Duration>,
}

impl TaskCall<'_> {
    /// Sets how long an MCP 2025-11-25 server should keep the task, counted from its creation. The server can choose
    /// another time. [`TaskInfo::ttl`] contains the chosen time. On MCP 2026-07-28 `ttl` has no effect. Default: the
    /// server decides how long it keeps the task.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

impl<'a> IntoFuture for TaskCall<'a> {
    type Output = Result<TaskHandle>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let told = self.call.connection.answering().telling.call(&self.call.tool);
        Box::pin(told.within(async move {
            let Self { call, ttl } = self;
            let connection = call.connection;
            let asked = !connection.speaks_modern().await?
                && connection.support(&call.tool).await? != Support::Forbidden;
            if asked {
                return make(connection, call.params()?, ttl, &call.options).await;
            }
            plain(&call).await
        }))
    }
}

impl fmt::Debug for TaskCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCall").field("call", &self.call).field("ttl", &self.ttl).finish()
    }
}

/// Sends a call. If the server runs the call as a task, waits for the result of the task.
pub(crate) async fn call(call: Call<'_>) -> Result<CallToolResult> {
    let handle = match plain(&call).await? {
        TaskHandle { held: Held::Result(result), .. } => return Ok(Arc::unwrap_or_clone(result)),
        handle => handle,
    };
    let mut abandoned = Abandoned(Some(handle.clone()));
    let result = handle.wait().await;
    // Cancel a running task only if the caller does not receive its ID. With the ID in the error, the caller can wait
    // for the task again.
    if matches!(
        result,
        Ok(_)
            | Err(Error::TaskCancelled { .. }
                | Error::TaskUnknown { .. }
                | Error::TaskUnfinished { .. }
                | Error::TaskStuck { .. })
    ) {
        abandoned.0 = None;
    }
    result
}

/// Makes a call that does not request a task. If the tool requires a task, requests a task.
async fn plain(call: &Call<'_>) -> Result<TaskHandle> {
    let connection = call.connection;
    match connection.conclude("tools/call", call.params()?, &call.options).await {
        Err(error @ Error::Server { code: METHOD_NOT_FOUND, .. }) => {
            // The server did not execute the call, so the call can be sent again as a task.
            if connection.speaks_modern().await? || connection.support(&call.tool).await? != Support::Required
            {
                return Err(error);
            }
            make(connection, call.params()?, None, &call.options).await
        }
        Ok(answer) if answer.value["resultType"] == "task" => {
            let info = read("tools/call", &answer.value)?;
            Ok(begun(connection, info, answer, &call.options))
        }
        Ok(answer) => finished(connection, answer.value),
        Err(error) => Err(error),
    }
}

/// Requests a task from a 2025-11-25 server.
async fn make(
    connection: &Connection,
    mut params: Value,
    ttl: Option<Duration>,
    options: &Options,
) -> Result<TaskHandle> {
    params["task"] = match ttl {
        Some(ttl) => json!({"ttl": u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)}),
        None => json!({}),
    };
    let answer = connection.conclude("antiphon/tasks/call", params, options).await?;
    match TaskInfo::read(&answer.value) {
        Some(info) => Ok(begun(connection, info, answer, options)),
        // The SDK parses every response with `_meta` as a tool's result, and drops unknown fields.
        None if is_hollow(&answer.value) => Err(Error::Malformed {
            method: "tools/call".into(),
            problem: "it contains neither a task nor a result".into(),
        }),
        // A server can ignore the request for a task.
        None => finished(connection, answer.value),
    }
}

/// Returns whether a tool's result is empty.
fn is_hollow(result: &Value) -> bool {
    result["content"].as_array().is_none_or(Vec::is_empty)
        && result.get("structuredContent").is_none()
        && result.get("isError").is_none()
        && result.get("result").is_none()
}

fn begun(connection: &Connection, info: TaskInfo, answer: Answer, options: &Options) -> TaskHandle {
    let task = connection.answering().events.tasks().pick_up(&info.id);
    task.complete(info);
    TaskHandle {
        timeout: options.timeout,
        _listening: Some(Arc::new(answer.listening)),
        ..TaskHandle::new(connection, Held::Task(task))
    }
}

fn finished(connection: &Connection, result: Value) -> Result<TaskHandle> {
    let result = parse("tools/call", unwrapped_result(result))?;
    Ok(TaskHandle::new(connection, Held::Result(Arc::new(result))))
}

impl Connection {
    /// Returns whether a 2025-11-25 server can run this tool as a task.
    async fn support(&self, tool: &str) -> Result<Support> {
        let capabilities = self.server().await.capabilities;
        if capabilities["experimental"]["antiphon/tasks"]["requests"]["tools"].get("call").is_none() {
            return Ok(Support::Forbidden);
        }
        let tasks = self.answering().events.tasks();
        if tasks.support(tool).is_none() {
            self.tools().await?;
        }
        Ok(tasks.support(tool).unwrap_or_default())
    }
}

/// A guard that cancels the task if the caller no longer waits for the task.
struct Abandoned(Option<TaskHandle>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        let (Some(handle), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move { handle.cancel().await });
    }
}
