//! Calls a tool. If the server runs the call as a task, follows the task until the task ends.

use std::{pin::pin, time::Duration};

use antiphon_host::{
    Connection, Error, TaskHandle, TaskInfo, TaskStatus,
    model::{CallToolResult, Tool},
};
use antiphon_transport::revision::Revision;
use anyhow::Result;
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::{person::Person, print::clean, target::Target};

/// The parameters with which the CLI calls a tool.
pub(super) struct Making<'a> {
    pub(super) server: &'a Target,
    pub(super) tool: &'a Tool,
    pub(super) arguments: Value,
    /// Whether the server must run the call as a task.
    pub(super) as_task: bool,
    /// Whether the CLI returns the task's ID and does not wait for the result.
    pub(super) detach: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) log_level: Option<&'static str>,
}

/// The result of a call, or the ID of a task that is still running.
pub(super) enum Ended {
    Result(Box<CallToolResult>),
    /// The task is still running. The `String` is the ID of the task.
    Detached(String),
}

pub(super) async fn call(connection: &Connection, person: &Person, making: Making<'_>) -> Result<Ended> {
    let Making { server, tool, arguments, as_task, detach, timeout, log_level } = making;
    let info = connection.server().await;
    let modern = match Revision::of(Some(info.revision.as_str())) {
        Revision::Rounds => true,
        Revision::Session => false,
    };
    person.terminal().screen.show_logs_from(log_level.unwrap_or("off"));
    let mut call = connection.call(&tool.name, arguments);
    if let Some(level) = log_level {
        if modern {
            call = call.log_level(level);
        } else if info.capabilities.get("logging").is_some() {
            connection.set_log_level(level).await?;
        }
    }
    if let Some(timeout) = timeout {
        call = call.timeout(timeout);
    }
    let listener = person.clone();
    call = call.progress(move |progress| listener.terminal().screen.progress(&progress));
    person.terminal().screen.status_quietly(&format!("calling {}", tool.name));
    let only_as_task = task_support(tool) == Some("required");
    // On 2026-07-28 the server decides whether a call becomes a task, and some tools require tasks. In both cases,
    // `as_task` returns a handle. This handle also works if the call does not become a task.
    if !(as_task || modern || only_as_task) {
        return Ok(Ended::Result(Box::new(call.await?)));
    }
    let handle = call.as_task().await?;
    let screen = &person.terminal().screen;
    match handle.id() {
        Some(id) if detach => return Ok(Ended::Detached(id.to_owned())),
        Some(id) if as_task => screen.line(&format!("task {id}")),
        Some(id) => screen.line(&format!("following task {id}")),
        None if as_task => screen.line("the server returned the result directly, without a task"),
        None => {}
    }
    follow(person, server, &handle).await.map(|result| Ended::Result(Box::new(result)))
}

/// Follows a task until it ends. If the CLI stops earlier, prints the command with which the user can follow the task
/// again.
pub(crate) async fn follow(person: &Person, server: &Target, handle: &TaskHandle) -> Result<CallToolResult> {
    let Some(id) = handle.id() else { return Ok(handle.wait().await?) };
    let mut left = Left { person, server, id, goes_on: true };
    let mut updates = pin!(handle.updates());
    let mut ended = pin!(handle.wait());
    let mut more = true;
    let result = loop {
        tokio::select! {
            result = &mut ended => break result,
            update = updates.next(), if more => match update {
                Some(Ok(info)) => person.terminal().screen.status(&describe(&info)),
                // `wait` also returns this error, so this branch only stops reading updates.
                Some(Err(_)) | None => more = false,
            },
        }
    };
    left.goes_on = matches!(
        result,
        Err(Error::TaskUnfinished { .. }
            | Error::TaskStuck { .. }
            | Error::Lost { .. }
            | Error::Connect { .. }
            | Error::Timeout { .. })
    );
    drop(left);
    Ok(result?)
}

/// Returns the task support of a tool, which is `required` or `optional` on MCP 2025-11-25. The SDK does not read the
/// field for task support, so the host copies this field to `_meta`.
pub(crate) fn task_support(tool: &Tool) -> Option<&str> {
    tool.meta.as_ref()?.get("antiphon/execution")?["taskSupport"].as_str()
}

/// Returns a text that describes the status of a task.
pub(crate) fn describe(info: &TaskInfo) -> String {
    let status = status(info.status);
    match info.message.as_deref().filter(|message| !message.is_empty()) {
        Some(message) => clean(&format!("{status}: {message}")),
        None => status.to_owned(),
    }
}

pub(crate) fn status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Working => "working",
        TaskStatus::InputRequired => "input required",
        TaskStatus::Completed => "completed",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
        _ => "unknown",
    }
}

/// A guard that prints how to follow the task again, if the CLI stops while the task is running.
struct Left<'a> {
    person: &'a Person,
    server: &'a Target,
    id: &'a str,
    goes_on: bool,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if self.goes_on {
            let (server, id) = (shell_words::quote(&self.server.server), shell_words::quote(self.id));
            self.person.terminal().screen.finish();
            let (server, id) = (clean(&server), clean(&id));
            eprintln!("the task continues; wait for it with: antiphon tasks follow {server} {id}");
        }
    }
}
