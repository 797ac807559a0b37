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

/// How far a tool has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    done: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl Progress {
    /// `done` out of `total`. Each is a number of any type.
    pub fn of(done: impl Amount, total: impl Amount) -> Self {
        Self { done: done.amount(), total: Some(total.amount()), message: None }
    }

    /// Says it in words, too.
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

/// A number of any type. MCP has progress as a double: above 2⁵³ it is rounded.
pub trait Amount {
    /// The number as it is sent.
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
