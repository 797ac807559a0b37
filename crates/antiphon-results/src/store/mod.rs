//! Stores for result sets.

mod memory;
mod shared;
mod update;

#[cfg(feature = "conformance")]
pub mod conformance;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::{
    memory::MemoryStore,
    shared::SharedStore,
    update::{ResourceUpdate, SnapshotUpdate},
};
use crate::{
    column::ColumnDefinition,
    error::Result,
    owner::Owner,
    rows::{Row, Rows},
    snapshot::SnapshotState,
};

/// A store for result sets. It keeps their metadata, in-memory rows, and the tombstones of removed sets.
///
/// # Contract
///
/// - After [`save`](Self::save), every [`get`](Self::get) returns the resource as last written, from every opening of
///   the store. An expired resource is returned until it is deleted. The reader checks the expiry time.
/// - [`update`](Self::update) changes only the given fields, and is atomic. No concurrent update is lost, and accesses
///   add up. A resource that is unknown, or has expired at [`ResourceUpdate::at`], is not updated.
/// - [`delete`](Self::delete) succeeds once: of any number of concurrent calls, exactly one returns `true`. It removes
///   the rows with the resource, and leaves a [`tombstone`](Self::tombstone). With [`Removal::Expired`] it removes the
///   resource only if it has expired at the given time. A resource that was pinned or extended meanwhile stays.
/// - [`find_expired`](Self::find_expired) returns only the IDs of expired resources. After an ID is returned, no other
///   caller gets it for one minute. So replicas do not clean up the same resource.
/// - [`rows`](Self::rows) returns rows as they were [stored](Self::put_rows), in the same order.
///
/// The module `store::conformance` (feature `conformance`) contains the contract tests.
#[async_trait]
pub trait ResourceStore: fmt::Debug + Send + Sync + 'static {
    /// Stores a resource under its ID, and returns the ID.
    async fn save(&self, resource: Resource) -> Result<String>;

    /// Returns the resource with this ID.
    async fn get(&self, id: &str) -> Result<Option<Resource>>;

    /// Updates a resource, and returns its new state. Returns `None` if there is nothing to update.
    async fn update(&self, id: &str, update: ResourceUpdate) -> Result<Option<Resource>>;

    /// Removes a resource and its rows, and returns whether this call removed it.
    async fn delete(&self, id: &str, removal: Removal) -> Result<bool>;

    /// Returns the IDs of resources that have expired at `at`, up to a few hundred.
    async fn find_expired(&self, at: DateTime<Utc>) -> Result<Vec<String>>;

    /// Returns the tombstone of a removed resource, while the store keeps it.
    async fn tombstone(&self, id: &str) -> Result<Option<TombstoneEntry>>;

    /// Stores the rows of a resource. The server calls it once, before [`save`](Self::save).
    async fn put_rows(&self, id: &str, rows: Rows) -> Result<()>;

    /// Returns rows of a resource from `offset` on: `limit` rows, or all that are left.
    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Rows>;

    /// Returns whether other processes share this store. Closures cannot be saved in a shared store.
    fn is_shared(&self) -> bool;

    /// Closes connections. It can be called more than once.
    async fn close(&self) -> Result<()>;
}

/// An `Arc` of a store is a store.
#[async_trait]
impl<S: ResourceStore + ?Sized> ResourceStore for Arc<S> {
    async fn save(&self, resource: Resource) -> Result<String> {
        (**self).save(resource).await
    }

    async fn get(&self, id: &str) -> Result<Option<Resource>> {
        (**self).get(id).await
    }

    async fn update(&self, id: &str, update: ResourceUpdate) -> Result<Option<Resource>> {
        (**self).update(id, update).await
    }

    async fn delete(&self, id: &str, removal: Removal) -> Result<bool> {
        (**self).delete(id, removal).await
    }

    async fn find_expired(&self, at: DateTime<Utc>) -> Result<Vec<String>> {
        (**self).find_expired(at).await
    }

