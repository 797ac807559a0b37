//! Removes expired records of shared sessions from the backend.

use std::{sync::Arc, time::Duration};

use antiphon_store::{Error, Record, Result};
use futures_util::{StreamExt as _, stream};

use super::Replicas;

/// The maximum time for the removal of one record and its dependent data. If a replica exceeds this time, another
/// replica can try to remove the record.
const LEASE: Duration = Duration::from_secs(60);

/// The number of expired records that a replica claims together.
const BATCH: usize = 64;
/// The number of claimed records that a replica removes concurrently.
const ABREAST: usize = 8;

const OF_SESSIONS: &[&str] = &["sessions/", "answers/", "replicas/"];

/// Removes expired records and the data that depends on these records. Every replica calls `clean_up`. The store
/// ensures that each record is removed only once.
pub(super) async fn clean_up(replicas: &Arc<Replicas>) {
    for prefix in OF_SESSIONS {
        if let Err(error) = remove_expired(replicas, prefix).await {
            tracing::warn!(%error, prefix, "expired records could not be removed from the store");
        }
    }
}

/// Removes all expired records whose key starts with `prefix`. The dependent data of each record is removed before the
/// record.
async fn remove_expired(replicas: &Arc<Replicas>, prefix: &str) -> Result<()> {
    while !replicas.stopped.is_cancelled() {
        let expired = replicas.store.claim_expired(prefix, LEASE, BATCH).await?;
        let last = expired.len() < BATCH;
        let removals = expired.into_iter().map(|record| remove(replicas, record));
        let removed: Vec<_> = stream::iter(removals).buffer_unordered(ABREAST).collect().await;
        for removal in removed {
            match removal {
                // Another replica has renewed or removed the record.
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
