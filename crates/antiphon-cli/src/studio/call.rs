//! A call, from the page's click to its result.

use std::{sync::Arc, time::Duration};

use antiphon_host::{Error, Result, TaskHandle, TaskInfo, TaskStatus, model::CallToolResult};
use futures_util::{StreamExt as _, pin_mut};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    feed::Feed,
    questions::chain,
    session::{Session, Wanted, is_legacy},
};

/// How long a server is waited for that was told that nobody wants its task any more.
const GOODBYE: Duration = Duration::from_secs(5);

/// Makes a call and tells the page of it until it has ended.
pub(super) async fn run(session: &Arc<Session>, call: &str, wanted: Wanted, cancel: &Notify) {
    let feed = &session.feed;
    // Their names only: what was typed is the person's.
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
        // A call that is dropped is cancelled with it. A task goes on until it is told.
        let _ = tokio::time::timeout(GOODBYE, task.cancel()).await;
    }
    // Before its questions are withdrawn: what is asked from here on is not of this call.
    session.questions.end();
    // A server of 2025-11-25 may take its time to withdraw what it asked in a session.
    session.asks.withdraw();
    // The page may call again as soon as it hears of the end.
    session.end();
    match ended {
        Some(Ok(result)) => feed.tell("result", result_of(session, call, &result)),
        Some(Err(error)) => {
            feed.tell("failed", json!({"call": call, "error": chain(&error), "hint": hint(&error)}));
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

/// Waits for a task, and tells how it comes along.
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
    // How it ended, with all it did.
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

/// What the page is told of a result.
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
    // The run's trace has its own place.
    if let Some(result) = result.as_object_mut() {
        result.remove("_meta");
    }
    json!({"call": call, "result": result, "rows": rows})
}

/// What to do about an error.
fn hint(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Connect { .. } => "Is the server still running? Connect again when it is.",
        Error::Unauthorized { .. } => "Start `antiphon studio` with the server and `--token`.",
        Error::Lost { .. } => "The server may have stopped; look at its log before you call again.",
        Error::TaskUnknown { .. } => "The task has expired. Call the tool again.",
        Error::PagesRequired(_) => "Call again, and open the page it asks for.",
        // There is no such method, or the client has not said that it answers samples.
        Error::Server { code: -32601 | -32021, .. } => {
            "Perhaps the tool wants a model. Start `antiphon studio` with `--model` or `--model-url`."
        }
        _ => return None,
    })
}
