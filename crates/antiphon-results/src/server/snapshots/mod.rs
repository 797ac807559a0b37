//! Sets whose rows are saved.

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

/// When whoever is told to come back may do so.
const COME_BACK: Duration = Duration::from_secs(1);

/// Why a set has failed whose writer is silent.
const SILENT: &str = "the process that saved these rows has gone; run the query again";

/// Why a set has failed whose rows are gone.
const LOST: &str = "the saved rows are no longer there; run the query again";

impl Inner {
    pub(super) fn snapshots(&self) -> Result<&Arc<dyn SnapshotStore>> {
        self.options.snapshots.as_ref().ok_or_else(|| {
            DualResponseError::Config(
                "this server has nowhere to save rows: give it a store of snapshots with `with_snapshots`"
                    .into(),
            )
        })
    }

    /// Says whether all rows are there to be read, and if not, why not.
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

    /// Whether nothing was heard of whoever writes it for too long.
    pub(super) fn is_silent(&self, state: &SnapshotState) -> bool {
        let silence = (self.now() - state.heard_at).to_std().unwrap_or_default();
        silence > self.options.limits.silence
    }

    /// Whether all rows are there, without changing anything.
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

    /// Makes a set whose writer is silent one that has failed, unless that was only slow and is heard of again.
    async fn give_up(&self, resource: &Resource, state: &SnapshotState) -> Result<Phase> {
        let mut failed = state.clone();
        failed.phase = Phase::Failed { reason: SILENT.into() };
        let update = SnapshotUpdate::new(failed.clone(), resource.total_count, resource.bytes.unwrap_or(0))
            .if_heard_at(state.heard_at);
        let update = ResourceUpdate::at(self.now()).with_snapshot(update);
        let updated = self.options.store.update(&resource.id, update).await?;
        let now = updated.and_then(|resource| resource.snapshot).ok_or(DualResponseError::NotFound)?;
        // The rows of a set that is ready, is written after all, or was given up by others are not ours to remove.
        if now == failed {
            tracing::warn!(id = resource.id, "a snapshot was given up: nothing is heard of its writer");
            self.discard(resource).await;
        }
        Ok(now.phase)
    }

    /// Removes the rows of a set that is gone or has failed, and ends their being written. What cannot be removed
    /// now is found by a later sweep.
    pub(super) async fn discard(&self, resource: &Resource) {
        let (Origin::Snapshot, Ok(snapshots)) = (&resource.query, self.snapshots()) else { return };
        self.writes.stop(&resource.id, write::Stop::Gone).await;
        if let Err(error) = snapshots.delete(&key(resource)).await {
            tracing::warn!(id = resource.id, %error, "a snapshot could not be removed; a sweep will");
        }
    }

    /// Bounds how long a store of snapshots may take, and says what it means that rows are not there.
    async fn asked<T>(&self, resource: &Resource, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.options.limits.source_timeout;
        match tokio::time::timeout(limit, work).await {
            Ok(Err(DualResponseError::NotFound)) => Err(self.lost(resource).await?),
            Ok(outcome) => outcome,
            Err(_) => Err(DualResponseError::Timeout { limit }),
        }
    }

    /// Rows that are not there are no set that is not there, unless that has gone meanwhile.
    async fn lost(&self, resource: &Resource) -> Result<DualResponseError> {
        Ok(match self.options.store.get(&resource.id).await? {
            Some(_) => {
                tracing::error!(id = resource.id, "the rows of a snapshot are gone");
                DualResponseError::Failed(LOST.into())
            }
            None => DualResponseError::NotFound,
        })
    }
}

/// Where the rows of a set are.
fn key(resource: &Resource) -> SnapshotId {
    SnapshotId::new(&resource.owner, &resource.id)
}

/// What only snapshots have.
fn only_snapshots(resource: &Resource, what: &str) -> Result<()> {
    if resource.query == Origin::Snapshot {
        return Ok(());
    }
    Err(DualResponseError::Unsupported(format!(
        "{what} of saved rows only, and these are not: make the set with `Source::snapshot`"
    )))
}
