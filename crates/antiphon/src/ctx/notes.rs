use serde::Serialize;

use super::Ctx;
use crate::protocol::{Level, Note};

impl Ctx {
    /// Sends a log message to the client. `data` is text or any other serializable value.
    ///
    /// The server sends the log message only if the client requested messages of the level `level`. On MCP 2025-11-25,
    /// the client sets the level with `logging/setLevel`. On MCP 2026-07-28, each request can set the level.
    ///
    /// # Replay
    ///
    /// During replay, the server does not send the log message again.
    pub fn log(&self, level: Level, data: impl Serialize) {
        self.log_as(None, level, data);
    }

    /// Sends a log message with the name of a logger to the client. See [`log`](Self::log).
    pub fn log_from(&self, logger: &str, level: Level, data: impl Serialize) {
        self.log_as(Some(logger), level, data);
    }

    fn log_as(&self, logger: Option<&str>, level: Level, data: impl Serialize) {
        if !self.run.client.wants(level) {
            return;
        }
        match serde_json::to_value(data) {
            Ok(data) => self.run.note(Note::Log { level, logger: logger.map(str::to_owned), data }),
            Err(error) => {
                tracing::warn!(%error, "a log message of a tool was dropped: it cannot be serialized as JSON");
            }
        }
    }

    /// Returns the lowest log level that the client requested. Returns `None` if the client requested no log messages.
    /// Returns `None` in a task if no request currently waits for this task. See [`log`](Self::log).
    pub fn log_level(&self) -> Option<Level> {
        const LEVELS: [Level; 8] = [
            Level::Debug,
            Level::Info,
            Level::Notice,
            Level::Warning,
            Level::Error,
            Level::Critical,
            Level::Alert,
            Level::Emergency,
        ];
        LEVELS.into_iter().find(|level| self.run.client.wants(*level))
    }

    /// Reports the tool's progress to the client.
    ///
    /// The server sends the progress only if the caller requested progress notifications, and only if the progress is
    /// higher than the last reported progress. In a task, the text of the progress also becomes the task's status
    /// message.
    ///
    /// # Replay
    ///
    /// During replay, the server does not send the progress notification again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # async fn example(ctx: &Ctx, _: ()) -> Result<()> {
    /// let files = ["a.csv", "b.csv"];
    /// for (read, file) in files.iter().enumerate() {
    ///     ctx.progress(Progress::of(read, files.len()).message(format!("reading {file}")));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress(&self, progress: impl Into<Progress>) {
        if self.run.persistence().is_some() || self.run.client.has_progress_token() {
            let Progress { done, total, message } = progress.into();
            self.run.note(Note::Progress { progress: done, total, message });
        }
    }
}

/// The progress of a tool. A progress consists of a value, an optional total and an optional text.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    done: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl Progress {
    /// Creates a progress that states that `done` of `total` parts are done, for example 3 of 10 files.
    ///
    /// You can pass any primitive number type as `done` and `total`.
    pub fn of(done: impl Amount, total: impl Amount) -> Self {
        Self { done: done.amount(), total: Some(total.amount()), message: None }
    }

    /// Sets a text that describes the progress to the user. Default: none.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

impl<T: Amount> From<T> for Progress {
    fn from(progress: T) -> Self {
        Self { done: progress.amount(), total: None, message: None }
    }
}

/// A number of any primitive type, for use in [`Progress`]. MCP represents progress as a 64-bit float, so integers
/// above 2⁵³ are rounded.
pub trait Amount {
    /// Converts the number into a 64-bit float.
    fn amount(self) -> f64;
}

macro_rules! exact {
    ($($number:ty)*) => {$(
        impl Amount for $number {
            fn amount(self) -> f64 {
                self.into()
            }
        }
    )*};
}

macro_rules! rounded {
    ($($number:ty)*) => {$(
        impl Amount for $number {
            #[expect(clippy::cast_precision_loss, reason = "the documentation of the trait says so")]
            fn amount(self) -> f64 {
                self as f64
            }
        }
    )*};
}

exact!(u8 u16 u32 i8 i16 i32 f32 f64);
rounded!(u64 u128 usize i64 i128 isize);
