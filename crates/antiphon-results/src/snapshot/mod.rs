//! A snapshot saves the rows of a result set once, so that clients can read any page of the rows in any order.
//!
//! A [`SnapshotStore`] stores snapshots. This crate defines the contract of a snapshot store, and serves the rows of
//! snapshots over HTTP. The crate `antiphon-snapshot` implements a store with Parquet files on an object store.

mod aggregate;
mod body;
mod capabilities;
#[cfg(feature = "conformance")]
pub mod conformance;
mod export;
#[cfg(feature = "server")]
mod hint;
mod manifest;
mod row_source;
mod state;
mod stats;
mod view;

#[cfg(feature = "server")]
use std::{fmt, sync::Arc, time::Duration};

#[cfg(feature = "server")]
use async_trait::async_trait;
#[cfg(feature = "server")]
use chrono::{DateTime, Utc};
#[cfg(feature = "server")]
use futures_util::stream::BoxStream;
#[cfg(feature = "server")]
use url::Url;

/// A hint about the type of a column in a JSON source. `ColumnHint` is public because the crate `antiphon-snapshot`
/// needs it.
#[cfg(feature = "server")]
#[doc(hidden)]
pub use self::hint::ColumnHint;
pub use self::{
    aggregate::{Aggregate, Bucket, Group, Measure, MeasureOp},
    body::{Capabilities, DerivedBody, RetrievalMode, SetManifest, SetStatus, StatsBody},
    capabilities::SnapshotCapabilities,
    export::{ByteRange, Export, ExportFormat, ExportRequest},
    manifest::{Chunk, Manifest},
    row_source::{Progress, RowSource, SnapshotWrite, SnapshotWriteOptions, Truncation, Written},
    state::{Lineage, Phase, SnapshotState},
    stats::{Bin, ColumnStats, Frequent},
    view::{Filter, FilterOp, View},
};
#[cfg(feature = "server")]
use crate::{error::Result, hex::hex, owner::Owner, rows::Rows};

/// A store for snapshots. Each snapshot has the rows of one result set, is written once, and never changes.
///
/// # Contract
///
/// - **All or nothing.** No reader sees a snapshot until [`SnapshotWrite::rest`] has succeeded. After a successful
///   write, every reader gets the same snapshot, through every handle to the store. A failed write leaves no readable
///   snapshot. [`ids`](Self::ids) also returns unfinished snapshots, and [`delete`](Self::delete) removes their files.
/// - **One order.** [`page`](Self::page) returns rows in the order of the source, or of the view. Row `n` of a
///   snapshot is the same row for every page size and on every replica. Rows with equal sort values keep the order of
///   the source.
/// - **One content.** [`Manifest::digest`] and every byte of an export stay the same while the snapshot exists. So a
///   client can resume an interrupted download of an export.
/// - **No silent truncation.** If a row cannot be read, the store returns an error, even in the middle of a stream.
/// - If the caller drops the future or stream of a page, an export, a write or a query, the work stops.
/// - The whole [`SnapshotId`], which includes the tenant, identifies a snapshot. The store does not find a tenant's
///   snapshot under the ID of another tenant.
///
/// An operation that needs a query engine can return
/// [`DualResponseError::Unsupported`](crate::DualResponseError::Unsupported).
///
/// The module `snapshot::conformance` (feature `conformance`) contains the contract tests.
#[cfg(feature = "server")]
#[async_trait]
pub trait SnapshotStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the optional operations that the store supports.
    fn capabilities(&self) -> SnapshotCapabilities;

    /// Starts to write a snapshot, and returns when the first rows are available. The caller must poll
    /// [`SnapshotWrite::rest`], which writes the remaining rows.
    async fn begin(
        &self,
        id: &SnapshotId,
        row_source: RowSource,
        options: SnapshotWriteOptions,
    ) -> Result<SnapshotWrite>;

    /// Returns the metadata of a complete snapshot, and the list of its chunks.
    async fn manifest(&self, id: &SnapshotId) -> Result<Manifest>;

    /// Builds a view (sorted or filtered rows) for later reads, and returns the number of rows in the view. Each view
    /// is built once, and concurrent callers wait for the same build. If all callers are cancelled, the build of the
    /// view continues for some time, because a caller often retries.
    async fn prepare(&self, id: &SnapshotId, view: &View) -> Result<u64>;

    /// Returns rows of a snapshot, or of a view of the snapshot.
    async fn page(&self, id: &SnapshotId, request: &SnapshotPage) -> Result<Rows>;

    /// Returns statistics of each column. The store computes the statistics of a snapshot once, and then stores them.
    async fn stats(&self, id: &SnapshotId) -> Result<Vec<ColumnStats>>;

    /// Groups the rows, and returns aggregates of each group, such as counts and sums. A chart can show these
    /// aggregates.
    async fn aggregate(&self, id: &SnapshotId, aggregate: &Aggregate) -> Result<Rows>;

    /// Exports all rows, or the rows of a view, as a file. The returned [`Export`] contains the bytes as a stream.
    async fn export(&self, id: &SnapshotId, request: &ExportRequest) -> Result<Export>;

    /// Returns a signed URL at which clients can download the stored file without this server. The signed URL is valid
    /// for the duration `life`. With the signed URL, a client can also request a byte range, for example one chunk.
    /// Returns `None` if the store does not sign URLs.
    async fn sign(&self, id: &SnapshotId, life: Duration) -> Result<Option<Url>>;

    /// Runs a read-only SQL query over snapshots, and returns its rows. `tables` contains the table name and the ID of
    /// each snapshot. The query can access only the snapshots in `tables`.
    async fn query(&self, tables: &[(String, SnapshotId)], sql: &str, owner: &Owner) -> Result<RowSource>;

    /// Removes a snapshot, its views, and the files of an unfinished write. If the snapshot does not exist, the call
    /// succeeds.
    async fn delete(&self, id: &SnapshotId) -> Result<()>;

    /// Returns the IDs of all finished and unfinished snapshots whose write started before the time `before`. Use this
    /// method to find snapshots that belong to no result set.
    fn ids(&self, before: DateTime<Utc>) -> BoxStream<'_, Result<SnapshotId>>;

    /// Returns the number of bytes that a tenant's snapshots and views use. A view that is still being built, by any
    /// process, counts with its maximum size.
    async fn usage(&self, tenant: Option<&str>) -> Result<u64>;

    /// Returns the number of bytes that the owner's *share* uses. If the owner has a tenant, the share consists of all
    /// snapshots of the tenant. If the owner has no tenant, the share consists of all snapshots of the principal.
    ///
    /// A store can return an earlier measurement of the usage if a new measurement is expensive. The default
    /// implementation returns [`usage`](Self::usage), which is one value for all principals without a tenant.
    async fn usage_of(&self, owner: &Owner) -> Result<Taken> {
        Ok(Taken::now(self.usage(owner.tenant.as_deref()).await?))
    }
}

