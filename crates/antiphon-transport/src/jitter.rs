//! Random delays, which prevent many clients or replicas from acting at the same moment.

use std::time::Duration;

/// Returns a random duration of at least `least` and at most `most`.
pub fn between(least: Duration, most: Duration) -> Duration {
    let mut bytes = [0; 2];
    // Without a random number, the shortest delay is used.
    let part = getrandom::fill(&mut bytes).map_or(0, |()| u16::from_le_bytes(bytes));
    least + most.saturating_sub(least).mul_f64(f64::from(part) / f64::from(u16::MAX))
}

/// Returns a random duration that differs from `interval` by at most a quarter.
pub fn around(interval: Duration) -> Duration {
    between(interval * 3 / 4, interval * 5 / 4)
}

/// Returns the time that a client waits before it opens a broken stream again: a random duration from 1 to 5 seconds.
pub fn reconnect() -> Duration {
    between(Duration::from_secs(1), Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn intervals_are_spread_by_a_quarter() {
        let interval = Duration::from_secs(8);
        let waits: BTreeSet<_> = std::iter::repeat_with(|| around(interval)).take(1000).collect();
        assert!(*waits.first().unwrap() >= Duration::from_secs(6), "{waits:?}");
        assert!(*waits.last().unwrap() <= Duration::from_secs(10), "{waits:?}");
        assert!(waits.len() > 900, "{} different waits of 1000", waits.len());
    }

    #[test]
    fn reconnects_are_spread_over_four_seconds() {
        let waits: BTreeSet<_> = std::iter::repeat_with(reconnect).take(1000).collect();
        assert!(*waits.first().unwrap() >= Duration::from_secs(1));
        assert!(*waits.last().unwrap() <= Duration::from_secs(5));
        assert!(waits.len() > 900, "{} different waits of 1000", waits.len());
        assert!(*waits.first().unwrap() < Duration::from_secs(2), "{waits:?}");
        assert!(*waits.last().unwrap() > Duration::from_secs(4), "{waits:?}");
    }
}
