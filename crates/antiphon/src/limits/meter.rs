//! The state of a rate limit.

use std::time::Duration;

use tokio::time::Instant;

use super::Rate;

/// The state of a [`Rate`]. One point in time is enough to represent it.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// The time at which the complete burst is available again.
    full: Option<Instant>,
}

impl Meter {
    /// Returns the duration from `now` until the complete burst is available.
    fn missing(&self, now: Instant) -> Duration {
        self.full.map_or(Duration::ZERO, |full| full.saturating_duration_since(now))
    }

    /// Takes one unit, or returns the wait until one is available.
    pub(super) fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let missing = self.missing(now) + rate.time(1);
        match missing.checked_sub(rate.burst()) {
            None | Some(Duration::ZERO) => {
                self.full = Some(now + missing);
                Ok(())
            }
            Some(wait) => Err(wait),
        }
    }

    /// Checks that something is available, or returns the wait until it is.
    pub(super) fn look(&self, rate: Rate, now: Instant) -> Result<(), Duration> {
        match self.missing(now).checked_sub(rate.burst()) {
            None => Ok(()),
            Some(wait) => Err(wait + rate.time(1)),
        }
    }

    /// Takes `count` units, even if fewer are available. Later requests then wait longer.
    pub(super) fn spend(&mut self, rate: Rate, count: u64, now: Instant) {
        self.full = Some(now + (self.missing(now) + rate.time(count)));
    }

    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.missing(now).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_is_there_at_once_and_then_comes_back_evenly() {
        let (rate, now) = (Rate::per_second(10).with_burst(5), Instant::now());
        let mut meter = Meter::default();
        for _ in 0..5 {
            meter.take(rate, now).unwrap();
        }
        assert_eq!(meter.take(rate, now), Err(SECOND / 10));
        assert_eq!(meter.take(rate, now + SECOND / 20), Err(SECOND / 20));
        meter.take(rate, now + SECOND / 10).unwrap();
        meter.take(rate, now + SECOND / 10).unwrap_err();
        for _ in 0..5 {
            meter.take(rate, now + 10 * SECOND).unwrap();
        }
        meter.take(rate, now + 10 * SECOND).unwrap_err();
    }

    #[test]
    fn what_was_spent_beyond_the_burst_is_paid_back_first() {
        let (rate, now) = (Rate::per_second(100), Instant::now());
        let mut meter = Meter::default();
        meter.look(rate, now).unwrap();
        meter.spend(rate, 400, now);
        let wait = meter.look(rate, now).unwrap_err();
        assert!(wait > 3 * SECOND && wait < 4 * SECOND, "{wait:?}");
        meter.look(rate, now + wait).unwrap();
        assert!(!meter.is_full(now + wait) && meter.is_full(now + 4 * SECOND));
    }

    #[test]
    fn nothing_overflows() {
        let mut meter = Meter::default();
        let (rate, now) = (Rate::new(1, Duration::MAX), Instant::now());
        meter.spend(rate, u64::MAX, now);
        meter.spend(rate, u64::MAX, now);
        assert!(meter.take(rate, now).is_err());
        assert_eq!(Rate::new(0, SECOND), Rate::new(1, SECOND));
    }
}