/// The number of bytes that the snapshots of a tenant use, or the snapshots of a principal without a tenant.
#[cfg(feature = "server")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// Number of bytes in use.
    pub bytes: u64,
    /// Time since the number of bytes was measured. The value is [`Duration::MAX`] if the store has not measured the
    /// usage yet.
    pub age: Duration,
}

#[cfg(feature = "server")]
impl Taken {
    /// Creates a `Taken` with a number of bytes that was measured now.
    pub fn now(bytes: u64) -> Self {
        Self { bytes, age: Duration::ZERO }
    }

    /// Sets the time since the number of bytes was measured. Default: 0.
    #[must_use]
    pub fn with_age(mut self, age: Duration) -> Self {
        self.age = age;
        self
    }
}

/// The ID of a snapshot: the ID of its result set, and the tenant's folder in the store.
#[cfg(feature = "server")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SnapshotId {
    /// Name of the tenant's folder in the store. [`SnapshotId::place`] computes the folder's name from the name of the
    /// tenant.
    pub place: String,
    /// ID of the result set: lower-case letters, digits and `_`.
    pub set: String,
    /// Name of the snapshot's share, which [`SnapshotId::share`] returns. The share is not part of the identity,
    /// because a store that finds a snapshot cannot determine the share.
    share: String,
}

#[cfg(feature = "server")]
impl PartialEq for SnapshotId {
    fn eq(&self, other: &Self) -> bool {
        (&self.place, &self.set) == (&other.place, &other.set)
    }
}

#[cfg(feature = "server")]
impl Eq for SnapshotId {}

#[cfg(feature = "server")]
impl std::hash::Hash for SnapshotId {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.place, &self.set).hash(state);
    }
}

#[cfg(feature = "server")]
impl PartialOrd for SnapshotId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(feature = "server")]
impl Ord for SnapshotId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.place, &self.set).cmp(&(&other.place, &other.set))
    }
}

#[cfg(feature = "server")]
impl SnapshotId {
    /// Creates the ID of the snapshot of this result set, for this owner.
    pub fn new(owner: &Owner, set: impl Into<String>) -> Self {
        let place = Self::place(owner.tenant.as_deref());
        Self { place, set: set.into(), share: Self::share_of(owner) }
    }

    /// Creates the ID of a snapshot that a store found in this folder. Implementations of a snapshot store use this
    /// function.
    pub fn found(place: impl Into<String>, set: impl Into<String>) -> Self {
        let place = place.into();
        Self { share: place.clone(), place, set: set.into() }
    }

