//! Claims: records in the store. A claim belongs to one replica as long as this replica sends heartbeats.

use std::time::{Duration, Instant};

use antiphon_store::{Error, Result, Revision, Store};
use bytes::Bytes;

/// Waits until the holder of `key` writes a value that `settled` accepts, or until the holder stops sending
/// heartbeats.
///
/// This process measures the time without a heartbeat with its own clock. So the clocks of the replicas can differ.
pub(crate) async fn watch<T>(
    store: &dyn Store,
    key: &str,
    beat: Duration,
    settled: impl Fn(&Bytes) -> Option<T>,
) -> Result<Watched<T>> {
    let mut seen: Option<(Revision, Instant)> = None;
    // The first pauses are short, because most holders finish soon.
    let mut pause = Duration::from_millis(2);
    loop {
        let Some(record) = store.get(key).await? else { return Ok(Watched::Gone) };
        if let Some(settled) = settled(&record.value) {
            return Ok(Watched::Settled(settled));
        }
        match seen {
            Some((revision, since)) if revision == record.revision => {
                if since.elapsed() > SILENCE * beat {
                    return Ok(Watched::Silent(record.revision));
                }
            }
            _ => seen = Some((record.revision, Instant::now())),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(beat / 2).max(Duration::from_millis(1));
    }
}

/// The number of heartbeats that a holder can miss before it counts as stopped.
const SILENCE: u32 = 4;

/// The state of another holder's claim.
pub(crate) enum Watched<T> {
    Settled(T),
    /// The holder has missed too many heartbeats.
    Silent(Revision),
    /// The claim no longer exists.
    Gone,
}

/// A claim that this process holds.
pub(crate) struct Held<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) key: &'a str,
    /// The value that this process wrote. The value identifies the holder.
    pub(crate) claim: Bytes,
    pub(crate) revision: Revision,
    /// How long the record exists without a heartbeat.
    pub(crate) ttl: Duration,
}

impl Held<'_> {
    /// Runs `work`. While `work` runs, sends a heartbeat at the interval `beat`.
    ///
    /// If another process overwrites the claim, the work continues, because it may already have side effects.
    /// [`settle`](Self::settle) then reports the loss.
    pub(crate) async fn beating<T>(&mut self, beat: Duration, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut done = None;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(beat) => {}
            }
            // A write that has started must complete. Otherwise, the revision of the claim would be unknown.
            let write = self.store.update(self.key, self.claim.clone(), Some(self.ttl), self.revision);
            let mut write = std::pin::pin!(write);
            let beaten = loop {
                tokio::select! {
                    biased;
                    ended = &mut work, if done.is_none() => done = Some(ended),
                    beaten = &mut write => break beaten,
                }
            };
            match beaten {
                Ok(revision) => self.revision = revision,
                Err(Error::Conflict { .. }) => {
                    return match done {
                        Some(done) => done,
                        None => work.await,
                    };
                }
                Err(error) => {
                    tracing::warn!(%error, "a claim on a step or a `requestState` could not be renewed in the store; the next heartbeat tries again");
                }
            }
            if let Some(done) = done {
                return done;
            }
        }
    }

    /// Stores the final value. If another process has taken the claim, `over` decides whether to overwrite its value.
    /// Returns `false` if the final value was not stored.
    pub(crate) async fn settle(
        &self,
        value: Bytes,
        ttl: Duration,
        over: impl Fn(&Bytes) -> bool,
    ) -> Result<bool> {
        let mut revision = self.revision;
        loop {
            match self.store.update(self.key, value.clone(), Some(ttl), revision).await {
                Ok(_) => return Ok(true),
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
            match self.store.get(self.key).await? {
                // This process wrote the record, but the response to its heartbeat was lost.
                Some(record) if record.value == self.claim || over(&record.value) => {
                    revision = record.revision;
                }
                _ => return Ok(false),
            }
        }
    }
}
