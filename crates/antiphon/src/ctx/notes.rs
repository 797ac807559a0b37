use serde::Serialize;

use super::Ctx;
use crate::protocol::{Level, Note};

impl Ctx {
    /// Tells the client's log something: a text, or any data.
    ///
    /// It is sent only if the client wants messages of this level: on 2025-11-25 as it has set with
    /// `logging/setLevel`, on 2026-07-28 as this very request says.
    ///
    /// # Replay
    ///
    /// Silent while the tool is being brought back to where it was.
    pub fn log(&self, level: Level, data: impl Serialize) {
        self.log_as(None, level, data);
    }

    /// As [`log`](Self::log), under a logger's name.
    pub fn log_from(&self, logger: &str, level: Level, data: impl Serialize) {
        self.log_as(Some(logger), level, data);
    }

    fn log_as(&self, logger: Option<&str>, level: Level, data: impl Serialize) {
        if !self.run.client.wants(level) {
            return;
        }
        match serde_json::to_value(data) {
            Ok(data) => self.run.note(Note::Log { level, logger: logger.map(str::to_owned), data }),
            Err(error) => tracing::warn!(%error, "a log message cannot be written as JSON"),
        }
    }

    /// Tells the client how far the tool has come.
    ///
    /// It is sent only if the caller asked for progress, and only if it is more than before.
    ///
    /// # Replay
    ///
    /// Silent while the tool is being brought back to where it was.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # async fn example(ctx: &Ctx, _: ()) -> Result<()> {
    /// ctx.notify(Progress::of(3.0, 10.0).message("three of ten files read"));
    /// ctx.notify(4.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn notify(&self, progress: impl Into<Progress>) {
        if self.run.persistence().is_some() || self.run.client.has_progress_token() {
            let Progress { done, total, message } = progress.into();
            self.run.note(Note::Progress { progress: done, total, message });
        }
    }
}

/// How far a tool has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    done: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl Progress {
    /// `done` out of `total`.
    pub fn of(done: impl Into<f64>, total: impl Into<f64>) -> Self {
        Self { done: done.into(), total: Some(total.into()), message: None }
    }

    /// Says it in words, too.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

impl<T: Into<f64>> From<T> for Progress {
    fn from(progress: T) -> Self {
        Self { done: progress.into(), total: None, message: None }
    }
}
