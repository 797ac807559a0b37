//! Result sets whose rows are saved as snapshots.

mod cursor;
mod export;
mod look;
mod manifest;
mod page;
mod places;
mod query;
mod save;
pub(super) mod sweep;
mod usage;
mod write;

use std::{future::Future, sync::Arc, time::Duration};

pub use self::{export::SetExport, query::QueryOptions};
pub(super) use self::{look::Looks, page::Wanted, places::Places, usage::Usage, write::Writes};
use super::Inner;
use crate::{
    error::{DualResponseError, Result},
    snapshot::{Phase, SetStatus, SnapshotId, SnapshotState, SnapshotStore},
    store::{Origin, Resource, ResourceUpdate, SnapshotUpdate},
};

/// Recommended time to wait before the request is sent again.
const COME_BACK: Duration = Duration::from_secs(1);

/// The failure reason for a write whose heartbeats stopped.
const SILENT: &str =
    "the rows could not be saved: the process that saved them does not respond; run the query again";

/// The failure reason for a result set whose rows are lost.
const LOST: &str = "the saved rows were lost; run the query again";

impl Inner {
    pub(super) fn snapshots(&self) -> Result<&Arc<dyn SnapshotStore>> {
        self.options.snapshots.as_ref().ok_or_else(|| {
            DualResponseError::Config(
                "this server has no snapshot store to save rows; add one with `with_snapshots`".into(),
            )
        })
    }

    /// Returns an error if the rows of a result set are not ready. The error contains the reason why the rows are not
    /// ready.
    pub(crate) async fn check_ready(&self, resource: &Resource) -> Result<()> {
        let Some(state) = &resource.snapshot else { return Ok(()) };
        let phase = match &state.phase {
            Phase::Writing if self.is_silent(state) => self.give_up(resource, state).await?,
            phase => phase.clone(),
        };
        match phase {
            Phase::Ready => Ok(()),
            Phase::Failed { reason } => Err(DualResponseError::Failed(reason)),
            Phase::Writing => Err(DualResponseError::NotReady { retry_after: COME_BACK }),
        }
    }

    /// Returns whether the last heartbeat of the writer is too old.
    pub(super) fn is_silent(&self, state: &SnapshotState) -> bool {
        let silence = (self.now() - state.heard_at).to_std().unwrap_or_default();
        silence > self.options.limits.silence
    }

    /// Returns the state of the rows, without changing the stored state.
    pub(crate) fn status(&self, resource: &Resource) -> SetStatus {
        match &resource.snapshot {
            None => SetStatus::Ready,
            Some(state) => match state.phase {
                Phase::Ready => SetStatus::Ready,
                Phase::Writing if !self.is_silent(state) => SetStatus::Writing,
                Phase::Writing | Phase::Failed { .. } => SetStatus::Failed,
            },
        }
    }

    /// Marks a result set without a heartbeat as failed, unless a new heartbeat has arrived.
    async fn give_up(&self, resource: &Resource, state: &SnapshotState) -> Result<Phase> {
        let mut failed = state.clone();
        failed.phase = Phase::Failed { reason: SILENT.into() };
        let update = SnapshotUpdate::new(failed.clone(), resource.total_count, resource.bytes.unwrap_or(0))
            .if_heard_at(state.heard_at);
        let update = ResourceUpdate::at(self.now()).with_snapshot(update);
        let updated = self.options.store.update(&resource.id, update).await?;
        let now = updated.and_then(|resource| resource.snapshot).ok_or(DualResponseError::NotFound)?;
        // If the set is ready, still being written, or was marked by another process, its rows must not be removed
        // here.
        if now == failed {
            tracing::warn!(id = resource.id, "a snapshot was marked as failed: its writer is not responding");
            self.discard(resource).await;
        }
        Ok(now.phase)
    }

    /// Removes the rows of a result set that was removed or has failed, and stops the write of these rows. If the
    /// removal fails, a later sweep removes the rows.
    pub(super) async fn discard(&self, resource: &Resource) {
        let (Origin::Snapshot, Ok(snapshots)) = (&resource.query, self.snapshots()) else { return };
        self.writes.stop(&resource.id, write::Stop::Gone).await;
        if let Err(error) = snapshots.delete(&key(resource)).await {
            tracing::warn!(id = resource.id, %error, "a snapshot could not be removed; the next sweep removes it");
        }
    }

    /// Applies the timeout to a call of the snapshot store. If the store reports that the rows are missing, returns
    /// the error from [`lost`](Self::lost).
    async fn asked<T>(&self, resource: &Resource, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.options.limits.source_timeout;
        match tokio::time::timeout(limit, work).await {
            Ok(Err(DualResponseError::NotFound)) => Err(self.lost(resource).await?),
            Ok(outcome) => outcome,
            Err(_) => Err(DualResponseError::Timeout { limit }),
        }
    }

    /// Returns the error for missing rows. If the result set still exists, the error states that the set has failed.
    /// If the result set no longer exists, the error states that the result set was not found.
    async fn lost(&self, resource: &Resource) -> Result<DualResponseError> {
        Ok(match self.options.store.get(&resource.id).await? {
            Some(_) => {
                tracing::error!(id = resource.id, "the snapshot store has lost the rows of a result set");
                DualResponseError::Failed(LOST.into())
            }
            None => DualResponseError::NotFound,
        })
    }
}

/// Returns the location of a result set's rows.
fn key(resource: &Resource) -> SnapshotId {
    SnapshotId::new(&resource.owner, &resource.id)
}

/// Returns an error if the result set is not a snapshot.
fn only_snapshots(resource: &Resource, what: &str) -> Result<()> {
    if resource.query == Origin::Snapshot {
        return Ok(());
    }
    Err(DualResponseError::Unsupported(format!(
        "{what} available only for saved rows, and the rows of this result set are not saved; create the set with `Source::snapshot`"
    )))
}
