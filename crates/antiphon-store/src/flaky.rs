//! A backend that fails on purpose, for tests. Two backends with the same seed have the same faults.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    bus::{Bus, Subscription},
    error::{Error, Result},
    queue::{DeadJob, Depth, Job, Lease, NewJob, Pushed, Queue},
    store::{Cursor, Page, Record, Revision, Store},
};

thread_local! {
    static PAUSES: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes the pauses of [`Retrying`](crate::Retrying) on this thread repeatable. `None` makes the pauses random again.
pub fn seed_pauses(seed: Option<u64>) {
    PAUSES.set(seed);
}

/// Returns the next seeded number, if this thread has a seed.
pub(crate) fn seeded() -> Option<u64> {
    let next = PAUSES.get()?.wrapping_add(1);
    PAUSES.set(Some(next));
    Some(mix(next))
}

/// A wrapper around a [`Store`], a [`Queue`] or a [`Bus`] that sometimes injects a fault.
///
/// The wrapper fails a call, delays the call, or applies the call and then reports a failure.
#[derive(Debug)]
pub struct Flaky<T: ?Sized> {
    inner: Arc<T>,
    config: FlakyConfig,
    calls: AtomicU64,
}

/// The number of faults of each kind that [`Flaky`] injects into 1000 calls.
#[derive(Clone, Debug)]
pub struct FlakyConfig {
    seed: u64,
    refused: u64,
    lost: u64,
    unreported: u64,
    delayed: u64,
    delay: Duration,
}

impl FlakyConfig {
    /// Creates a configuration with the default rates. `seed` is the seed of the random number generator that selects
    /// the faults.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, refused: 50, lost: 50, unreported: 50, delayed: 100, delay: Duration::from_millis(10) }
    }

    /// Sets the number of calls per 1000 that have no effect and return [`Error::Busy`]. Default: 50.
    #[must_use]
    pub fn with_refused(mut self, calls: u64) -> Self {
        self.refused = calls;
        self
    }

    /// Sets the number of calls per 1000 that have no effect and return [`Error::Backend`]. Default: 50.
    #[must_use]
    pub fn with_lost(mut self, calls: u64) -> Self {
        self.lost = calls;
        self
    }

    /// Sets the number of calls per 1000 that are applied but return [`Error::Backend`]. Default: 50.
    #[must_use]
    pub fn with_unreported(mut self, calls: u64) -> Self {
        self.unreported = calls;
        self
    }

    /// Sets the number of calls per 1000 that are delayed. Default: 100.
    #[must_use]
    pub fn with_delayed(mut self, calls: u64) -> Self {
        self.delayed = calls;
        self
    }

    /// Sets the maximum delay of a delayed call. Default: 10 milliseconds.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// The fault that is injected into a call.
enum Fault {
    None,
    Refused,
    Lost,
    Unreported,
}

impl<T: ?Sized> Flaky<T> {
    /// Creates a wrapper that injects faults into the calls of `inner`, at the rates in `config`.
    pub fn new(inner: Arc<T>, config: FlakyConfig) -> Self {
        Self { inner, config, calls: AtomicU64::new(0) }
    }

    async fn meet(&self) -> Fault {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let dice = mix(self.config.seed ^ mix(call));
        let (roll, late) = (dice % 1000, mix(dice));
        if late % 1000 < self.config.delayed {
            let millis = u64::try_from(self.config.delay.as_millis()).unwrap_or(u64::MAX);
            tokio::time::sleep(Duration::from_millis(mix(late) % millis.max(1))).await;
        }
        let FlakyConfig { refused, lost, unreported, .. } = self.config;
        match roll {
            roll if roll < refused => Fault::Refused,
            roll if roll < refused + lost => Fault::Lost,
            roll if roll < refused + lost + unreported => Fault::Unreported,
            _ => Fault::None,
        }
    }
}

/// Returns the next number of the `splitmix64` generator. The generator returns the same numbers on every platform.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn refused<R>() -> Result<R> {
    Err(Error::Busy { backend: "a flaky backend", source: None })
}

fn timed_out<R>() -> Result<R> {
    Err(Error::backend("a flaky backend", "timed out, on purpose"))
}

/// Makes a call, and injects the fault that was selected for this call.
macro_rules! flaky {
    ($self:ident, $call:expr) => {
        match $self.meet().await {
            Fault::Refused => refused(),
            Fault::Lost => timed_out(),
            Fault::Unreported => {
                $call.await?;
                timed_out()
            }
            Fault::None => $call.await,
        }
    };
}

#[async_trait]
impl<T: Store + ?Sized> Store for Flaky<T> {
    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    async fn now(&self) -> Result<SystemTime> {
        flaky!(self, self.inner.now())
    }

    async fn get(&self, key: &str) -> Result<Option<Record>> {
        flaky!(self, self.inner.get(key))
    }

    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        flaky!(self, self.inner.create(key, value, ttl))
    }

    async fn update(&self, key: &str, value: Bytes, ttl: Option<Duration>, at: Revision) -> Result<Revision> {
        flaky!(self, self.inner.update(key, value, ttl, at))
    }

    async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
        flaky!(self, self.inner.delete(key, revision))
    }

    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
        flaky!(self, self.inner.list(prefix, after, limit))
    }

    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        flaky!(self, self.inner.claim_expired(prefix, lease, limit))
    }

    async fn remove_expired(&self, prefix: &str, limit: usize) -> Result<usize> {
        flaky!(self, self.inner.remove_expired(prefix, limit))
    }

    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
        flaky!(self, self.inner.append(log, at, entries))
    }

    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        flaky!(self, self.inner.read(log, from, limit))
    }

    async fn delete_log(&self, log: &str) -> Result<()> {
        flaky!(self, self.inner.delete_log(log))
    }
}

#[async_trait]
impl<T: Queue + ?Sized> Queue for Flaky<T> {
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed> {
        flaky!(self, self.inner.push(queue, job))
    }

    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        flaky!(self, self.inner.lease(queue, limit, wait))
    }

    async fn extend(&self, lease: &Lease) -> Result<()> {
        flaky!(self, self.inner.extend(lease))
    }

    async fn ack(&self, lease: &Lease) -> Result<()> {
        flaky!(self, self.inner.ack(lease))
    }

    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()> {
        flaky!(self, self.inner.nack(lease, delay))
    }

    async fn bury(&self, lease: &Lease) -> Result<()> {
        flaky!(self, self.inner.bury(lease))
    }

    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>> {
        flaky!(self, self.inner.dead(queue, after, limit))
    }

    async fn revive(&self, queue: &str, id: &str) -> Result<bool> {
        flaky!(self, self.inner.revive(queue, id))
    }

    async fn discard(&self, queue: &str, id: &str) -> Result<bool> {
        flaky!(self, self.inner.discard(queue, id))
    }

    async fn depth(&self, queue: &str) -> Result<Depth> {
        flaky!(self, self.inner.depth(queue))
    }

    async fn ping(&self) -> Result<()> {
        flaky!(self, self.inner.ping())
    }
}

#[async_trait]
impl<T: Bus + ?Sized> Bus for Flaky<T> {
    async fn publish(&self, topic: &str, event: Bytes) -> Result<()> {
        flaky!(self, self.inner.publish(topic, event))
    }

    async fn subscribe(&self, topic: &str) -> Result<Subscription> {
        flaky!(self, self.inner.subscribe(topic))
    }
}
