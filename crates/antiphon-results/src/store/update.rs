//! Changes to a resource.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::Resource;
use crate::{
    column::ColumnDefinition,
    snapshot::{Phase, SnapshotState},
};

/// A change to a resource.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ResourceUpdate {
    /// When the change is made.
    pub at: DateTime<Utc>,
    /// When it ends from now on; `Some(None)` is never.
    pub expires_at: Option<Option<DateTime<Utc>>>,
    /// It ends no sooner than this, if it ends at all: what is pinned, or lives longer, is left as it is.
    pub lives_until: Option<DateTime<Utc>>,
    /// How many accesses are added.
    pub accesses: u64,
    /// Its new name.
    pub name: Option<String>,
    /// Its new metadata.
    pub metadata: Option<Map<String, Value>>,
    /// Whether links made so far are no longer good.
    pub revoke_links: bool,
    /// How far its snapshot is.
    pub snapshot: Option<SnapshotUpdate>,
}

/// What there is to say of a set's snapshot. One that is ready or has failed stays so, whatever comes late.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SnapshotUpdate {
    /// How far it is.
    pub state: SnapshotState,
    /// How many rows it has so far.
    pub total_count: u64,
    /// How many bytes it is as it is stored.
    pub bytes: u64,
    /// Its columns, where more is known of them than before.
    pub columns: Option<Vec<ColumnDefinition>>,
    /// It is so only if whoever writes it was last heard of then; otherwise nothing changes.
    pub if_heard_at: Option<DateTime<Utc>>,
}

impl SnapshotUpdate {
    /// So far it is.
    pub fn new(state: SnapshotState, total_count: u64, bytes: u64) -> Self {
        Self { state, total_count, bytes, columns: None, if_heard_at: None }
    }

    /// Its columns are these.
    #[must_use]
    pub fn with_columns(mut self, columns: Vec<ColumnDefinition>) -> Self {
        self.columns = Some(columns);
        self
    }

    /// It is so only if nothing was heard of whoever writes it since then.
    #[must_use]
    pub fn if_heard_at(mut self, at: DateTime<Utc>) -> Self {
        self.if_heard_at = Some(at);
        self
    }

    /// Whether it is about a snapshot that is so far.
    fn is_about(&self, state: &SnapshotState) -> bool {
        state.phase == Phase::Writing && self.if_heard_at.is_none_or(|at| at == state.heard_at)
    }
}

impl ResourceUpdate {
    /// No change, made at this time.
    pub fn at(at: DateTime<Utc>) -> Self {
        Self { at, ..Self::default() }
    }

    /// Its rows were read so many times.
    #[must_use]
    pub fn with_accesses(mut self, accesses: u64) -> Self {
        self.accesses = accesses;
        self
    }

    /// It ends then, or never.
    #[must_use]
    pub fn with_expires_at(mut self, expires_at: Option<DateTime<Utc>>) -> Self {
        self.expires_at = Some(expires_at);
        self
    }

    /// It ends no sooner than this. What is pinned stays so.
    #[must_use]
    pub fn living_until(mut self, end: DateTime<Utc>) -> Self {
        self.lives_until = Some(end);
        self
    }

    /// Changes its name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Changes its metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Says how far its snapshot is.
    #[must_use]
    pub fn with_snapshot(mut self, update: SnapshotUpdate) -> Self {
        self.snapshot = Some(update);
        self
    }

    /// Makes the links made so far no longer good.
    #[must_use]
    pub fn revoking_links(mut self) -> Self {
        self.revoke_links = true;
        self
    }

    /// Makes the change, or says that the resource has expired. For those who write a store.
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
