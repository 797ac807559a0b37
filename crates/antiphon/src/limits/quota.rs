use std::time::Duration;

/// What a caller, or a tool, may take of a server. What is not set is not bounded.
///
/// Each process counts for itself: three replicas behind a balancer let through three times as much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    pub(crate) rate: Option<Rate>,
    pub(crate) concurrent: Option<usize>,
    pub(crate) bytes: Option<Rate>,
}

impl Quota {
    /// Sets how many requests per time. Default: no limit.
    #[must_use]
    pub fn with_rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets how many calls at the same time, including those that wait for people. Default: no limit.
    #[must_use]
    pub fn with_concurrent(mut self, calls: usize) -> Self {
        self.concurrent = Some(calls);
        self
    }

    /// Sets how many bytes of arguments and answers per time, approximately. Default: no limit.
    ///
    /// The request that exceeds the limit is still answered. The next one is rejected.
    #[must_use]
    pub fn with_bytes(mut self, rate: Rate) -> Self {
        self.bytes = Some(rate);
        self
    }

    pub(super) fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// So much in a time, on the whole; and so much of it at once.
///
/// Who has been quiet may take the whole burst; from then on it comes back evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    amount: u64,
    per: Duration,
    burst: u64,
}

/// Longer than anybody waits.
const LONG: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Rate {
    /// `amount` in `per`, and as much at once.
    pub const fn new(amount: u64, per: Duration) -> Self {
        let amount = if amount == 0 { 1 } else { amount };
        Self { amount, per, burst: amount }
    }

    /// So many a second, and as many at once.
    pub const fn per_second(amount: u64) -> Self {
        Self::new(amount, Duration::from_secs(1))
    }

    /// So many a minute, and as many at once.
    pub const fn per_minute(amount: u64) -> Self {
        Self::new(amount, Duration::from_secs(60))
    }

    /// Sets how many at once.
    #[must_use]
    pub const fn with_burst(mut self, burst: u64) -> Self {
        self.burst = if burst == 0 { 1 } else { burst };
        self
    }

    /// How long it takes until `count` come back.
    pub(super) fn time(&self, count: u64) -> Duration {
        let nanos = self.per.as_nanos().saturating_mul(count.into()) / u128::from(self.amount);
        u64::try_from(nanos).map_or(LONG, Duration::from_nanos).min(LONG)
    }

    /// How long it takes until all have.
    pub(super) fn burst(&self) -> Duration {
        self.time(self.burst)
    }
}
