//! What a 2025-11-25 session keeps, and what it hears of.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    RoleServer,
    model::{LoggingLevel, ResourceUpdatedNotificationParam},
    service::Peer,
};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::server::{Change, Changes};

/// What a 2025-11-25 client has set for its session.
#[derive(Debug)]
pub(super) struct Session {
    settings: Arc<Settings>,
    closed: CancellationToken,
    _close: DropGuard,
}

#[derive(Debug)]
struct Settings {
    level: Mutex<LoggingLevel>,
    subscribed: Mutex<BTreeSet<String>>,
}

/// A client that has not said otherwise hears of what is worth knowing.
pub(super) const DEFAULT_LEVEL: LoggingLevel = LoggingLevel::Info;

impl Session {
    pub(super) fn level(&self) -> LoggingLevel {
        *lock(&self.settings.level)
    }

    pub(super) fn set_level(&self, level: LoggingLevel) {
        *lock(&self.settings.level) = level;
    }

    pub(super) fn subscribe(&self, uri: String) {
        lock(&self.settings.subscribed).insert(uri);
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        lock(&self.settings.subscribed).remove(uri);
    }

    /// Tells the client what changes, until the session ends.
    pub(super) fn forward(&self, changes: &Changes, peer: Peer<RoleServer>) {
        tokio::spawn(forward(changes.subscribe(), Arc::clone(&self.settings), peer, self.closed.clone()));
    }
}

impl Default for Session {
    fn default() -> Self {
        let closed = CancellationToken::new();
        let settings = Settings { level: Mutex::new(DEFAULT_LEVEL), subscribed: Mutex::default() };
        Self { settings: Arc::new(settings), _close: closed.clone().drop_guard(), closed }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next change, however many were missed. `None` when there will be no more.
pub(super) async fn next_change(changes: &mut Receiver<Change>) -> Option<Change> {
    loop {
        match changes.recv().await {
            Ok(change) => return Some(change),
            Err(RecvError::Lagged(missed)) => tracing::debug!(missed, "a client is slower than what changes"),
            Err(RecvError::Closed) => return None,
        }
    }
}

/// Tells a 2025-11-25 session what changes, until it ends.
async fn forward(
    mut changes: Receiver<Change>,
    settings: Arc<Settings>,
    peer: Peer<RoleServer>,
    closed: CancellationToken,
) {
    loop {
        let change = tokio::select! {
            () = closed.cancelled() => return,
            change = next_change(&mut changes) => change,
        };
        let sent = match change {
            None => return,
            Some(Change::Tools) => peer.notify_tool_list_changed().await,
            Some(Change::Prompts) => peer.notify_prompt_list_changed().await,
            Some(Change::Resources) => peer.notify_resource_list_changed().await,
            Some(Change::Resource(uri)) if lock(&settings.subscribed).contains(&uri) => {
                peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
            }
            Some(Change::Resource(_)) => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
}
