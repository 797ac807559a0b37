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

/// Creates a claim. Returns `None` if another process holds the claim.
///
/// During a failover, the response to the creation can be lost, and another process can take over the claim before the
/// creation is repeated. The value of a claim is unique, so the record tells whose claim it is.
pub(crate) async fn take(
    store: &dyn Store,
    key: &str,
    claim: &Bytes,
    ttl: Duration,
) -> Result<Option<Revision>> {
    match store.create(key, claim.clone(), Some(ttl)).await {
        Ok(revision) => Ok(Some(revision)),
        Err(Error::Conflict { .. }) => Ok(None),
        Err(error @ Error::Backend { .. }) => match store.get(key).await? {
            // The claim was possibly created a while ago, so this update also renews its lifetime.
            Some(record) if record.value == *claim => {
                match store.update(key, claim.clone(), Some(ttl), record.revision).await {
                    Ok(revision) => Ok(Some(revision)),
                    Err(Error::Conflict { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
            Some(_) => Ok(None),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use antiphon_store::{
        Memory, QueueConfig,
        flaky::{Flaky, FlakyConfig},
    };

    use super::*;

    const TTL: Duration = Duration::from_secs(60);
    const SEEDS: u64 = 100;

    /// A store in which half of all calls return an error. In `lost` of 1000 calls, the call has no effect. In
    /// `unreported` of 1000 calls, the call has an effect, and its response is lost.
    fn lossy(store: &Arc<dyn Store>, seed: u64, lost: u64, unreported: u64) -> Flaky<dyn Store> {
        let config = FlakyConfig::seeded(seed).with_refused(0).with_delayed(0);
        Flaky::new(Arc::clone(store), config.with_lost(lost).with_unreported(unreported))
    }

    fn memory() -> Arc<dyn Store> {
        Memory::default().backend(QueueConfig::default()).store
    }

    #[tokio::test]
    async fn lost_response_to_a_creation_does_not_lose_the_claim() {
        let mut taken = 0;
        for seed in 0..SEEDS {
            let store = memory();
            let ours = Bytes::from_static(b"ours");
            match take(&lossy(&store, seed, 0, 500), "claim", &ours, TTL).await {
                Ok(Some(revision)) => {
                    taken += 1;
                    let record = store.get("claim").await.unwrap().unwrap();
                    assert_eq!((record.revision, record.value), (revision, ours), "seed {seed}");
                }
                Ok(None) => panic!("seed {seed}: no other process has the claim"),
                Err(error) => assert!(matches!(error, Error::Backend { .. }), "{error}"),
            }
        }
        // The creation reports half of the claims. A quarter of the others is recognized by a read and renewed.
        assert!(taken > 50, "only {taken} of {SEEDS} claims were recognized");
    }

    #[tokio::test]
    async fn claim_of_another_process_is_never_taken() {
        let mut recognized = 0;
        for seed in 0..SEEDS {
            let store = memory();
            store.create("claim", Bytes::from_static(b"theirs"), Some(TTL)).await.unwrap();
            // The creation has no effect. So `take` must read the record to find out that the claim is not free.
            let lossy = lossy(&store, seed, 500, 0);
            match take(&lossy, "claim", &Bytes::from_static(b"ours"), TTL).await {
                Ok(taken) => {
                    assert_eq!(taken, None, "seed {seed}");
                    recognized += 1;
                }
                Err(error) => assert!(matches!(error, Error::Backend { .. }), "{error}"),
            }
        }
        // The conflict of the creation reports half of the claims, and the read reports half of the others.
        assert!(recognized > 60, "only {recognized} of {SEEDS} claims were recognized");
    }
}
