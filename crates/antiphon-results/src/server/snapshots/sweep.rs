//! Removes orphaned snapshots.

use std::time::Duration;

use futures_util::TryStreamExt as _;

use super::key;
use crate::{
    error::Result,
    server::{DualResponseServer, Inner, create::before},
    snapshot::Phase,
};

/// The interval between two sweeps, which remove orphaned snapshots.
pub(in crate::server) const INTERVAL: Duration = Duration::from_secs(60 * 60);

impl DualResponseServer {
    /// Removes snapshots that belong to no result set, and snapshots whose write has failed. Returns the number of
    /// removed snapshots. The method also marks a result set as failed if the writer of its snapshot has stopped
    /// sending heartbeats.
    ///
    /// If the store of result sets is [shared](crate::ResourceStore::is_shared), the server calls `sweep` every hour.
    /// A store that is not shared contains only the result sets of this process. With a store that is not shared, call
    /// `sweep` only if no other process uses the same snapshot store. If other processes use the snapshot store,
    /// `sweep` removes the snapshots of these processes.
    pub async fn sweep(&self) -> Result<u64> {
        self.inner.sweep().await
    }
}

impl Inner {
    pub(in crate::server) async fn sweep(&self) -> Result<u64> {
        let Some(snapshots) = &self.options.snapshots else { return Ok(0) };
        let before = before(self.now(), self.options.limits.abandoned);
        let mut found = snapshots.ids(before);
        let mut removed = 0;
        while let Some(id) = found.try_next().await? {
            let owned = match self.options.store.get(&id.set).await? {
                // The same ID under another tenant is a different set.
                Some(resource) if key(&resource) == id => match &resource.snapshot {
                    Some(state) if state.phase == Phase::Writing && self.is_silent(state) => {
                        !matches!(self.give_up(&resource, state).await?, Phase::Failed { .. })
                    }
                    Some(state) => !matches!(state.phase, Phase::Failed { .. }),
                    None => true,
                },
                _ => false,
            };
            if !owned {
                snapshots.delete(&id).await?;
                removed += 1;
            }
        }
        if removed > 0 {
            tracing::info!(removed, "orphaned snapshots were removed: no result set refers to them");
        }
        Ok(removed)
    }
}
