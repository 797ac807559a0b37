//! Updates that change a resource.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::Resource;
use crate::{
    column::ColumnDefinition,
    snapshot::{Phase, SnapshotState},
};

/// A change to the metadata of a result set ([`Resource`]).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ResourceUpdate {
    /// Time of the change. If the resource has expired at this time, the update does not change the resource.
    pub at: DateTime<Utc>,
    /// New expiry time of the resource. `Some(None)` pins the resource.
    pub expires_at: Option<Option<DateTime<Utc>>>,
    /// New expiry time, which applies only if it is later than the current expiry time. The expiry of a pinned
    /// resource is not changed.
    pub lives_until: Option<DateTime<Utc>>,
    /// Number of accesses to add.
    pub accesses: u64,
    /// New display name of the result set.
    pub name: Option<String>,
    /// New metadata of the result set.
    pub metadata: Option<Map<String, Value>>,
    /// Whether the update revokes all existing links to the result set.
    pub revoke_links: bool,
    /// New state of the snapshot.
    pub snapshot: Option<SnapshotUpdate>,
}

/// A change to the state of a result set's snapshot.
///
/// An update has no effect on a snapshot that is complete or has failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SnapshotUpdate {
    /// New state of the snapshot.
    pub state: SnapshotState,
    /// Number of rows written so far.
    pub total_count: u64,
    /// Size of the stored rows in bytes.
    pub bytes: u64,
    /// New columns, if more information about the columns is available than before.
    pub columns: Option<Vec<ColumnDefinition>>,
    /// If `if_heard_at` is set, the update applies only if the last heartbeat of the snapshot's writer was at this
    /// time.
    pub if_heard_at: Option<DateTime<Utc>>,
}

impl SnapshotUpdate {
    /// Creates an update that sets the state of the snapshot to `state`.
    pub fn new(state: SnapshotState, total_count: u64, bytes: u64) -> Self {
        Self { state, total_count, bytes, columns: None, if_heard_at: None }
    }

    /// Sets the new columns of the snapshot. Default: the columns do not change.
    #[must_use]
    pub fn with_columns(mut self, columns: Vec<ColumnDefinition>) -> Self {
        self.columns = Some(columns);
        self
    }

    /// Applies the update only if the last heartbeat of the snapshot's writer was at this time. Default: no condition.
    #[must_use]
    pub fn if_heard_at(mut self, at: DateTime<Utc>) -> Self {
        self.if_heard_at = Some(at);
        self
    }

    /// Returns whether the update applies to a snapshot in this state.
    fn is_about(&self, state: &SnapshotState) -> bool {
        state.phase == Phase::Writing && self.if_heard_at.is_none_or(|at| at == state.heard_at)
    }
}

impl ResourceUpdate {
    /// Creates an update with the time `at` that does not change the resource yet. Add changes with the other methods
    /// of `ResourceUpdate`.
    pub fn at(at: DateTime<Utc>) -> Self {
        Self { at, ..Self::default() }
    }

    /// Sets the number of accesses to add. Default: 0.
    #[must_use]
    pub fn with_accesses(mut self, accesses: u64) -> Self {
        self.accesses = accesses;
        self
    }

    /// Sets the expiry time of the resource. `None` pins the resource.
    #[must_use]
    pub fn with_expires_at(mut self, expires_at: Option<DateTime<Utc>>) -> Self {
        self.expires_at = Some(expires_at);
        self
    }

    /// Sets the expiry time to `end` if the current expiry time is earlier. A pinned resource stays pinned.
    #[must_use]
    pub fn living_until(mut self, end: DateTime<Utc>) -> Self {
        self.lives_until = Some(end);
        self
    }

    /// Sets the new display name of the result set.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the new metadata of the result set.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Sets the new state of the snapshot.
    #[must_use]
    pub fn with_snapshot(mut self, update: SnapshotUpdate) -> Self {
        self.snapshot = Some(update);
        self
    }

    /// Revokes all existing links to the result set.
    #[must_use]
    pub fn revoking_links(mut self) -> Self {
        self.revoke_links = true;
        self
    }

    /// Applies the change to a resource. If the resource has expired, `apply` returns `false` and does not change the
    /// resource. Implementations of a store of result sets use this function.
    pub fn apply(&self, resource: &mut Resource) -> bool {
        if resource.is_expired(self.at) {
            return false;
        }
        if self.accesses > 0 {
            resource.access_count = resource.access_count.saturating_add(self.accesses);
            resource.last_accessed_at = resource.last_accessed_at.max(Some(self.at));
        }
        if let Some(expires_at) = self.expires_at {
            resource.expires_at = expires_at;
        }
        if let (Some(until), Some(end)) = (self.lives_until, resource.expires_at) {
            resource.expires_at = Some(end.max(until));
        }
        if let Some(name) = &self.name {
            resource.name.clone_from(name);
        }
        if let Some(metadata) = &self.metadata {
            resource.metadata.clone_from(metadata);
        }
        if self.revoke_links {
            resource.link_epoch += 1;
        }
        if let Some(update) = &self.snapshot
            && resource.snapshot.as_ref().is_some_and(|state| update.is_about(state))
        {
            resource.snapshot = Some(update.state.clone());
            resource.total_count = update.total_count;
            resource.bytes = Some(update.bytes);
            if let Some(columns) = &update.columns {
                resource.columns.clone_from(columns);
            }
        }
        true
    }
}
