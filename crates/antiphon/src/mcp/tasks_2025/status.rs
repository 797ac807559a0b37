//! The 2025-11-25 form of a task, and the status notifications to sessions.

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

/// The maximum time between two reads of a followed task. Notifications between replicas can be lost, and tasks can
/// expire without a notification.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Converts a task into its flat JSON form.
pub(super) fn flat(view: &TaskView) -> Value {
    let mut task = json!({
        "taskId": view.id,
        "status": status(view),
        "createdAt": timestamp(view.created),
        "lastUpdatedAt": timestamp(view.updated),
        // The field is always present. `null` means that the task has no expiry.
        "ttl": view.ttl,
        "pollInterval": view.poll,
    });
    if let Some(message) = &view.message {
        task["statusMessage"] = message.as_str().into();
    }
    task
}

/// Returns the status of a task in 2025-11-25. In this revision, a tool error makes a task `failed`. On MCP
/// 2026-07-28, only a JSON-RPC error does this.
fn status(view: &TaskView) -> &'static str {
    match &view.ended {
        Some(Ended::Output(output)) if output.is_error => "failed",
        _ => view.status.name(),
    }
}

impl Handler {
    /// Sends status changes of a task to the session of the caller. The caller already has the current status from
    /// `view`.
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

/// Notifies a session of each new status of a task, until the task or the session has ended.
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
        // The registration happens before the read, so that a change after the read is not missed.
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
    // If several replicas serve the session, this ID makes it possible to find duplicate notifications.
    let id = format!("task {} {}", view.id, view.updated);
    notification.extensions.insert(ChangeId(id.into()));
    ServerNotification::CustomNotification(notification)
}
