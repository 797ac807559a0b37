//! Stores for result sets.

mod memory;
mod shared;
mod update;

#[cfg(feature = "conformance")]
pub mod conformance;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
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

/// A store for result sets. The store keeps the metadata of each result set as a [`Resource`], the in-memory rows, and
/// a *tombstone* for each removed set.
///
/// # Contract
///
/// - After [`save`](Self::save), every [`get`](Self::get) returns the resource as last written, through every handle
///   to the store. `get` also returns an expired resource, until the resource is deleted. The caller of `get` must
///   check whether the resource has expired.
/// - [`update`](Self::update) changes only the given fields, and is atomic. The store loses no concurrent update, and
///   counts all accesses. `update` does not change an unknown resource, or a resource that has expired at the time
///   [`ResourceUpdate::at`].
/// - [`delete`](Self::delete) succeeds once: of any number of concurrent calls, exactly one returns `true`. `delete`
///   removes the rows with the resource, and leaves a [`tombstone`](Self::tombstone). With [`Removal::Expired`],
///   `delete` removes the resource only if the resource has expired at the given time. A resource that was pinned or
///   extended before the call of `delete` stays in the store.
/// - [`find_expired`](Self::find_expired) returns only the IDs of expired resources. For one minute after
///   `find_expired` returns an ID, no other caller gets this ID. So two replicas do not clean up the same expired
///   resource.
/// - [`rows`](Self::rows) returns rows as they were [stored](Self::put_rows), in the same order.
///
/// The module `store::conformance` (feature `conformance`) contains the contract tests.
#[async_trait]
pub trait ResourceStore: fmt::Debug + Send + Sync + 'static {
    /// Stores a resource under its ID, and returns the ID.
    async fn save(&self, resource: Resource) -> Result<String>;

    /// Returns the resource with this ID, even if it has expired. Returns `None` if the resource does not exist.
    async fn get(&self, id: &str) -> Result<Option<Resource>>;

    /// Updates a resource, and returns its new state. Returns `None` if the resource does not exist or has expired.
    async fn update(&self, id: &str, update: ResourceUpdate) -> Result<Option<Resource>>;

    /// Removes a resource and its rows, and returns whether this call removed it.
    async fn delete(&self, id: &str, removal: Removal) -> Result<bool>;

    /// Returns the IDs of resources that have expired at `at`, up to a few hundred.
    async fn find_expired(&self, at: DateTime<Utc>) -> Result<Vec<String>>;

    /// Returns the tombstone of a removed resource, or `None` if the store has no tombstone of the resource.
    async fn tombstone(&self, id: &str) -> Result<Option<TombstoneEntry>>;

    /// Stores the rows of a resource. The server calls `put_rows` once for each resource, before [`save`](Self::save).
    async fn put_rows(&self, id: &str, rows: Rows) -> Result<()>;

    /// Returns up to `limit` rows of a resource, starting at `offset`. Returns fewer than `limit` rows only at the end
    /// of the result set.
    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Rows>;

    /// Stores `id` as the newest result set of `caller`, for ten minutes. The server calls `set_newest` only if the
    /// store is shared.
    ///
    /// The default implementation does nothing, so other replicas do not find the newest result set of a caller.
    async fn set_newest(&self, caller: &str, id: &str) -> Result<()> {
        let _ = (caller, id);
        Ok(())
    }

    /// Returns the ID from the last call of [`set_newest`](Self::set_newest) for `caller`. Returns `None` if
    /// `set_newest` was not called for `caller` in the last ten minutes.
    async fn newest(&self, caller: &str) -> Result<Option<String>> {
        let _ = caller;
        Ok(None)
    }

    /// Returns how far the clock of the store is ahead of the clock of this process. The server adds the difference to
    /// the time of the local clock, so that all replicas agree on the time.
    ///
    /// The default implementation returns zero, which is correct for a store in memory.
    async fn clock_difference(&self) -> TimeDelta {
        TimeDelta::zero()
    }

    /// Returns whether other processes share this store. A server with a shared store rejects closures as sources.
    fn is_shared(&self) -> bool;

    /// Closes the connections of the store. A second call of `close` has no effect.
    async fn close(&self) -> Result<()>;
}

