//! Processes that can die or stall, and the faults of their connections to the backend.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use antiphon_store::{
    Bus, Cursor, DeadJob, Depth, Job, Lease, NewJob, Page, Pushed, Queue, Record, Result, Revision, Store,
    Subscription,
};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::sleep;

use crate::base::{now_millis, random};

/// A simulated process. If it is dead, nothing that it does has an effect.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// The time until which the process stalls, in milliseconds since 1970. [`DEAD`] if the process is dead.
    stalls_until: AtomicU64,
    /// How often the process has stalled.
    stalls: AtomicU64,
}

const DEAD: u64 = u64::MAX;

impl Process {
    pub(super) fn kill(&self) {
        self.stalls_until.store(DEAD, Ordering::Relaxed);
    }

    /// Stops the process for a while, like `SIGSTOP` and `SIGCONT`.
    pub(super) fn stall(&self, duration: Duration) {
        if !self.is_dead() {
            self.stalls.fetch_add(1, Ordering::Relaxed);
            self.stalls_until.store(now_millis() + crate::base::millis(duration), Ordering::Relaxed);
        }
    }

    pub(super) fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// Returns whether the process runs, and has stalled `stalls` times.
    pub(super) fn runs_since(&self, stalls: u64) -> bool {
        self.stalls() == stalls && self.stalls_until.load(Ordering::Relaxed) <= now_millis()
    }

    pub(super) fn is_dead(&self) -> bool {
        self.stalls_until.load(Ordering::Relaxed) == DEAD
    }

    /// Waits until the process runs. If the process is dead, waits forever.
    pub(super) async fn runs(&self) {
        loop {
            let until = self.stalls_until.load(Ordering::Relaxed);
            if until == DEAD {
                std::future::pending::<()>().await;
            }
            let Some(left) = until.checked_sub(now_millis()).filter(|left| *left > 0) else { return };
            sleep(Duration::from_millis(left)).await;
        }
    }
}

/// Returns a random number below `limit`.
pub(super) fn below(limit: u64) -> u64 {
    random().unwrap_or_default() % limit.max(1)
}

/// A store, a queue or a bus, as one process reaches it. Each call takes a random time.
pub(super) struct Reached<T: ?Sized> {
    pub(super) inner: Arc<T>,
    pub(super) process: Arc<Process>,
    /// The number of pushed jobs per 1000 that the queue loses, although it confirmed them.
    pub(super) losses: u64,
}

impl<T: ?Sized> Reached<T> {
    async fn call<R>(&self, call: impl Future<Output = R>) -> R {
        self.process.runs().await;
        sleep(Duration::from_millis(below(8))).await;
        self.process.runs().await;
        let result = call.await;
        sleep(Duration::from_millis(below(8))).await;
        self.process.runs().await;
        result
    }
}

impl<T: ?Sized> fmt::Debug for Reached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reached").field("process", &self.process).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Reached<dyn Store> {
    async fn get(&self, key: &str) -> Result<Option<Record>> {
        self.call(self.inner.get(key)).await
    }

    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        self.call(self.inner.create(key, value, ttl)).await
    }

    async fn update(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        revision: Revision,
    ) -> Result<Revision> {
        self.call(self.inner.update(key, value, ttl, revision)).await
    }

    async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
        self.call(self.inner.delete(key, revision)).await
    }

    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
        self.call(self.inner.list(prefix, after, limit)).await
    }

    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        self.call(self.inner.claim_expired(prefix, lease, limit)).await
    }

    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
        self.call(self.inner.append(log, at, entries)).await
    }

    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        self.call(self.inner.read(log, from, limit)).await
    }

    async fn delete_log(&self, log: &str) -> Result<()> {
        self.call(self.inner.delete_log(log)).await
    }
}

#[async_trait]
impl Queue for Reached<dyn Queue> {
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed> {
        if below(1000) < self.losses {
            self.call(std::future::ready(())).await;
            return Ok(Pushed::Added);
        }
        self.call(self.inner.push(queue, job)).await
    }

    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        self.call(self.inner.lease(queue, limit, wait)).await
    }

    async fn extend(&self, lease: &Lease) -> Result<()> {
        self.call(self.inner.extend(lease)).await
    }

    async fn ack(&self, lease: &Lease) -> Result<()> {
        self.call(self.inner.ack(lease)).await
    }

    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()> {
        self.call(self.inner.nack(lease, delay)).await
    }

    async fn bury(&self, lease: &Lease) -> Result<()> {
        self.call(self.inner.bury(lease)).await
    }

    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>> {
        self.call(self.inner.dead(queue, after, limit)).await
    }

    async fn revive(&self, queue: &str, id: &str) -> Result<bool> {
        self.call(self.inner.revive(queue, id)).await
    }

    async fn discard(&self, queue: &str, id: &str) -> Result<bool> {
        self.call(self.inner.discard(queue, id)).await
    }

    async fn depth(&self, queue: &str) -> Result<Depth> {
        self.call(self.inner.depth(queue)).await
    }
}

#[async_trait]
impl Bus for Reached<dyn Bus> {
    async fn publish(&self, topic: &str, event: Bytes) -> Result<()> {
        // One announcement in four is lost.
        if below(4) == 0 {
            return Ok(());
        }
        self.call(self.inner.publish(topic, event)).await
    }

    async fn subscribe(&self, topic: &str) -> Result<Subscription> {
        self.call(self.inner.subscribe(topic)).await
    }
}
