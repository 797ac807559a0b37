//! Where result sets are kept.

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

/// Keeps result sets: what is known of each, the rows of those that are in hand, and for a while what became
/// of those that are gone.
///
/// # Contract
///
/// - A resource that was [saved](Self::save) is seen by every later [`get`](Self::get), from whatever opening
///   of the store, as it was last written. One that has expired is seen too, until it is deleted: who reads
///   it looks at the clock.
/// - [`update`](Self::update) changes what is given and nothing else, and is atomic: of any number of updates
///   at once none is lost, and accesses add up. What is unknown, or has expired at
///   [`ResourceUpdate::at`], is not updated.
/// - [`delete`](Self::delete) happens once: of any number of callers one is told `true`. It removes the rows
///   with the resource and leaves a [`tombstone`](Self::tombstone). With [`Removal::Expired`] it removes only
///   what has expired by then, whatever was pinned or extended meanwhile.
/// - [`find_expired`](Self::find_expired) gives ids of resources that have expired, and never others. An id
///   that was given to one caller is not given to another for a minute, so replicas do not clean up the same.
/// - [`rows`](Self::rows) gives rows as they were [put](Self::put_rows), in that order.
///
/// The contract is written as tests in `store::conformance` (the feature `conformance`).
#[async_trait]
pub trait ResourceStore: fmt::Debug + Send + Sync + 'static {
    /// Keeps a resource under its id, and returns the id.
    async fn save(&self, resource: Resource) -> Result<String>;

    /// The resource with this id.
    async fn get(&self, id: &str) -> Result<Option<Resource>>;

    /// Changes a resource, and returns what it then is; `None` if there is none to change.
    async fn update(&self, id: &str, update: ResourceUpdate) -> Result<Option<Resource>>;

    /// Removes a resource and its rows, and says whether there was one to remove.
    async fn delete(&self, id: &str, removal: Removal) -> Result<bool>;

    /// Ids of resources that have expired at `at`, up to a few hundred.
    async fn find_expired(&self, at: DateTime<Utc>) -> Result<Vec<String>>;

    /// What became of a resource that is gone, as long as anybody remembers.
    async fn tombstone(&self, id: &str) -> Result<Option<TombstoneEntry>>;

    /// Keeps the rows of a resource. Called once, before it is saved.
    async fn put_rows(&self, id: &str, rows: Rows) -> Result<()>;

    /// Rows of a resource from `offset` on, up to `limit`: as many as there are.
    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Rows>;

    /// Whether other processes see what is kept here. A closure cannot be kept in such a store.
    fn is_shared(&self) -> bool;

    /// Lets go of connections. May be called more than once.
    async fn close(&self) -> Result<()>;
}

/// A handle on a store is one.
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

/// A result set, as far as it is not rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resource {
    /// Its id: at least 128 random bits.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Where its rows come from.
    pub query: Origin,
    /// Its columns.
    pub columns: Vec<ColumnDefinition>,
    /// The columns that tell its rows apart; empty if none are known to.
    #[serde(default)]
    pub key: Vec<String>,
    /// Whether it can be sorted.
    pub sorts: bool,
    /// How many rows it had when it was made.
    pub total_count: u64,
    /// How many bytes its rows are as JSON, where that is known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Its preview.
    pub sample_data: Vec<Row>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it ends; never, if it is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// How long it was to live, and does again when it is unpinned.
    pub life: Duration,
    /// How often its rows were read.
    pub access_count: u64,
    /// When they were last.
    pub last_accessed_at: Option<DateTime<Utc>>,
    /// What its maker wants to keep with it.
    pub metadata: Map<String, Value>,
    /// Whose it is.
    pub owner: Owner,
    /// Links made for an earlier epoch are no longer good.
    #[serde(default)]
    pub link_epoch: u64,
    /// How far its snapshot is, if its rows are in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotState>,
}

impl Resource {
    /// A resource without rows, for those who test a store of their own.
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

    /// Whether its time is over.
    pub fn is_expired(&self, at: DateTime<Utc>) -> bool {
        self.expires_at.is_some_and(|end| end <= at)
    }
}

/// Where the rows of a result set come from, as a store can keep it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// They are kept with it: every page comes from the same data.
    Rows,
    /// A named query, run for every page: a page shows the data as they are when it is read.
    Live {
        /// The name it is registered under.
        query: String,
        /// Its parameters.
        parameters: Value,
    },
    /// Closures in the process that made it.
    Closures,
    /// They are saved in a snapshot of its own: every page comes from the same data.
    Snapshot,
}

/// Why a resource is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removal {
    /// Somebody wants it gone.
    Deleted,
    /// Its time is over, if at this moment it still is.
    Expired {
        /// Now.
        at: DateTime<Utc>,
    },
}

/// What is remembered of a resource that is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstoneEntry {
    /// What became of it.
    pub tombstone: Tombstone,
    /// Whose it was: nobody else is told.
    #[serde(default)]
    pub owner: Owner,
}

/// What became of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tombstone {
    /// Somebody wanted it gone.
    Deleted,
    /// Its time was over.
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