/// An `Arc` of a store of result sets is also a store of result sets.
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

    async fn set_newest(&self, caller: &str, id: &str) -> Result<()> {
        (**self).set_newest(caller, id).await
    }

    async fn newest(&self, caller: &str) -> Result<Option<String>> {
        (**self).newest(caller).await
    }

    async fn clock_difference(&self) -> TimeDelta {
        (**self).clock_difference().await
    }

    fn is_shared(&self) -> bool {
        (**self).is_shared()
    }

    async fn close(&self) -> Result<()> {
        (**self).close().await
    }
}

/// The metadata of a result set. The rows are stored separately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resource {
    /// ID of the result set. The ID contains at least 128 random bits, so callers cannot guess the ID.
    pub id: String,
    /// Display name of the result set.
    pub name: String,
    /// Source of the rows.
    pub query: Origin,
    /// Columns of the rows.
    pub columns: Vec<ColumnDefinition>,
    /// Key: the columns that together identify a row. The list is empty if the source has no key.
    #[serde(default)]
    pub key: Vec<String>,
    /// Whether the rows can be sorted.
    pub sorts: bool,
    /// Number of rows when the result set was created. For a snapshot, the value is the number of rows written so far.
    pub total_count: u64,
    /// Size of the rows in bytes, if it is known. For a snapshot, the value is the stored size. For other result sets,
    /// the value is the size as JSON.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Preview: the first rows of the result set.
    pub sample_data: Vec<Row>,
    /// Time at which the result set was created.
    pub created_at: DateTime<Utc>,
    /// Time at which the result set expires. The value is `None` if the result set is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// Lifetime of the result set. The lifetime starts again when the result set is unpinned.
    pub life: Duration,
    /// Number of times that callers have read the rows.
    pub access_count: u64,
    /// Time of the last access.
    pub last_accessed_at: Option<DateTime<Utc>>,
    /// Metadata from the creator of the result set.
    pub metadata: Map<String, Value>,
    /// Owner of the result set.
    pub owner: Owner,
    /// Epoch of valid links: a number that increases when links are revoked. Links with an earlier epoch are invalid.
    #[serde(default)]
    pub link_epoch: u64,
    /// State of the snapshot. The value is `None` if the result set is not a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotState>,
}

impl Resource {
    /// Creates a resource without rows. Use this function to test your own store of result sets.
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

    /// Returns whether the result set has expired at this time.
    pub fn is_expired(&self, at: DateTime<Utc>) -> bool {
        self.expires_at.is_some_and(|end| end <= at)
    }
}

/// The source of a result set's rows, in the form that a store keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// In-memory rows that are stored with the result set. Every page of the result set shows the same data.
    Rows,
    /// A live query: a named query that runs again for every page. A page shows the data at the time of the read.
    Live {
        /// Registered name of the query.
        query: String,
        /// Parameters of the query.
        parameters: Value,
    },
    /// Closures of the process that created the result set, which read the rows.
    Closures,
    /// A snapshot. Every page of the result set shows the same data.
    Snapshot,
}

/// The reason why a call removes a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removal {
    /// A caller deletes the resource.
    Deleted,
    /// The resource has expired. A resource that has not expired at the time `at` is not removed.
    Expired {
        /// Current time, with which the expiry time of the resource is compared.
        at: DateTime<Utc>,
    },
}

/// The record that a store keeps of a removed resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstoneEntry {
    /// Reason for the removal.
    pub tombstone: Tombstone,
    /// Owner of the removed resource. The server does not reveal to other callers that the resource existed.
    #[serde(default)]
    pub owner: Owner,
}

/// The reason why a resource was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tombstone {
    /// A caller deleted the resource.
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
