use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Access, Action, DualResponseServer, Inner};
use crate::{error::ErrorCode, owner::Owner};

pub(crate) type Listener = Arc<dyn Fn(&AuditEvent) + Send + Sync>;

/// Somebody did something with a result set, or tried to. There are no rows, parameters or tokens in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEvent {
    /// When.
    pub at: DateTime<Utc>,
    /// What.
    pub action: Action,
    /// With which set.
    pub id: String,
    /// Who, as far as anybody knows.
    pub caller: Owner,
    /// Whether they came with a signed link.
    pub by_link: bool,
    /// How many rows were handed out.
    pub rows: u64,
    /// How many bytes of them.
    pub bytes: u64,
    /// Why it was not done, if it was not.
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

    /// The same, where there is nobody to speak of: the link or the credentials were no good.
    pub(crate) fn record(
        &self,
        caller: Owner,
        by_link: bool,
        action: Action,
        id: &str,
        (rows, bytes): (u64, u64),
        refused: Option<ErrorCode>,
    ) {
        // An id that was refused may be anything at all.
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
    /// Is told who did what, beside whoever [keeps the audit](super::DualResponseServerOptions::with_audit): for whoever counts. There
    /// is one such; says whether this is it.
    pub fn watch(&self, listener: impl Fn(&AuditEvent) + Send + Sync + 'static) -> bool {
        self.inner.watcher.set(Arc::new(listener)).is_ok()
    }
}
