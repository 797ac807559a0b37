//! Removes what has expired.

use std::{sync::Arc, time::Duration};

use antiphon_store::{Error, Record, Result};
use futures_util::{StreamExt as _, stream};

use super::Replicas;

/// How long the removal of one record and what hangs on it may take before another replica tries.
const LEASE: Duration = Duration::from_secs(60);

/// How many expired records are taken at once where something hangs on each, and how many are removed at the same time.
const BATCH: usize = 64;
const ABREAST: usize = 8;

const OF_SESSIONS: &[&str] = &["sessions/", "answers/", "replicas/"];

/// Removes what has expired, together with what hangs on it. Every replica does; the store sees to it that
/// no two remove the same.
pub(super) async fn clean_up(replicas: &Arc<Replicas>) {
    for prefix in OF_SESSIONS {
        if let Err(error) = remove_expired(replicas, prefix).await {
            tracing::warn!(%error, prefix, "what has expired could not be removed");
        }
    }
}

/// Removes all expired records of a kind on which something hangs, that first.
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

async fn remove(replicas: &Arc<Replicas>, record: Record) -> Result<()> {
    replicas.remove_with(&record).await?;
    replicas.store.delete(&record.key, record.revision).await
}
