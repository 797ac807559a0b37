//! Removes expired result sets.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{DualResponseServer, Inner, snapshots::sweep};
use crate::{error::Result, store::Removal};

impl DualResponseServer {
    /// Starts the periodic clean-up, unless it is already running. The clean-up ends when the last handle of the
    /// server is dropped.
    pub(crate) fn begin_cleaning(&self) {
        self.inner.cleaning.get_or_init(|| {
            let inner = Arc::downgrade(&self.inner);
            let interval = self.inner.options.cleanup_interval.max(Duration::from_millis(1));
            let cleaning = tokio::spawn(async move {
                let mut swept = Instant::now();
                loop {
                    tokio::time::sleep(interval).await;
                    let Some(inner) = inner.upgrade() else { return };
                    if let Err(error) = inner.clean_up().await {
                        tracing::warn!(%error, "expired result sets could not be removed; retrying at the next clean-up");
                    }
                    // A store that is not shared does not contain the sets of other processes. So a sweep in this
                    // process would remove the snapshots of the other processes.
                    if swept.elapsed() < sweep::INTERVAL || !inner.options.store.is_shared() {
                        continue;
                    }
                    swept = Instant::now();
                    if let Err(error) = inner.sweep().await {
                        tracing::warn!(%error, "orphaned snapshots could not be removed; retrying at the next sweep");
                    }
                }
            });
            cleaning.abort_handle()
        });
    }

    /// Removes expired result sets now, and returns the number of sets that this call removed.
    ///
    /// The server also removes expired result sets periodically, by default every minute. Each result set is removed
    /// by exactly one replica.
    pub async fn clean_up(&self) -> Result<u64> {
        self.inner.clean_up().await
    }
}

impl Inner {
    async fn clean_up(&self) -> Result<u64> {
        self.read_clock().await;
        let mut removed = 0;
        loop {
            let at = self.now();
            let expired = self.options.store.find_expired(at).await?;
            if expired.is_empty() {
                break;
            }
            for id in expired {
                // Read the set before its removal, because it contains the location of its rows.
                let resource = match self.options.snapshots {
                    Some(_) => self.options.store.get(&id).await?,
                    None => None,
                };
                if self.options.store.delete(&id, Removal::Expired { at }).await? {
                    self.forget(&id);
                    if let Some(resource) = resource {
                        self.discard(&resource).await;
                    }
                    removed += 1;
                }
            }
        }
        // Only the process that created a set has the closures of the set, and only if the store is not shared. So
        // this process has no closures of sets that other replicas removed.
        if removed > 0 {
            tracing::debug!(removed, "expired result sets were removed");
        }
        Ok(removed)
    }
}
