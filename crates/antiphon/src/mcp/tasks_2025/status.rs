//! The JSON format of a task in MCP 2025-11-25, and the notifications that report status changes to sessions.

use std::{sync::Arc, time::Duration};

use antiphon_transport::session::ChangeId;
use rmcp::{
    RoleServer,
    model::{CustomNotification, ServerNotification},
    service::Peer,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    base::timestamp,
    error::Capability,
    mcp::{Client, Handler, session::FollowGuard, tasks_2026},
    task::{Ended, Owner, TaskView, Tasks},
};

/// The maximum time between two reads of a task that a session follows. These reads are necessary, because replicas can
/// lose notifications, and tasks can expire without a notification.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Converts a task into the JSON format of MCP 2025-11-25.
pub(super) fn flat(view: &TaskView) -> Value {
    let mut task = json!({
        "taskId": view.id,
        "status": status(view),
        "createdAt": timestamp(view.created),
        "lastUpdatedAt": timestamp(view.updated),
        // This field is always present. The value `null` means that the task does not expire.
        "ttl": view.ttl,
        "pollInterval": view.poll,
    });
    if let Some(message) = &view.message {
        task["statusMessage"] = message.as_str().into();
    }
    task
}

/// Returns the status of a task as MCP 2025-11-25 defines this status. On MCP 2025-11-25, a tool error sets the status
/// of a task to `failed`. On MCP 2026-07-28, only a JSON-RPC error sets the status to `failed`.
fn status(view: &TaskView) -> &'static str {
    match &view.ended {
        Some(Ended::Output(output)) if output.is_error => "failed",
        _ => view.status.name(),
    }
}

impl Handler {
    /// Sends status changes of a task to the caller's session. The caller has already received the status in `view`.
    pub(super) fn follow(
        &self,
        tasks: &Arc<Tasks>,
        view: &TaskView,
        client: &Client,
        peer: Peer<RoleServer>,
    ) {
        if view.status.is_final() || !client.supports(Capability::Session) {
            return;
        }
        let session = self.session(client.extensions());
        let Some(place) = session.follow(&view.id) else { return };
        let owner = tasks_2026::owner(&self.service, client.extensions());
        tokio::spawn(follow(Arc::clone(tasks), owner, place, status(view), peer, session.closed()));
    }
}

/// Notifies a session of each status change of a task, until the task or the session has ended.
async fn follow(
    tasks: Arc<Tasks>,
    owner: Owner,
    place: FollowGuard,
    told: &'static str,
    peer: Peer<RoleServer>,
    closed: CancellationToken,
) {
    let mut told = told;
    let news = tasks.news(place.id());
    loop {
        // The registration happens before the read of the task. So this function does not miss a change that happens
        // after the read.
        let heard = news.notified();
        match tasks.get(&owner, place.id()).await {
            Ok(Some(view)) => {
                let status = status(&view);
                if status != told && peer.send_notification(notification(&view)).await.is_err() {
                    return;
                }
                told = status;
                if view.status.is_final() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "the status of a task could not be read; its session is notified later");
            }
        }
        tokio::select! {
            () = closed.cancelled() => return,
            () = heard => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

fn notification(view: &TaskView) -> ServerNotification {
    let mut notification = CustomNotification::new("notifications/tasks/status", Some(flat(view)));
    // If several replicas serve the session, each replica can send this notification. This ID identifies the
    // duplicates.
    let id = format!("task {} {}", view.id, view.updated);
    notification.extensions.insert(ChangeId(id.into()));
    ServerNotification::CustomNotification(notification)
}
