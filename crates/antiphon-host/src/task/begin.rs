//! How tasks come to be: a server makes one of a call, or is asked to.

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

/// What a server of 2025-11-25 says if a tool can only be a task and was called otherwise.
const METHOD_NOT_FOUND: i32 = -32601;

impl<'a> Call<'a> {
    /// Makes the call a task: awaited, it returns a handle as soon as the task exists.
    ///
    /// A 2025-11-25 server is asked for a task if the tool can be one. A 2026-07-28 server decides for
    /// itself. Where no task is made, the call is made as usual, and the handle has its result.
    pub fn as_task(self) -> TaskCall<'a> {
        TaskCall { call: self, ttl: None }
    }
}

/// A call to be made as a task. `.await` makes it.
#[must_use = "a tool is called when the call is awaited"]
pub struct TaskCall<'a> {
    call: Call<'a>,
    ttl: Option<Duration>,
}

impl TaskCall<'_> {
    /// Asks a 2025-11-25 server to keep the task for this long after its making. The server may
    /// decide otherwise: see [`TaskInfo::ttl`]. On 2026-07-28 it decides alone.
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

/// Makes a call, and follows the task it may become.
pub(crate) async fn call(call: Call<'_>) -> Result<CallToolResult> {
    let handle = match plain(&call).await? {
        TaskHandle { held: Held::Result(result), .. } => return Ok(Arc::unwrap_or_clone(result)),
        handle => handle,
    };
    let mut abandoned = Abandoned(Some(handle.clone()));
    let result = handle.wait().await;
    // Only a task that goes on, and that nobody knows of any more, is cancelled. Who gets its id in
    // the error can pick it up again.
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

/// Makes a call as it is. A tool that can only be a task is made one all the same.
async fn plain(call: &Call<'_>) -> Result<TaskHandle> {
    let connection = call.connection;
    match connection.conclude("tools/call", call.params()?, &call.options).await {
        Err(error @ Error::Server { code: METHOD_NOT_FOUND, .. }) => {
            // It was not carried out, so it can be asked for otherwise.
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

/// Asks a 2025-11-25 server for a task.
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
        // The SDK takes any answer with `_meta` for a tool's result, and what it does not know is gone.
        None if is_hollow(&answer.value) => Err(Error::Malformed {
            method: "tools/call".into(),
            problem: "there is neither a task nor a result in it".into(),
        }),
        // A server may pass over the wish.
        None => finished(connection, answer.value),
    }
}

/// Whether a tool's result says nothing.
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
    /// Whether a 2025-11-25 server can make a task of a call of this tool.
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

/// Cancels the task of a call that nobody waits for any more.
struct Abandoned(Option<TaskHandle>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        let (Some(handle), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move { handle.cancel().await });
    }
}
