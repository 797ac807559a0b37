//! A call of a tool.

use std::{fmt, future::IntoFuture, sync::Arc, time::Duration};

use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use super::{Connection, request::Options};
use crate::{
    error::{Error, Result},
    event::{Progress, Round},
    form::BoxFuture,
};

/// A call of a tool, not yet made. `.await` makes it; [`as_task`](Self::as_task) makes it a task.
#[must_use = "a tool is called when the call is awaited"]
pub struct Call<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) tool: String,
    pub(super) arguments: Result<Value, String>,
    pub(crate) options: Options,
}

impl Call<'_> {
    /// Is told how the call comes along.
    pub fn progress(mut self, listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.options.progress = Some(Arc::new(listener));
        self
    }

    /// Is told of each round of the call, when the server has answered.
    pub fn rounds(mut self, listener: impl Fn(Round) + Send + Sync + 'static) -> Self {
        self.options.rounds = Some(Arc::new(listener));
        self
    }

    /// Bounds how long each answer may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Asks a 2026-07-28 server for its log while the call runs: `debug` to `emergency`.
    pub fn log_level(mut self, level: impl Into<String>) -> Self {
        self.options.log_level = Some(level.into());
        self
    }

    /// What is sent.
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
