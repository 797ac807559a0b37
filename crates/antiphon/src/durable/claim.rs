//! A record that one replica holds for as long as it shows that it is alive.

use std::time::{Duration, Instant};

use antiphon_store::{Error, Result, Revision, Store};
use bytes::Bytes;

/// Waits for the holder of `key` to write something `else`, or to fall silent.
///
/// Silence is measured by our own clock, from one look to the next, so replicas' clocks may differ.
pub(crate) async fn watch<T>(
    store: &dyn Store,
    key: &str,
    beat: Duration,
    settled: impl Fn(&Bytes) -> Option<T>,
) -> Result<Watched<T>> {
    let mut seen: Option<(Revision, Instant)> = None;
    // Quick at first: most of what is waited for is about to end.
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

/// So many beats may be missed.
const SILENCE: u32 = 4;

/// What became of another's claim.
pub(crate) enum Watched<T> {
    Settled(T),
    /// The holder has not shown itself for too long.
    Silent(Revision),
    /// There is no claim any more.
    Gone,
}

/// A claim of ours.
pub(crate) struct Held<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) key: &'a str,
    /// What we have written: it says who we are.
    pub(crate) claim: Bytes,
    pub(crate) revision: Revision,
    /// For how long the record lives without a beat.
    pub(crate) ttl: Duration,
}

impl Held<'_> {
    /// Does `work` while showing every `beat` that its holder is alive.
    ///
    /// Somebody else's writing over the claim does not stop the work, which may have begun to change the
    /// world; it is told when it wants to say how it ended.
    pub(crate) async fn beating<T>(&mut self, beat: Duration, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut done = None;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(beat) => {}
            }
            // A write that was begun is seen to its end, or nobody could say at which revision the claim is.
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
                Err(error) => tracing::warn!(%error, "a claim could not be renewed"),
            }
            if let Some(done) = done {
                return done;
            }
        }
    }

    /// Says how it ended. `false` if the claim was taken from us, and `over` does not let us write over
    /// what is there instead.
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
                // A beat whose answer was lost.
                Some(record) if record.value == self.claim || over(&record.value) => {
                    revision = record.revision;
                }
                _ => return Ok(false),
            }
        }
    }
}
