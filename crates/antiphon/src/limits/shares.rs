//! The use of quotas, by caller or by tool.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use super::{Quota, meter::Meter, refused::Over};

/// The number of shares from which on idle ones are removed.
const SWEEP_THRESHOLD: usize = 1024;

/// The use of a [`Quota`] by each caller, or by each tool.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    of: HashMap<String, Share>,
    /// The number of shares at which idle ones are removed next.
    sweep: usize,
}

#[derive(Debug, Default)]
struct Share {
    open: usize,
    rate: Meter,
    bytes: Meter,
}

impl Shares {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one request of `name` that ends immediately.
    pub(super) fn tick(&self, name: &str, quota: &Quota) -> Result<(), Over> {
        let Some(rate) = quota.rate else { return Ok(()) };
        let now = Instant::now();
        self.taken().share(name, now).rate.take(rate, now).map_err(Over::Rate)
    }

    /// Counts one call of `name`, which lasts until the returned value is dropped.
    pub(super) fn enter(&self, name: &str, quota: &Quota, bytes: u64) -> Result<Option<Held>, Over> {
        if quota.is_unlimited() {
            return Ok(None);
        }
        let now = Instant::now();
        let mut taken = self.taken();
        let share = taken.share(name, now);
        if let Some(most) = quota.concurrent.filter(|most| share.open >= *most) {
            return Err(Over::Concurrent(most));
        }
        if let Some(rate) = quota.bytes {
            share.bytes.look(rate, now).map_err(Over::Bytes)?;
        }
        if let Some(rate) = quota.rate {
            share.rate.take(rate, now).map_err(Over::Rate)?;
        }
        if let Some(rate) = quota.bytes {
            share.bytes.spend(rate, bytes, now);
        }
        share.open += 1;
        Ok(Some(Held { shares: self.clone(), name: name.to_owned(), quota: *quota }))
    }
}

impl Taken {
    fn share(&mut self, name: &str, now: Instant) -> &mut Share {
        if !self.of.contains_key(name) {
            if self.of.len() >= self.sweep.max(SWEEP_THRESHOLD) {
                self.of.retain(|_, share| {
                    share.open > 0 || !share.rate.is_full(now) || !share.bytes.is_full(now)
                });
                // Removing idle shares again at twice the number keeps the cost of an insertion constant on average.
                self.sweep = 2 * self.of.len();
            }
            self.of.insert(name.to_owned(), Share::default());
        }
        self.of.get_mut(name).expect("whoever was not there was added")
    }
}

/// A call in progress.
pub(super) struct Held {
    shares: Shares,
    name: String,
    quota: Quota,
}

impl Held {
    /// Counts more bytes of the call.
    pub(super) fn spend(&self, bytes: u64) {
        let Some(rate) = self.quota.bytes else { return };
        let now = Instant::now();
        self.shares.taken().share(&self.name, now).bytes.spend(rate, bytes, now);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(share) = self.shares.taken().of.get_mut(&self.name) {
            share.open = share.open.saturating_sub(1);
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("quota", &self.quota).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::Rate, *};

    #[tokio::test(start_paused = true)]
    async fn nobody_pays_for_another() {
        let shares = Shares::default();
        let quota = Quota::default().with_concurrent(1).with_rate(Rate::per_second(2));
        let ada = shares.enter("ada", &quota, 0).unwrap();
        assert_eq!(shares.enter("ada", &quota, 0).unwrap_err(), Over::Concurrent(1));
        let _grace = shares.enter("grace", &quota, 0).unwrap();
        drop(ada);
        drop(shares.enter("ada", &quota, 0).unwrap());
        let over = shares.enter("ada", &quota, 0).unwrap_err();
        assert_eq!(over, Over::Rate(Duration::from_millis(500)));
        tokio::time::advance(Duration::from_millis(500)).await;
        shares.tick("ada", &quota).unwrap();
        shares.tick("ada", &quota).unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_answer_takes_is_missing_at_the_next_request() {
        let shares = Shares::default();
        let quota = Quota::default().with_bytes(Rate::per_second(1000));
        let held = shares.enter("ada", &quota, 10).unwrap().unwrap();
        held.spend(2500);
        drop(held);
        assert!(matches!(shares.enter("ada", &quota, 10), Err(Over::Bytes(_))));
        tokio::time::advance(Duration::from_secs(2)).await;
        shares.enter("ada", &quota, 10).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_take_nothing_are_forgotten() {
        let shares = Shares::default();
        let quota = Quota::default().with_rate(Rate::per_second(1)).with_concurrent(1);
        let stays = shares.enter("stays", &quota, 0).unwrap();
        for n in 0..5 * SWEEP_THRESHOLD {
            tokio::time::advance(Duration::from_secs(1)).await;
            drop(shares.enter(&n.to_string(), &quota, 0).unwrap());
        }
        let taken = shares.taken();
        assert!(taken.of.len() <= 2 * SWEEP_THRESHOLD, "{}", taken.of.len());
        assert_eq!(taken.of["stays"].open, 1);
        drop(taken);
        drop(stays);
    }
}
