//! Runs a tool call that the web page started, until the call has a result.

use std::{sync::Arc, time::Duration};

use antiphon_host::{Error, Result, TaskHandle, TaskInfo, TaskStatus, model::CallToolResult};
use futures_util::{StreamExt as _, pin_mut};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    feed::Feed,
    session::{Session, Wanted, is_legacy},
};
use crate::exit;

/// The maximum time to wait for the response to the cancellation of a task.
const GOODBYE: Duration = Duration::from_secs(5);

/// Makes a call, and sends events to the web page until the call has ended.
pub(super) async fn run(session: &Arc<Session>, call: &str, wanted: Wanted, cancel: &Notify) {
    let feed = &session.feed;
    // Send only the names, because the values belong to the user.
    let names: Vec<&String> =
        wanted.arguments.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    feed.tell("call", json!({"call": call, "tool": wanted.tool, "arguments": names}));
    let mut task = None;
    let ended = tokio::select! {
        ended = conclude(session, &wanted, &mut task) => Some(ended),
        () = cancel.notified() => None,
    };
    if ended.is_none()
        && let Some(task) = &task
    {
        // Dropping a call cancels the call. But a task must be cancelled with a request.
        let _ = tokio::time::timeout(GOODBYE, task.cancel()).await;
    }
    // End the call before its questions are withdrawn. Later questions do not belong to this call.
    session.questions.end();
    // A 2025-11-25 server can take time to withdraw the questions of its session.
    session.asks.withdraw();
    // The web page can call again as soon as it receives the last event.
    session.end();
    match ended {
        Some(Ok(result)) => feed.tell("result", result_of(session, call, &result)),
        Some(Err(error)) => {
            let hint = hint(&error);
            feed.tell("failed", json!({"call": call, "error": exit::told(&error.into()), "hint": hint}));
        }
        None => feed.tell("cancelled", json!({"call": call})),
    }
}

async fn conclude(
    session: &Session,
    wanted: &Wanted,
    held: &mut Option<TaskHandle>,
) -> Result<CallToolResult> {
    let connection = &session.connection;
    let arguments = if wanted.arguments.is_null() { json!({}) } else { wanted.arguments.clone() };
    let (progress, rounds) = (Arc::clone(&session.feed), Arc::clone(&session.feed));
    let mut call = connection
        .call(&wanted.tool, arguments)
        .progress(move |it| {
            let event = json!({"progress": it.progress, "total": it.total, "message": it.message});
            progress.tell("progress", event);
        })
        .rounds(move |it| {
            rounds.tell("round", json!({"number": it.number, "asks": it.asks, "trace": it.trace}));
        });
    if is_legacy(&connection.server().await.revision) {
        if !wanted.task {
            return call.await;
        }
    } else {
        call = call.log_level("debug");
    }
    let task = call.as_task().await?;
    if task.id().is_none() {
        return task.wait().await;
    }
    *held = Some(task.clone());
    Box::pin(follow(&session.feed, &task)).await
}

/// Waits for a task, and sends its status to the web page.
async fn follow(feed: &Feed, task: &TaskHandle) -> Result<CallToolResult> {
    let updates = task.updates();
    let wait = task.wait();
    pin_mut!(updates, wait);
    let mut follows = true;
    let ended = loop {
        tokio::select! {
            ended = &mut wait => break ended,
            update = updates.next(), if follows => match update {
                Some(Ok(info)) => tell(feed, &info),
                Some(Err(_)) | None => follows = false,
            },
        }
    };
    // Send the final status, with the complete trace.
    if let Ok(info) = task.status().await {
        tell(feed, &info);
    }
    ended
}

fn tell(feed: &Feed, info: &TaskInfo) {
    let status = match info.status {
        TaskStatus::Working => "working",
        TaskStatus::InputRequired => "input_required",
        TaskStatus::Completed => "completed",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
        _ => "unknown",
    };
    let event = json!({"task": info.id, "status": status, "message": info.message, "trace": info.trace});
    feed.tell("task", event);
}

/// Converts a result to an event for the web page.
fn result_of(session: &Session, call: &str, result: &CallToolResult) -> Value {
    let rows = session.connection.dual_response(result).map(|set| {
        json!({
            "name": set.name(),
            "total": set.total_count(),
            "columns": set.columns(),
            "sample": set.sample(),
            "expires": set.expires_at().map(|at| at.to_rfc3339()),
            "viewer": session.viewer.keep(call, &set),
        })
    });
    let mut result = serde_json::to_value(result).unwrap_or_default();
    // The studio sends the trace of the run in other events.
    if let Some(result) = result.as_object_mut() {
        result.remove("_meta");
    }
    json!({"call": call, "result": result, "rows": rows})
}

/// Returns a hint that describes how to fix an error.
fn hint(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Connect { .. } => "Is the server still running? Connect again when it is.",
        Error::Unauthorized { .. } => "Start `antiphon studio` with the server and `--token`.",
        Error::Lost { .. } => "The server may have stopped; look at its log before you call again.",
        Error::TaskUnknown { .. } => "The task has expired. Call the tool again.",
        Error::PagesRequired(_) => "Call again, and open the page it asks for.",
        Error::Server { code: -32602, message, .. } if message.contains("requestState") => {
            "Call the tool again. Often the server was restarted with a new random key."
        }
        // The method does not exist, or the client did not declare sampling.
        Error::Server { code: -32601 | -32021, .. } => {
            "If the tool needs a model, start `antiphon studio` with `--model` or `--model-url`, or reply yourself with `--samples hand`."
        }
        _ => return None,
    })
}
