//! Creates result sets whose rows are saved while the rows arrive.

use std::{sync::Arc, time::Duration};

use super::{
    key,
    write::{Stop, Write},
};
use crate::{
    error::{DualResponseError, Result},
    response::{DualResponse, Preview},
    server::{Inner, create::check_width},
    snapshot::{Lineage, RowSource, SnapshotState, SnapshotWrite, SnapshotWriteOptions},
    store::{Origin, Removal, Resource},
};

/// Factor by which the timeout of the first row is multiplied if the caller waits for the last row.
const PATIENCE: u32 = 20;

impl Inner {
    /// Starts to save rows, and returns when all rows are saved. If saving all rows takes too long, returns earlier,
    /// with only the first rows.
    pub(in crate::server) async fn save_rows(
        &self,
        mut resource: Resource,
        row_source: RowSource,
        sample_size: u64,
        complete: bool,
        lineage: Option<Lineage>,
    ) -> Result<DualResponse> {
        let limits = &self.options.limits;
        let snapshots = self.snapshots()?;
        let place = self.intakes.take(&resource.owner, limits.wait).await?;
        let (share, bytes) = self.allowance(&resource.owner).await?;
        resource.query = Origin::Snapshot;
        let options = SnapshotWriteOptions::sample(usize::try_from(sample_size).unwrap_or(usize::MAX))
            .with_max_rows(limits.snapshot_rows)
            .with_max_bytes(bytes);
        let id = key(&resource);
        let begin = snapshots.begin(&id, row_source, options);
        // A caller that waits for the last row can also wait longer for the first row.
        let limit = limits.source_timeout.saturating_mul(if complete { PATIENCE } else { 1 });
        let begun = match tokio::time::timeout(limit, begin).await {
            Ok(begun) => begun,
            Err(_) => Err(DualResponseError::Timeout { limit }),
        };
        let kept = match begun {
            Ok(begun) => self.keep_begun(&mut resource, begun, lineage).await,
            Err(error) => Err(error),
        };
        let (begun, preview) = match kept {
            Ok(kept) => kept,
            Err(error) => {
                self.discard(&resource).await;
                return Err(error);
            }
        };
        let write = Write {
            id,
            store: Arc::clone(&self.options.store),
            snapshots: Arc::clone(snapshots),
            clock: Arc::clone(&self.options.clock),
            beat: limits.beat.max(Duration::from_millis(10)),
            state: resource.snapshot.clone().unwrap_or_else(|| SnapshotState::writing(self.now())),
            progress: begun.progress.clone(),
            share,
            place,
        };
        let (ended, unanswered) = self.writes.begin(write, begun.rest);
        let limit = if complete { Duration::MAX } else { limits.settle };
        let outcome = tokio::time::timeout(limit, ended).await;
        // From here on, the caller gets a response: the result set or an error.
        unanswered.answered();
        match outcome {
            Ok(Ok(Ok(ready))) => Ok(self.respond(&ready, &preview)),
            // No caller has the ID of the set yet. So the set is deleted, and the caller gets the error.
            Ok(Ok(Err(error))) => {
                let _ = self.options.store.delete(&resource.id, Removal::Deleted).await;
                Err(error)
            }
            // The write was stopped by another call.
            Ok(Err(_)) => Err(DualResponseError::NotFound),
            Err(_) => {
                resource.total_count = resource.total_count.max(begun.progress.borrow().rows);
                Ok(self.respond(&resource, &preview))
            }
        }
    }

    /// Stores a result set whose first rows are available.
    async fn keep_begun(
        &self,
        resource: &mut Resource,
        begun: SnapshotWrite,
        lineage: Option<Lineage>,
    ) -> Result<(SnapshotWrite, Preview)> {
        check_width(&begun.columns)?;
        let mut preview = self.preview(resource, &begun.sample, &begun.columns, lineage.as_ref())?;
        resource.columns.clone_from(&begun.columns);
        resource.sorts = self.snapshots()?.capabilities().queries;
        resource.total_count = begun.progress.borrow().rows.max(begun.sample.len() as u64);
        resource.sample_data = std::mem::take(&mut preview.rows);
        let mut state = SnapshotState::writing(self.now());
        state.lineage = lineage;
        resource.snapshot = Some(state);
        self.options.store.save(resource.clone()).await?;
        Ok((begun, preview))
    }

    /// Stops all snapshot writes of this process. Each result set that is being written fails, with the shutdown as
    /// the reason.
    pub(in crate::server) async fn end_writes(&self) {
        self.writes.stop_all(Stop::Shutdown).await;
    }
}
