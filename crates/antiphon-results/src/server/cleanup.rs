//! Removes what has expired.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{DualResponseServer, Inner, snapshots::sweep};
use crate::{error::Result, store::Removal};

impl DualResponseServer {
    /// Begins to remove what has expired, if nobody has yet. Ends with the last handle.
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
                        tracing::warn!(%error, "expired result sets could not be removed");
                    }
                    // A store of this process alone does not know the sets of others: theirs would be swept away.
                    if swept.elapsed() < sweep::INTERVAL || !inner.options.store.is_shared() {
                        continue;
                    }
                    swept = Instant::now();
                    if let Err(error) = inner.sweep().await {
                        tracing::warn!(%error, "the store of snapshots could not be swept");
                    }
                }
            });
            cleaning.abort_handle()
        });
    }

    /// Removes what has expired, now. It is done every minute by itself; of several replicas, one removes each.
    /// Returns how many were removed here.
    pub async fn clean_up(&self) -> Result<u64> {
        self.inner.clean_up().await
    }
}

impl Inner {
    async fn clean_up(&self) -> Result<u64> {
        let mut removed = 0;
        loop {
            let at = self.now();
            let expired = self.options.store.find_expired(at).await?;
            if expired.is_empty() {
                break;
            }
            for id in expired {
                // Afterwards nobody knows any more where its rows are.
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
        // Sets that other replicas have removed leave their closures here only if this is their process, and
        // then the store is not shared; so nothing is left behind.
        if removed > 0 {
            tracing::debug!(removed, "expired result sets were removed");
        }
        Ok(removed)
    }
}
