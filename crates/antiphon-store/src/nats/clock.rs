use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

/// The server's clock, as well as it is known here, in milliseconds since 1970.
///
/// NATS 2.9 tells its time only in what it stores and makes, so it is taken from a consumer made for that
/// purpose and carried on with the local monotonic clock. All openings thus agree to within the time that a
/// message travels, however wrong the clocks of their machines are.
#[derive(Debug)]
pub(super) struct Clock {
    origin: Instant,
    /// What the server's clock showed at `origin`.
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

    /// Sets it: the server showed `server` at some time after `asked` and before now.
    pub(super) fn set(&self, asked: Instant, server: u64) {
        let middle = asked.duration_since(self.origin) + asked.elapsed() / 2;
        self.server.store(server.saturating_sub(millis(middle)), Ordering::Relaxed);
    }
}

/// Milliseconds, at most some hundred million years of them, so that sums do not overflow.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(u64::MAX / 4)
}

/// How long it is from `now` until `then`.
pub(super) fn until(then: u64, now: u64) -> Duration {
    Duration::from_millis(then.saturating_sub(now))
}
