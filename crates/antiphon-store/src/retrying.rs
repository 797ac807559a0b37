//! A wrapper that retries failed calls and finds out whether a write with a lost response was applied.

use std::{
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use crate::{
    bus::{Bus, Subscription},
    error::{Error, Result},
    queue::{DeadJob, Depth, Job, Lease, NewJob, Pushed, Queue},
    store::{Cursor, MAX_VALUE, Page, Record, Revision, Store, fits},
};

/// A [`Store`], a [`Queue`] or a [`Bus`] that retries failed calls.
///
/// The wrapper retries a call with pauses until the call succeeds or the [retry time](RetryingConfig::with_patience)
/// is over.
///
/// If the response to a write is lost, the write was possibly applied. If the first attempt of a write was applied, the
/// retry conflicts with the first attempt. So the wrapper *stamps* every value and every log entry with 16 random
/// bytes. If a retry fails with a conflict, the wrapper reads the stored stamp. If the stored stamp belongs to the
/// retried write, the first attempt was applied, and the call succeeds. If another writer has replaced the record, the
/// effect of the write is unknown, and the call returns [`Error::Backend`].
///
/// - Read data through a `Retrying` only if the data was written through a `Retrying`.
/// - If a retried [`Queue::push`] reports a duplicate, the wrapper treats the job as added. If a retried
///   [`ack`](Queue::ack), [`nack`](Queue::nack) or [`bury`](Queue::bury) reports a lost lease, the wrapper treats the
///   call as successful.
/// - A retried [`Bus::publish`] can deliver its event twice.
/// - A retried [`create`](Store::create) or [`push`](Queue::push) can create a record or a job twice. The reason is
///   that another process can delete the record or acknowledge the job before the retry. To prevent a second creation,
///   never use a key or a job ID again.
pub struct Retrying<T: ?Sized> {
    inner: Arc<T>,
    config: RetryingConfig,
}

/// The limits and pauses of retries.
#[derive(Clone, Debug)]
pub struct RetryingConfig {
    patience: Duration,
    attempts: u32,
    pause: Duration,
    max_pause: Duration,
}

impl Default for RetryingConfig {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(30),
            attempts: u32::MAX,
            pause: Duration::from_millis(10),
            max_pause: Duration::from_secs(2),
        }
    }
}

impl RetryingConfig {
    /// Sets the time during which a call is retried, counted from the start of the call. The wrapper does not cancel an
    /// attempt that is running at the end of the retry time. Default: 30 seconds, which is longer than the failover of
    /// a database with a standby.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the maximum number of attempts of one call, within the time of [`with_patience`](Self::with_patience).
    /// Default: no limit.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the pause after the first failure. The pause doubles after each failure of the call. Each pause between two
    /// attempts is shortened by a random part of up to one half. Default: 10 milliseconds.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Sets the maximum pause between two attempts. Default: 2 seconds.
    #[must_use]
    pub fn with_max_pause(mut self, max_pause: Duration) -> Self {
        self.max_pause = max_pause;
        self
    }
}

const STAMP: usize = 16;

impl Retrying<dyn Store> {
    /// The maximum number of bytes that one value, or one append with up to 32 entries, can have in a [`Retrying`]
    /// store. The maximum size of a value is smaller than [`MAX_VALUE`], because the wrapper adds stamps.
    pub const MAX_VALUE: usize = MAX_VALUE - 64 * STAMP;
}

impl<T: ?Sized> Retrying<T> {
    /// Creates a wrapper that retries the calls of `inner`, with the default configuration.
    pub fn new(inner: Arc<T>) -> Self {
        Self { inner, config: RetryingConfig::default() }
    }

    /// Sets the limits and pauses of retries. Default: [`RetryingConfig::default`].
    #[must_use]
    pub fn with_config(mut self, config: RetryingConfig) -> Self {
        self.config = config;
        self
    }

    /// Repeats a call until the call succeeds or is rejected, or until the retry time is over.
    ///
    /// The returned `bool` is `true` if a response was lost. After a lost response, the effect of a failed call is
    /// always unknown, even if the last attempt had no effect.
    async fn persist<R, F>(&self, call: impl FnMut() -> F) -> (Result<R>, bool)
    where
        F: Future<Output = Result<R>>,
    {
        let mut lost = false;
        let before_retry = |error: &Error, attempt| {
            lost |= matches!(error, Error::Backend { .. });
            tracing::debug!(%error, attempt, "a call to the backend failed; retrying");
        };
        let ended = repeat(&self.config, before_retry, call).await;
        (ended.map_err(|error| if lost { uncertain(error) } else { error }), lost)
    }
}

