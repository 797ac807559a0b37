//! Claims. A claim is a record in the store that belongs to one process as long as this process sends heartbeats.

use std::time::Duration;

use antiphon_store::{Error, Result, Revision, Store};
use bytes::Bytes;
use tokio::time::Instant;

/// Waits until the holder of the claim `key` writes a value that `settled` accepts, or until the holder stops sending
/// heartbeats.
///
/// This process uses its own clock to measure the time without a heartbeat. So the clocks of the replicas can differ.
pub(crate) async fn watch<T>(
    store: &dyn Store,
    key: &str,
    beat: Duration,
    settled: impl Fn(&Bytes) -> Option<T>,
) -> Result<Watched<T>> {
    let mut seen: Option<(Revision, Instant)> = None;
    // The first pauses between two reads are short, because most holders finish soon.
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

/// The number of heartbeats that the holder of a claim can miss before other processes treat the holder as dead.
const SILENCE: u32 = 4;

/// The state of a claim that another process holds and this process watches.
pub(crate) enum Watched<T> {
    Settled(T),
    /// The holder of the claim has missed too many heartbeats. The value is the last revision of the claim.
    Silent(Revision),
    /// The claim no longer exists in the store.
    Gone,
}

/// A claim that belongs to this process.
pub(crate) struct Held<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) key: &'a str,
    /// The value that this process wrote into the claim. This value identifies the holder of the claim.
    pub(crate) claim: Bytes,
    pub(crate) revision: Revision,
    /// How long the store keeps the claim without a heartbeat.
    pub(crate) ttl: Duration,
}

impl Held<'_> {
    /// Runs `work`. While `work` runs, this method sends a heartbeat at the interval `beat`.
    ///
    /// If another process overwrites the claim, `work` continues, because it can already have caused side effects.
    /// [`settle`](Self::settle) then reports that the claim belongs to another process.
    pub(crate) async fn beating<T>(&mut self, beat: Duration, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut done = None;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(beat) => {}
            }
            // A write that has started must complete. Otherwise, this process could not determine the current revision
            // of the claim.
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

    /// Stores the final value of the claim. If another process has overwritten the claim, `over` decides whether this
    /// method overwrites the value of the other process. Returns `false` if this method did not store the final value.
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
                // This process wrote the record in a heartbeat, but the response of the store was lost.
                Some(record) if record.value == self.claim || over(&record.value) => {
                    revision = record.revision;
                }
                _ => return Ok(false),
            }
        }
    }
}