    /// Returns the name of the snapshot's *share*. The bytes of a snapshot count toward the storage limit of its
    /// share. A share belongs to a tenant, or to a principal without a tenant. All callers without a tenant and
    /// without a principal have one common share.
    ///
    /// A store can use the name of a share in a path.
    pub fn share(&self) -> &str {
        &self.share
    }

    /// Returns the name of the [`share`](Self::share) of this owner's snapshots.
    pub fn share_of(owner: &Owner) -> String {
        use sha2::{Digest as _, Sha256};
        match (&owner.tenant, &owner.principal) {
            (None, Some(principal)) => format!("p{}", hex(&Sha256::digest(principal.as_bytes())[..16])),
            (tenant, _) => Self::place(tenant.as_deref()),
        }
    }

    /// Returns the name of a tenant's folder in the store. The name of the folder is valid in a path, and does not
    /// reveal the name of the tenant.
    pub fn place(tenant: Option<&str>) -> String {
        use sha2::{Digest as _, Sha256};
        let Some(tenant) = tenant else { return "all".into() };
        let digest = Sha256::digest(tenant.as_bytes());
        format!("t{}", hex(&digest[..16]))
    }
}

/// A request for rows of a snapshot.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SnapshotPage {
    /// View that sets the order of the rows, and filters the rows. A view without sort columns and filters contains all
    /// rows of the snapshot. Before the request, [`SnapshotStore::prepare`] must have prepared the view.
    pub view: View,
    /// Position of the first row, counted from 0.
    pub offset: u64,
    /// Maximum number of rows.
    pub limit: u64,
    /// Columns to return, in the order of the list. If the list is empty, all columns are returned.
    pub columns: Vec<String>,
    /// Size in bytes after which the store can end the page before the page has `limit` rows.
    pub max_bytes: usize,
}

impl SnapshotPage {
    /// Creates a request for `limit` rows, starting at `offset`.
    pub fn new(offset: u64, limit: u64) -> Self {
        Self { view: View::default(), offset, limit, columns: Vec::new(), max_bytes: usize::MAX }
    }

    /// Sets the view, which sorts and filters the rows. Default: all rows in the order of the source.
    #[must_use]
    pub fn with_view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Sets the columns to return, in the given order. Default: all columns.
    #[must_use]
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the size in bytes after which the store can end the page before the page has `limit` rows. Default:
    /// `usize::MAX`.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// An `Arc` of a snapshot store is also a snapshot store.
#[cfg(feature = "server")]
#[async_trait]
impl<S: SnapshotStore + ?Sized> SnapshotStore for Arc<S> {
    fn capabilities(&self) -> SnapshotCapabilities {
        (**self).capabilities()
    }

    async fn begin(
        &self,
        id: &SnapshotId,
        row_source: RowSource,
        options: SnapshotWriteOptions,
    ) -> Result<SnapshotWrite> {
        (**self).begin(id, row_source, options).await
    }

    async fn manifest(&self, id: &SnapshotId) -> Result<Manifest> {
        (**self).manifest(id).await
    }

    async fn prepare(&self, id: &SnapshotId, view: &View) -> Result<u64> {
        (**self).prepare(id, view).await
    }

    async fn page(&self, id: &SnapshotId, request: &SnapshotPage) -> Result<Rows> {
        (**self).page(id, request).await
    }

    async fn stats(&self, id: &SnapshotId) -> Result<Vec<ColumnStats>> {
        (**self).stats(id).await
    }

    async fn aggregate(&self, id: &SnapshotId, aggregate: &Aggregate) -> Result<Rows> {
        (**self).aggregate(id, aggregate).await
    }

    async fn export(&self, id: &SnapshotId, request: &ExportRequest) -> Result<Export> {
        (**self).export(id, request).await
    }

    async fn sign(&self, id: &SnapshotId, life: Duration) -> Result<Option<Url>> {
        (**self).sign(id, life).await
    }

    async fn query(&self, tables: &[(String, SnapshotId)], sql: &str, owner: &Owner) -> Result<RowSource> {
        (**self).query(tables, sql, owner).await
    }

    async fn delete(&self, id: &SnapshotId) -> Result<()> {
        (**self).delete(id).await
    }

    fn ids(&self, before: DateTime<Utc>) -> BoxStream<'_, Result<SnapshotId>> {
        (**self).ids(before)
    }

    async fn usage(&self, tenant: Option<&str>) -> Result<u64> {
        (**self).usage(tenant).await
    }

    async fn usage_of(&self, owner: &Owner) -> Result<Taken> {
        (**self).usage_of(owner).await
    }
}
