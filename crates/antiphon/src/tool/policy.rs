use std::time::Duration;

/// Whether a tool's runs may become tasks.
///
/// A task outlives the request that began it: the client is given its id, and asks for the result later. On 2025-11-25
/// the client says that it wants one (`execution.taskSupport` tells it whether it may); on 2026-07-28 the server decides,
/// for clients that have declared the extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskPolicy {
    /// Never: the client waits for the answer. `taskSupport: "forbidden"`.
    Never,
    /// When it takes long: when the rounds a client will take run out, or after
    /// [`TaskConfig::with_promote_after`](crate::task::TaskConfig::with_promote_after). What the run has seen so far stays. On 2025-11-25: when the client wants one,
    /// `taskSupport: "optional"`.
    #[default]
    WhenLong,
    /// Always: a client that knows no tasks cannot call it. `taskSupport: "required"`.
    Always,
}

/// How often, and after which time, a run is tried again whose tool returned an error that is not
/// [terminal](crate::Error::terminal).
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
    /// An error is final at once.
    pub fn never() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// Sets how often a run is tried, including the first time. Default: 3.
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

    /// Sets by which factor each delay is longer than the one before. Default: 2.
    #[must_use]
    pub fn with_factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets the longest delay. Default: 1 minute.
    #[must_use]
    pub fn with_max_backoff(mut self, max_backoff: Duration) -> Self {
        self.max_backoff = max_backoff;
        self
    }

    /// What is wrong with it, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.attempts == 0 {
            return Some("`RetryPolicy::with_attempts` is 0; a run is tried at least once".into());
        }
        let is_wrong = !self.factor.is_finite() || self.factor < 1.0;
        is_wrong.then(|| format!("`RetryPolicy::with_factor` is {}; it must be 1 or more", self.factor))
    }

    /// How long to wait after so many failures.
    pub(crate) fn wait(&self, failures: u32) -> Duration {
        let exponent = failures.saturating_sub(1).min(64);
        let factor = self.factor.max(1.0).powi(i32::try_from(exponent).unwrap_or(64));
        let wait = self.backoff.as_secs_f64() * factor;
        Duration::try_from_secs_f64(wait).map_or(self.max_backoff, |wait| wait.min(self.max_backoff))
    }
}
