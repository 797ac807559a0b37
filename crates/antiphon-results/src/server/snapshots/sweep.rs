//! Removes what nobody owns.

use std::time::Duration;

use futures_util::TryStreamExt as _;

use super::key;
use crate::{
    error::Result,
    server::{DualResponseServer, Inner, create::before},
    snapshot::Phase,
};

/// How often the store of snapshots is looked through.
pub(in crate::server) const INTERVAL: Duration = Duration::from_secs(60 * 60);

impl DualResponseServer {
    /// Removes from the store of snapshots what no set knows, finished or not, and lets sets fail whose writer is
    /// gone. Returns how many snapshots were removed.
    ///
    /// It is done every hour by itself where the store of sets is [shared](crate::ResourceStore::is_shared). One
    /// that is not knows only the sets of its own process: call this only if no other process writes to the same
    /// store of snapshots, since theirs would be removed.
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
                // The same id under another tenant's place is not this set's.
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
            tracing::info!(removed, "snapshots that no set knows were removed");
        }
        Ok(removed)
    }
}
