//! The clock of the backend.
//!
//! All replicas use the clock of the backend to decide whether a result set has expired. If each replica used its own
//! clock, a replica whose clock is ahead would remove the result sets of other replicas.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};

use super::Shared;

/// The time for which a measured difference between the backend's clock and the local clock is used.
const BELIEVED: Duration = Duration::from_secs(60);

/// The difference between the backend's clock and the clock of this process, with the time of the measurement.
#[derive(Debug, Default)]
pub(super) struct StoreClock(Mutex<Option<(Instant, TimeDelta)>>);

impl StoreClock {
    fn last(&self) -> Option<(Instant, TimeDelta)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Returns the current time of the backend's clock, according to the last measured difference.
    pub(super) fn now(&self) -> DateTime<Utc> {
        Utc::now() + self.clock.last().map_or(TimeDelta::zero(), |(_, difference)| difference)
    }

    /// Returns how far the backend's clock is ahead of the clock of this process. If the difference of the clocks
    /// cannot be measured, returns the last measured difference, or zero.
    pub(super) async fn clock_difference(&self) -> TimeDelta {
        let last = self.clock.last();
        if let Some((measured, difference)) = last
            && measured.elapsed() < BELIEVED
        {
            return difference;
        }
        let asked = Utc::now();
        let difference = match self.store.now().await {
            Ok(now) => DateTime::<Utc>::from(now) - (asked + (Utc::now() - asked) / 2),
            Err(error) => {
                tracing::warn!(%error, "the clock of the backend cannot be read; the last known difference, or zero, is used");
                last.map_or(TimeDelta::zero(), |(_, difference)| difference)
            }
        };
        *self.clock.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), difference));
        difference
    }
}
