use std::time::Duration;

/// Whether runs of a tool can become tasks.
///
/// A task outlives the request that started it. The client of a task receives the ID of the task and fetches the result
/// later. On MCP 2025-11-25, the client decides whether a call becomes a task, within the tool's
/// `execution.taskSupport`. On MCP 2026-07-28, the server decides, and the client must have declared the extension for
/// tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskPolicy {
    /// Runs never become tasks. The client waits for the result. On MCP 2025-11-25, `taskSupport` is `"forbidden"`.
    Never,
    /// A run becomes a task if the run takes a long time. On MCP 2026-07-28, the run becomes a task when the client has
    /// no rounds (repeated requests) left, or after
    /// [`TaskConfig::with_promote_after`](crate::task::TaskConfig::with_promote_after). A run that becomes a task keeps
    /// its journal. On MCP 2025-11-25, a run becomes a task if the client requests a task, and `taskSupport` is
    /// `"optional"`.
    #[default]
    WhenLong,
    /// Every run is a task. A client that does not support tasks can call the tool only if the server has
    /// [`ServerBuilder::with_asking`](crate::ServerBuilder::with_asking). On MCP 2025-11-25, `taskSupport` is
    /// `"required"`, or `"optional"` with `with_asking`.
    Always,
}

/// The number of attempts for a task, and the delays between attempts. The server retries a task after an error that is
/// not [terminal](crate::Error::terminal).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    pub(crate) attempts: u32,
    pub(crate) backoff: Duration,
    pub(crate) factor: f64,
    pub(crate) max_backoff: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            backoff: Duration::from_secs(1),
            factor: 2.0,
            max_backoff: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// Creates a policy without retries.
    pub fn never() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// Sets the number of attempts, including the first attempt. Default: 3.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the delay before the second attempt. Default: 1 second.
    #[must_use]
    pub fn with_backoff(mut self, backoff: Duration) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the factor by which the delay grows after each attempt. Default: 2.
    #[must_use]
    pub fn with_factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets the longest delay between two attempts. Default: 1 minute.
    #[must_use]
    pub fn with_max_backoff(mut self, max_backoff: Duration) -> Self {
        self.max_backoff = max_backoff;
        self
    }

    /// Returns a description of the problem if the policy is invalid.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.attempts == 0 {
            return Some("`RetryPolicy::with_attempts` is 0, so no run could start; set 1 or more".into());
        }
        let is_wrong = !self.factor.is_finite() || self.factor < 1.0;
        is_wrong.then(|| format!("`RetryPolicy::with_factor` is {}; set 1 or more", self.factor))
    }

    /// Returns the delay after `failures` failed attempts.
    pub(crate) fn wait(&self, failures: u32) -> Duration {
        let exponent = failures.saturating_sub(1).min(64);
        let factor = self.factor.max(1.0).powi(i32::try_from(exponent).unwrap_or(64));
        let wait = self.backoff.as_secs_f64() * factor;
        Duration::try_from_secs_f64(wait).map_or(self.max_backoff, |wait| wait.min(self.max_backoff))
    }
}
