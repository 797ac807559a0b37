//! A tool call.

use std::{fmt, future::IntoFuture, sync::Arc, time::Duration};

use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use super::{Connection, request::Options};
use crate::{
    error::{Error, Result},
    event::{Progress, Round},
    form::BoxFuture,
};

/// A tool call that is not sent yet. `.await` sends the call and waits for the result. [`as_task`](Self::as_task) runs
/// the call as a task.
#[must_use = "a tool is called when the call is awaited"]
pub struct Call<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) tool: String,
    pub(super) arguments: Result<Value, String>,
    pub(crate) options: Options,
}

impl Call<'_> {
    /// Sets a function that receives each progress report of the call. Default: none.
    pub fn progress(mut self, listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.options.progress = Some(Arc::new(listener));
        self
    }

    /// Sets a function that the host calls after each round of the call. Default: none.
    pub fn rounds(mut self, listener: impl Fn(Round) + Send + Sync + 'static) -> Self {
        self.options.rounds = Some(Arc::new(listener));
        self
    }

    /// Sets the maximum time to wait for each response of the server. Default: the timeout of
    /// [`HostLimits`](crate::HostLimits).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Requests log messages from an MCP 2026-07-28 server during the call. `level` is the minimum level, from `debug`
    /// to `emergency`. Default: no log messages.
    pub fn log_level(mut self, level: impl Into<String>) -> Self {
        self.options.log_level = Some(level.into());
        self
    }

    /// Returns the parameters of the `tools/call` request.
    pub(crate) fn params(&self) -> Result<Value> {
        let arguments = self.arguments.clone().map_err(Error::Misuse)?;
        Ok(json!({"name": self.tool, "arguments": arguments}))
    }
}

impl<'a> IntoFuture for Call<'a> {
    type Output = Result<CallToolResult>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let told = self.connection.answering().telling.call(&self.tool);
        Box::pin(told.within(crate::task::call(self)))
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("tool", &self.tool).finish_non_exhaustive()
    }
}
