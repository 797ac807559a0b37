use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

/// An estimate of the server's clock, in milliseconds since 1970.
///
/// NATS 2.9 reports its time only in messages and consumers. So this crate creates a temporary consumer, and reads the
/// server's time from the description of this consumer. Between two reads, the crate adds the elapsed time of the local
/// monotonic clock. The clock estimates of all handles differ by no more than the latency of a message, even if the
/// clocks of the machines are wrong.
#[derive(Debug)]
pub(super) struct Clock {
    origin: Instant,
    /// The server's time at `origin`.
    server: AtomicU64,
}

impl Clock {
    pub(super) fn new() -> Self {
        let local = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self { origin: Instant::now(), server: AtomicU64::new(millis(local)) }
    }

    pub(super) fn now(&self) -> u64 {
        self.server.load(Ordering::Relaxed) + millis(self.origin.elapsed())
    }

    /// Sets the estimate of the server's clock. The parameter `server` is the server's time at some moment between
    /// `asked` and now.
    pub(super) fn set(&self, asked: Instant, server: u64) {
        let middle = asked.duration_since(self.origin) + asked.elapsed() / 2;
        self.server.store(server.saturating_sub(millis(middle)), Ordering::Relaxed);
    }
}

/// Converts a duration to milliseconds, at most a quarter of `u64::MAX`, so that sums do not overflow.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(u64::MAX / 4)
}

/// Returns the duration from `now` to `then`.
pub(super) fn until(then: u64, now: u64) -> Duration {
    Duration::from_millis(then.saturating_sub(now))
}
