use std::time::Duration;

/// A quota for each principal or for each tool. By default, nothing is limited.
///
/// Each process counts separately. So three replicas behind a load balancer together accept up to three times the
/// quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    pub(crate) rate: Option<Rate>,
    pub(crate) concurrent: Option<usize>,
    pub(crate) bytes: Option<Rate>,
}

impl Quota {
    /// Sets the maximum rate of requests. Default: no limit.
    #[must_use]
    pub fn with_rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets the maximum number of concurrent calls, including calls that wait for users. Default: no limit.
    #[must_use]
    pub fn with_concurrent(mut self, calls: usize) -> Self {
        self.concurrent = Some(calls);
        self
    }

    /// Sets the maximum rate of bytes in arguments and answers. The count is approximate. Default: no limit.
    ///
    /// The server still answers the request that exceeds the limit, and rejects the next request.
    #[must_use]
    pub fn with_bytes(mut self, rate: Rate) -> Self {
        self.bytes = Some(rate);
        self
    }

    pub(super) fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// A rate limit: an amount per duration, and a burst that is allowed at once.
///
/// After a long enough idle time, the complete burst is available. Used amounts become available again at an even rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    amount: u64,
    per: Duration,
    burst: u64,
}

/// The maximum wait that a rate computes: 30 days.
const LONG: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Rate {
    /// Creates a rate of `amount` per `per`, with a burst of `amount`.
    pub const fn new(amount: u64, per: Duration) -> Self {
        let amount = if amount == 0 { 1 } else { amount };
        Self { amount, per, burst: amount }
    }

    /// Creates a rate of `amount` per second, with a burst of `amount`.
    pub const fn per_second(amount: u64) -> Self {
        Self::new(amount, Duration::from_secs(1))
    }

    /// Creates a rate of `amount` per minute, with a burst of `amount`.
    pub const fn per_minute(amount: u64) -> Self {
        Self::new(amount, Duration::from_secs(60))
    }

    /// Sets the largest amount that is allowed at once. Default: the amount of the rate.
    #[must_use]
    pub const fn with_burst(mut self, burst: u64) -> Self {
        self.burst = if burst == 0 { 1 } else { burst };
        self
    }

    /// Returns the time in which `count` units are refilled.
    pub(super) fn time(&self, count: u64) -> Duration {
        let nanos = self.per.as_nanos().saturating_mul(count.into()) / u128::from(self.amount);
        u64::try_from(nanos).map_or(LONG, Duration::from_nanos).min(LONG)
    }

    /// Returns the time in which the complete burst is refilled.
    pub(super) fn burst(&self) -> Duration {
        self.time(self.burst)
    }
}