/// Repeats a call until the call succeeds or is rejected, or until the retry time is over. Calls `before_retry` with the
/// error and the number of each failed attempt that another attempt follows.
pub(crate) async fn repeat<R, F>(
    config: &RetryingConfig,
    mut before_retry: impl FnMut(&Error, u32),
    mut call: impl FnMut() -> F,
) -> Result<R>
where
    F: Future<Output = Result<R>>,
{
    let began = Instant::now();
    let mut pause = config.pause;
    for attempt in 1_u32.. {
        // The random pause prevents replicas whose calls failed at the same time from retrying at the same time.
        let wait = pause.mul_f64(0.5 + fraction() / 2.0);
        match call().await {
            Err(error)
                if error.is_transient()
                    && attempt < config.attempts
                    && began.elapsed() + wait < config.patience =>
            {
                before_retry(&error, attempt);
            }
            ended => return ended,
        }
        tokio::time::sleep(wait).await;
        pause = (pause * 2).min(config.max_pause);
    }
    unreachable!("the last attempt ends the loop")
}

impl<T: Store + ?Sized> Retrying<T> {
    /// Checks whether the record under `key` has the stamp `stamp`. Call `settle` after a conflict that an earlier
    /// attempt of the same write possibly caused.
    async fn settle(&self, key: &str, stamp: [u8; STAMP], conflict: Error) -> Result<Revision> {
        match self.persist(|| self.inner.get(key)).await.0.map_err(uncertain)? {
            Some(record) if record.value.starts_with(&stamp) => Ok(record.revision),
            // The record is from another writer, and possibly replaced this write.
            _ => Err(Error::backend("the store", Unsettled(conflict))),
        }
    }
}

/// Converts [`Error::Busy`] into [`Error::Backend`]. After a lost response, an earlier attempt of the call was possibly
/// applied.
fn uncertain(error: Error) -> Error {
    match error {
        busy @ Error::Busy { backend, .. } => Error::backend(backend, busy),
        error => error,
    }
}

/// The source of an [`Error::Backend`] that [`Retrying`] returns if the effect of a write stays unknown.
#[derive(Debug, thiserror::Error)]
#[error(
    "the effect of the write is unknown: its response was lost, and another writer has changed the record since; read the record again"
)]
struct Unsettled(#[source] Error);

#[async_trait]
impl<T: Store + ?Sized> Store for Retrying<T> {
    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    async fn now(&self) -> Result<SystemTime> {
        self.persist(|| self.inner.now()).await.0
    }

    async fn get(&self, key: &str) -> Result<Option<Record>> {
        self.persist(|| self.inner.get(key)).await.0?.map(unstamp).transpose()
    }

    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        fits("a value", value.len(), Retrying::MAX_VALUE)?;
        let stamp = stamp();
        let value = stamped(stamp, &value);
        match self.persist(|| self.inner.create(key, value.clone(), ttl)).await {
            (Err(conflict @ Error::Conflict { .. }), true) => self.settle(key, stamp, conflict).await,
            (ended, _) => ended,
        }
    }

    async fn update(&self, key: &str, value: Bytes, ttl: Option<Duration>, at: Revision) -> Result<Revision> {
        fits("a value", value.len(), Retrying::MAX_VALUE)?;
        let stamp = stamp();
        let value = stamped(stamp, &value);
        match self.persist(|| self.inner.update(key, value.clone(), ttl, at)).await {
            (Err(conflict @ Error::Conflict { .. }), true) => self.settle(key, stamp, conflict).await,
            (ended, _) => ended,
        }
    }

    async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
        match self.persist(|| self.inner.delete(key, revision)).await {
            (Err(conflict @ Error::Conflict { .. }), true) => {
                match self.persist(|| self.inner.get(key)).await.0.map_err(uncertain)? {
                    // The record is deleted, by this call or by another call.
                    None => Ok(()),
                    // The record is from another writer, and was possibly created after this deletion.
                    Some(_) => Err(Error::backend("the store", Unsettled(conflict))),
                }
            }
            (ended, _) => ended,
        }
    }

    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
        let page = self.persist(|| self.inner.list(prefix, after, limit)).await.0?;
        let items = page.items.into_iter().map(unstamp).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next })
    }

    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        // If the response to a claim is lost, the claim expires later. The next call claims other records.
        let claimed = self.persist(|| self.inner.claim_expired(prefix, lease, limit)).await.0?;
        claimed.into_iter().map(unstamp).collect()
    }

    async fn remove_expired(&self, prefix: &str, limit: usize) -> Result<usize> {
        self.persist(|| self.inner.remove_expired(prefix, limit)).await.0
    }

    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
        fits("an append", entries.iter().map(Bytes::len).sum(), Retrying::MAX_VALUE)?;
        let count = entries.len() as u64;
        let stamp = stamp();
        let entries: Vec<_> = entries.iter().map(|entry| stamped(stamp, entry)).collect();
        match self.persist(|| self.inner.append(log, at, entries.clone())).await {
            // Entries are never changed, so the entry at this position belongs to the writer that succeeded.
            (Err(conflict @ Error::LogConflict { .. }), true) => {
                let first = self.persist(|| self.inner.read(log, at, 1)).await.0.map_err(uncertain)?;
                if first.first().is_some_and(|entry| entry.starts_with(&stamp)) {
                    Ok(at + count)
                } else {
                    Err(conflict)
                }
            }
            (ended, _) => ended,
        }
    }

    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        let entries = self.persist(|| self.inner.read(log, from, limit)).await.0?;
        entries.iter().map(|entry| rest(entry, log)).collect()
    }

    async fn delete_log(&self, log: &str) -> Result<()> {
        self.persist(|| self.inner.delete_log(log)).await.0
    }
}

