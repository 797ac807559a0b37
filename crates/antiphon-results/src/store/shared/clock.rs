//! The clock of the backend.
//!
//! The lifetime of a set depends on a clock that all replicas have. If the clock of a replica were used, a replica whose
//! clock is ahead would remove the sets of other replicas.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};

use super::Shared;

/// The time for which a measured difference is used.
const BELIEVED: Duration = Duration::from_secs(60);

/// The difference of the backend's clock to the clock of this process, and the time of the measurement.
#[derive(Debug, Default)]
pub(super) struct StoreClock(Mutex<Option<(Instant, TimeDelta)>>);

impl StoreClock {
    fn last(&self) -> Option<(Instant, TimeDelta)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Returns the current time by the last known clock of the backend.
    pub(super) fn now(&self) -> DateTime<Utc> {
        Utc::now() + self.clock.last().map_or(TimeDelta::zero(), |(_, difference)| difference)
    }

    /// Returns how far the backend's clock is ahead of the clock of this process. If the difference cannot be measured,
    /// returns the last measured value, or zero.
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
