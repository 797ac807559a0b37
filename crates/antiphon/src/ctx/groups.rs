use std::future::Future;

use super::Ctx;
use crate::{error::Result, run::set_group};

impl Ctx {
    /// Shows the tools of `group` to the caller, and sends `notifications/tools/list_changed`. To add a tool to a
    /// group, use [`Tool::in_group`](crate::Tool::in_group).
    ///
    /// If the request has a session (MCP 2025-11-25), the server enables the group in this session. The group stays
    /// enabled on all replicas until the session ends.
    ///
    /// MCP 2026-07-28 has no sessions, so the server enables the group for the authenticated caller, in all requests
    /// without a session. 24 hours after the last change of the caller's groups, all groups that are enabled for the
    /// caller expire. The server does not notify the client when the groups expire. To enable a group without a
    /// session, the server needs a [backend](crate::ServerBuilder::with_backend).
    ///
    /// In a tool of a [mounted](crate::ServerBuilder::mount) server, `group` is the name of a group of the mounted
    /// server.
    ///
    /// # Replay
    ///
    /// The method `enable_group` is a [step](Self::step). On replay, the server does not enable the group again. If the
    /// group is already enabled, `enable_group` changes nothing and sends no notification.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) in these cases:
    ///
    /// - No tool of the server is in the group.
    /// - The request has no session, and the caller is not authenticated.
    /// - The request has no session, and the server has no backend.
    /// - The run is a task of MCP 2025-11-25, because such a task has no session.
    ///
    /// Returns an error if the server cannot store the group. After such an error, the store can still contain the
    /// change.
    ///
    /// # Examples
    ///
    /// ```
    /// use antiphon::prelude::*;
    ///
    /// async fn unlock(ctx: &Ctx, _: ()) -> Result<&'static str> {
    ///     ctx.enable_group("admin").await?;
    ///     Ok("The administration tools are available now.")
    /// }
    ///
    /// async fn erase(_: &Ctx, _: ()) -> Result<&'static str> {
    ///     Ok("erased")
    /// }
    ///
    /// let server = Server::builder("notes", "1.0.0")
    ///     .tool(Tool::new("unlock", "Shows the administration tools", unlock))
    ///     .tool(Tool::new("erase", "Erases all notes", erase).in_group("admin"))
    ///     .build()?;
    /// # let _ = server;
    /// # Ok::<(), antiphon::BuildError>(())
    /// ```
    pub fn enable_group(&self, group: impl Into<String>) -> impl Future<Output = Result<()>> + Send {
        self.set_group(group.into(), true)
    }

    /// Hides the tools of `group` from the caller again. Runs that have already started continue. See
    /// [`enable_group`](Self::enable_group).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`enable_group`](Self::enable_group).
    pub fn disable_group(&self, group: impl Into<String>) -> impl Future<Output = Result<()>> + Send {
        self.set_group(group.into(), false)
    }

    fn set_group(&self, group: String, enabled: bool) -> impl Future<Output = Result<()>> + Send + '_ {
        let action = if enabled { "enable" } else { "disable" };
        let step = format!("{action} group {group}");
        let group = self.mounts.group(group);
        self.step(&step, move || async move { set_group(&self.run, &group, enabled).await })
    }
}