#[async_trait]
impl<T: Queue + ?Sized> Queue for Retrying<T> {
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed> {
        match self.persist(|| self.inner.push(queue, job.clone())).await {
            (Ok(_), true) => Ok(Pushed::Added),
            (ended, _) => ended,
        }
    }

    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        self.persist(|| self.inner.lease(queue, limit, wait)).await.0
    }

    async fn extend(&self, lease: &Lease) -> Result<()> {
        self.persist(|| self.inner.extend(lease)).await.0
    }

    async fn ack(&self, lease: &Lease) -> Result<()> {
        done(self.persist(|| self.inner.ack(lease)).await)
    }

    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()> {
        done(self.persist(|| self.inner.nack(lease, delay)).await)
    }

    async fn bury(&self, lease: &Lease) -> Result<()> {
        done(self.persist(|| self.inner.bury(lease)).await)
    }

    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>> {
        self.persist(|| self.inner.dead(queue, after, limit)).await.0
    }

    async fn revive(&self, queue: &str, id: &str) -> Result<bool> {
        let (ended, lost) = self.persist(|| self.inner.revive(queue, id)).await;
        ended.map(|revived| revived || lost)
    }

    async fn discard(&self, queue: &str, id: &str) -> Result<bool> {
        let (ended, lost) = self.persist(|| self.inner.discard(queue, id)).await;
        ended.map(|discarded| discarded || lost)
    }

    async fn depth(&self, queue: &str) -> Result<Depth> {
        self.persist(|| self.inner.depth(queue)).await.0
    }

    async fn ping(&self) -> Result<()> {
        self.persist(|| self.inner.ping()).await.0
    }
}

#[async_trait]
impl<T: Bus + ?Sized> Bus for Retrying<T> {
    async fn publish(&self, topic: &str, event: Bytes) -> Result<()> {
        self.persist(|| self.inner.publish(topic, event.clone())).await.0
    }

    async fn subscribe(&self, topic: &str) -> Result<Subscription> {
        self.persist(|| self.inner.subscribe(topic)).await.0
    }
}

/// Treats a lost lease as success if an earlier response was lost. The call whose response was lost has then ended the
/// lease.
fn done((ended, lost): (Result<()>, bool)) -> Result<()> {
    match ended {
        Err(Error::LeaseLost { .. }) if lost => Ok(()),
        ended => ended,
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Retrying<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retrying").field(&&*self.inner).finish()
    }
}

fn stamp() -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    getrandom::fill(&mut stamp).expect("the operating system has random numbers");
    stamp
}

pub(crate) fn random() -> u64 {
    #[cfg(feature = "flaky")]
    if let Some(seeded) = crate::flaky::seeded() {
        return seeded;
    }
    u64::from_le_bytes(stamp()[..8].try_into().expect("eight bytes are eight bytes"))
}

/// Returns a random number from 0 to 1.
fn fraction() -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a float holds")]
    let fraction = (random() >> 11) as f64 / (1_u64 << 53) as f64;
    fraction
}

fn stamped(stamp: [u8; STAMP], value: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(STAMP + value.len());
    bytes.extend_from_slice(&stamp);
    bytes.extend_from_slice(value);
    bytes.freeze()
}

fn unstamp(mut record: Record) -> Result<Record> {
    record.value = rest(&record.value, &record.key)?;
    Ok(record)
}

fn rest(bytes: &Bytes, name: &str) -> Result<Bytes> {
    if bytes.len() < STAMP {
        return Err(Error::Config {
            problem: format!(
                "the record or log `{name}` was not written through `Retrying`; use another space for data \
                 of other writers"
            ),
        });
    }
    Ok(bytes.slice(STAMP..))
}
