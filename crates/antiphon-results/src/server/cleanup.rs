//! Removes what has expired.

use std::{sync::Arc, time::Duration};

use super::{DualResponseServer, Inner};
use crate::{error::Result, store::Removal};

impl DualResponseServer {
    /// Begins to remove what has expired, if nobody has yet. Ends with the last handle.
    pub(crate) fn begin_cleaning(&self) {
        self.inner.cleaning.get_or_init(|| {
            let inner = Arc::downgrade(&self.inner);
            let interval = self.inner.options.cleanup_interval.max(Duration::from_millis(1));
            let cleaning = tokio::spawn(async move {
                loop {
                    tokio::time::sleep(interval).await;
                    let Some(inner) = inner.upgrade() else { return };
                    if let Err(error) = inner.clean_up().await {
                        tracing::warn!(%error, "expired result sets could not be removed");
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
                if self.options.store.delete(&id, Removal::Expired { at }).await? {
                    self.forget(&id);
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
