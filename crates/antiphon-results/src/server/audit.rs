use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Access, Action, DualResponseServer, Inner};
use crate::{error::ErrorCode, owner::Owner};

pub(crate) type Listener = Arc<dyn Fn(&AuditEvent) + Send + Sync>;

/// An audit record of an action on a result set, or of an action that the server rejected. An audit record contains no
/// rows, parameters or tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEvent {
    /// Time of the action.
    pub at: DateTime<Utc>,
    /// Action that was performed or rejected.
    pub action: Action,
    /// ID of the result set.
    pub id: String,
    /// Identity of the caller. The identity is empty if the caller is unknown, is the program itself, or used a signed
    /// link.
    pub caller: Owner,
    /// Whether the caller used a signed link.
    pub by_link: bool,
    /// Number of rows that the server returned to the caller.
    pub rows: u64,
    /// Number of bytes that the server returned to the caller.
    pub bytes: u64,
    /// Error code, if the action failed or was rejected.
    pub refused: Option<ErrorCode>,
}

impl Inner {
    pub(crate) fn audit(
        &self,
        access: &Access,
        action: Action,
        id: &str,
        (rows, bytes): (u64, u64),
        refused: Option<ErrorCode>,
    ) {
        self.record(access.owner(), matches!(access, Access::Link(_)), action, id, (rows, bytes), refused);
    }

    /// Records an audit event. Call `record` directly if no `Access` exists because the link or the credentials were
    /// invalid.
    pub(crate) fn record(
        &self,
        caller: Owner,
        by_link: bool,
        action: Action,
        id: &str,
        (rows, bytes): (u64, u64),
        refused: Option<ErrorCode>,
    ) {
        // The ID in a rejected request can be any text, so the record contains only 64 characters without control
        // characters.
        let id: String = id.chars().filter(|character| !character.is_control()).take(64).collect();
        let event = AuditEvent { at: self.now(), action, id, caller, by_link, rows, bytes, refused };
        tracing::info!(
            target: "antiphon_results::audit",
            action = ?event.action,
            id = event.id,
            tenant = event.caller.tenant,
            principal = event.caller.principal,
            by_link = event.by_link,
            rows,
            bytes,
            refused = refused.map(ErrorCode::as_str),
        );
        for listener in self.options.audit.iter().chain(self.watcher.get()) {
            listener(&event);
        }
    }
}

impl DualResponseServer {
    /// Sets a second function that is called for each audit event, for example to count metrics. The server calls the
    /// second listener in addition to the listener of [`with_audit`](super::DualResponseServerOptions::with_audit).
    /// Returns `false` if a second listener is already set.
    pub fn watch(&self, listener: impl Fn(&AuditEvent) + Send + Sync + 'static) -> bool {
        self.inner.watcher.set(Arc::new(listener)).is_ok()
    }
}
