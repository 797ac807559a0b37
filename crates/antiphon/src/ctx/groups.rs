use std::future::Future;

use super::Ctx;
use crate::{error::Result, run::set_group};

impl Ctx {
    /// Shows the tools of `group` to the caller, and sends `notifications/tools/list_changed`. A tool is in a group if
    /// you add it with [`Tool::in_group`](crate::Tool::in_group).
    ///
    /// If the request has a session (MCP 2025-11-25), the server enables the group in this session. The group stays
    /// enabled on all replicas until the session ends.
    ///
    /// MCP 2026-07-28 has no sessions. In this revision, the server enables the group for the authenticated caller, in
    /// all requests without a session. All enabled groups of a caller expire 24 hours after the last change of these
    /// groups. The server sends no notification when the groups expire. Groups without a session need a
    /// [backend](crate::ServerBuilder::with_backend).
    ///
    /// In a tool of a [mounted](crate::ServerBuilder::mount) server, `group` is a group of the mounted server.
    ///
    /// # Replay
    ///
    /// This method is a [step](Self::step). On replay, the server does not enable the group again. If the group is
    /// already enabled, the method changes nothing and sends no notification.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) in these cases:
    ///
    /// - No tool is in this group.
    /// - The request has no session, and the caller is not authenticated.
    /// - The request has no session, and the server has no backend.
    /// - The run is a task of MCP 2025-11-25. Such a task has no session.
    ///
    /// Returns an error if the server cannot store the group. In this case, the store can still contain the change.
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

    /// Hides the tools of `group` from the caller again. See [`enable_group`](Self::enable_group). Runs that have
    /// already started continue.
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
