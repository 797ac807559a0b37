//! Removes what has expired.

use std::{sync::Arc, time::Duration};

use antiphon_store::Result;
#[cfg(feature = "http")]
use antiphon_store::{Error, Record};
#[cfg(feature = "http")]
use futures_util::{StreamExt as _, stream};

use super::Replicas;
use crate::{
    jitter,
    keep::{KINDS, remove_all},
};

/// How long the removal of one record and what hangs on it may take before another replica tries.
#[cfg(feature = "http")]
const LEASE: Duration = Duration::from_secs(60);

/// How many expired records are taken at once where something hangs on each, and how many are removed at the same time.
#[cfg(feature = "http")]
const BATCH: usize = 64;
#[cfg(feature = "http")]
const ABREAST: usize = 8;

#[cfg(feature = "http")]
const OF_SESSIONS: &[&str] = &["sessions/", "answers/", "replicas/"];

/// Removes what has expired, together with what hangs on it. Every replica does; the store sees to it that
/// no two remove the same.
pub(super) async fn clean_up(replicas: Arc<Replicas>) {
    loop {
        let pause = jitter::around((pause(&replicas) / 2).max(Duration::from_secs(1)));
        tokio::select! {
            () = replicas.stopped.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        #[cfg(feature = "http")]
        for prefix in OF_SESSIONS {
            warn(prefix, remove_expired(&replicas, prefix).await);
        }
        for prefix in KINDS {
            warn(prefix, remove_all(&*replicas.store, prefix, &replicas.stopped).await);
        }
    }
}

fn warn(prefix: &str, tidied: Result<()>) {
    if let Err(error) = tidied {
        tracing::warn!(%error, prefix, "what has expired could not be removed");
    }
}

/// Removes all expired records of a kind on which something hangs, that first.
#[cfg(feature = "http")]
async fn remove_expired(replicas: &Arc<Replicas>, prefix: &str) -> Result<()> {
    while !replicas.stopped.is_cancelled() {
        let expired = replicas.store.claim_expired(prefix, LEASE, BATCH).await?;
        let last = expired.len() < BATCH;
        let removals = expired.into_iter().map(|record| remove(replicas, record));
        let removed: Vec<_> = stream::iter(removals).buffer_unordered(ABREAST).collect().await;
        for removal in removed {
            match removal {
                // Somebody has begun it anew, or was faster.
                Ok(()) | Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if last {
            break;
        }
    }
    Ok(())
}

#[cfg(feature = "http")]
async fn remove(replicas: &Arc<Replicas>, record: Record) -> Result<()> {
    replicas.remove_with(&record).await?;
    replicas.store.delete(&record.key, record.revision).await
}

#[cfg(feature = "http")]
fn pause(replicas: &Replicas) -> Duration {
    replicas.shortest_life()
}

#[cfg(not(feature = "http"))]
fn pause(_: &Replicas) -> Duration {
    Duration::from_secs(30)
}
