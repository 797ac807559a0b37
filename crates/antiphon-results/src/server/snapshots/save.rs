//! Makes sets of rows that are saved as they come.

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

/// How many times longer than usual the first row is waited for by whoever waits for the last.
const PATIENCE: u32 = 20;

impl Inner {
    /// Begins to save rows, answers when the first are there, and when all are, if that is soon.
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
        // Whoever waits to the end waits longer for the beginning too.
        let limit = limits.source_timeout.saturating_mul(if complete { PATIENCE } else { 1 });
        let begun = match tokio::time::timeout(limit, begin).await {
            Ok(begun) => begun,
            Err(_) => Err(DualResponseError::Timeout { limit }),
        };
        let kept = match begun {
            Ok(begun) => self.keep_begun(&mut resource, begun, lineage).await,
            Err(error) => Err(error),
        };
        let (begun, cut) = match kept {
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
        // From here on somebody hears of the set, or of why there is none.
        unanswered.answered();
        match outcome {
            Ok(Ok(Ok(ready))) => Ok(self.respond(&ready, cut)),
            // Nobody knows of the set yet, so nobody must hear of it: the error is the answer.
            Ok(Ok(Err(error))) => {
                let _ = self.options.store.delete(&resource.id, Removal::Deleted).await;
                Err(error)
            }
            // The write was ended from outside.
            Ok(Err(_)) => Err(DualResponseError::NotFound),
            Err(_) => {
                resource.total_count = resource.total_count.max(begun.progress.borrow().rows);
                Ok(self.respond(&resource, cut))
            }
        }
    }

    /// Keeps a set whose first rows are there.
    async fn keep_begun(
        &self,
        resource: &mut Resource,
        begun: SnapshotWrite,
        lineage: Option<Lineage>,
    ) -> Result<(SnapshotWrite, crate::response::Omitted)> {
        check_width(&begun.columns)?;
        let limits = &self.options.limits;
        let preview = Preview::new(&begun.sample, &begun.columns, self.bounds(limits.preview_bytes))
            .map_err(|error| DualResponseError::Query(error.into()))?;
        resource.columns.clone_from(&begun.columns);
        resource.sorts = self.snapshots()?.capabilities().queries;
        resource.total_count = begun.progress.borrow().rows.max(begun.sample.len() as u64);
        resource.sample_data = preview.rows;
        let mut state = SnapshotState::writing(self.now());
        state.lineage = lineage;
        resource.snapshot = Some(state);
        self.options.store.save(resource.clone()).await?;
        Ok((begun, preview.cut))
    }

    /// Gives up what this process writes: each set says why it failed.
    pub(in crate::server) async fn end_writes(&self) {
        self.writes.stop_all(Stop::Shutdown).await;
    }
}