    async fn tombstone(&self, id: &str) -> Result<Option<TombstoneEntry>> {
        (**self).tombstone(id).await
    }

    async fn put_rows(&self, id: &str, rows: Rows) -> Result<()> {
        (**self).put_rows(id, rows).await
    }

    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Rows> {
        (**self).rows(id, offset, limit).await
    }

    fn is_shared(&self) -> bool {
        (**self).is_shared()
    }

    async fn close(&self) -> Result<()> {
        (**self).close().await
    }
}

/// A result set without its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resource {
    /// ID: at least 128 random bits.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Source of the rows.
    pub query: Origin,
    /// Columns.
    pub columns: Vec<ColumnDefinition>,
    /// Columns that identify a row. Empty if there are none.
    #[serde(default)]
    pub key: Vec<String>,
    /// Whether the rows can be sorted.
    pub sorts: bool,
    /// Number of rows at creation. For a snapshot, the number of rows written so far.
    pub total_count: u64,
    /// Size of the rows in bytes, if it is known: as JSON, or as stored for a snapshot.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Preview.
    pub sample_data: Vec<Row>,
    /// Creation time.
    pub created_at: DateTime<Utc>,
    /// Expiry time. `None` if the set is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// Lifetime. It starts again when the set is unpinned.
    pub life: Duration,
    /// Number of accesses to the rows.
    pub access_count: u64,
    /// Time of the last access.
    pub last_accessed_at: Option<DateTime<Utc>>,
    /// Metadata from the creator of the set.
    pub metadata: Map<String, Value>,
    /// Owner.
    pub owner: Owner,
    /// Epoch of valid links. Links of an earlier epoch are revoked.
    #[serde(default)]
    pub link_epoch: u64,
    /// State of the snapshot, if the rows are in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotState>,
}

impl Resource {
    /// Creates a resource without rows. Use it in tests of your own store.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        created_at: DateTime<Utc>,
        life: Duration,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            query: Origin::Rows,
            columns: Vec::new(),
            key: Vec::new(),
            sorts: true,
            total_count: 0,
            bytes: None,
            sample_data: Vec::new(),
            created_at,
            expires_at: created_at.checked_add_signed(chrono::TimeDelta::from_std(life).unwrap_or_default()),
            life,
            access_count: 0,
            last_accessed_at: None,
            metadata: Map::new(),
            owner: Owner::nobody(),
            link_epoch: 0,
            snapshot: None,
        }
    }

    /// Returns whether the set has expired at this time.
    pub fn is_expired(&self, at: DateTime<Utc>) -> bool {
        self.expires_at.is_some_and(|end| end <= at)
    }
}

/// The source of a result set's rows, in the form that a store keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// Rows that are stored with the set. Every page comes from the same data.
    Rows,
    /// A named query that runs for every page. A page shows the data at the time of the read.
    Live {
        /// Registered name of the query.
        query: String,
        /// Parameters of the query.
        parameters: Value,
    },
    /// Closures in the process that created the set.
    Closures,
    /// A snapshot of the rows. Every page comes from the same data.
    Snapshot,
}

/// The reason for removing a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removal {
    /// A caller deletes it.
    Deleted,
    /// The resource has expired. If it has not expired at the given time, it stays.
    Expired {
        /// Current time.
        at: DateTime<Utc>,
    },
}

/// The record that is kept of a removed resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstoneEntry {
    /// Reason for the removal.
    pub tombstone: Tombstone,
    /// Owner of the removed resource. For other callers, the resource never existed.
    #[serde(default)]
    pub owner: Owner,
}

/// The reason why a resource was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tombstone {
    /// A caller deleted it.
    Deleted,
    /// The resource expired.
    Expired,
}

impl From<Removal> for Tombstone {
    fn from(removal: Removal) -> Self {
        match removal {
            Removal::Deleted => Self::Deleted,
            Removal::Expired { .. } => Self::Expired,
        }
    }
}
