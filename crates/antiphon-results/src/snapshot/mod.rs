//! Saved rows: written once, then read in any order, at any size.
//!
//! A [`SnapshotStore`] keeps them. This crate defines the contract of such a store and serves its rows. The crate
//! `antiphon-snapshot` implements it with Parquet and an object store.

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

/// For the crate that saves rows: the hint of a JSON source about a column.
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

/// A store for the rows of result sets. Each set is written once and never changes.
///
/// # Contract
///
/// - **All or nothing.** No reader sees a snapshot until [`SnapshotWrite::rest`] has succeeded. Afterwards every reader
///   sees the same snapshot, from every opening of the store. A failed write leaves nothing that a reader could take
///   for a set. [`ids`](Self::ids) finds the remains, and [`delete`](Self::delete) removes them.
/// - **One order.** [`page`](Self::page) returns rows in the order of the source, or of the view. Row `n` is the same
///   row for every page size and on every replica. If the sort of a view does not decide between two rows, they keep
///   the order of the source.
/// - **One content.** [`Manifest::digest`] and every byte of an export stay the same while the snapshot exists. So a
///   client can resume an interrupted download.
/// - **No silent truncation.** If rows cannot be read, the store returns an error, also in the middle of a stream.
/// - Dropping a page, an export, a write or a query stops it.
/// - The whole [`SnapshotId`] names a snapshot. A snapshot of one tenant is not found under another tenant.
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
    /// [`SnapshotWrite::rest`], which writes the other rows.
    async fn begin(
        &self,
        id: &SnapshotId,
        row_source: RowSource,
        options: SnapshotWriteOptions,
    ) -> Result<SnapshotWrite>;

    /// Returns the metadata of a snapshot, and its chunks.
    async fn manifest(&self, id: &SnapshotId) -> Result<Manifest>;

    /// Prepares a view for reading, and returns its number of rows. A view is built once, and concurrent callers wait
    /// for the same build. If all callers are cancelled, the build continues for some time, because a caller may retry.
    async fn prepare(&self, id: &SnapshotId, view: &View) -> Result<u64>;

    /// Returns rows of a snapshot, or of a view of it.
    async fn page(&self, id: &SnapshotId, request: &SnapshotPage) -> Result<Rows>;

    /// Returns statistics of each column. They are computed once and then kept.
    async fn stats(&self, id: &SnapshotId) -> Result<Vec<ColumnStats>>;

    /// Returns grouped and measured rows, for example for a chart.
    async fn aggregate(&self, id: &SnapshotId, aggregate: &Aggregate) -> Result<Rows>;

    /// Exports all rows, or those of a view, as a stream.
    async fn export(&self, id: &SnapshotId, request: &ExportRequest) -> Result<Export>;

    /// Returns a URL at which clients can read the stored data without this server, for a limited time. They can read
    /// the whole, or the bytes of one chunk by range. Returns `None` if the store does not sign URLs.
    async fn sign(&self, id: &SnapshotId, life: Duration) -> Result<Option<Url>>;

    /// Runs a read-only query over snapshots, and returns its rows. Each snapshot is a table with the given name. The
    /// query cannot access anything else.
    async fn query(&self, tables: &[(String, SnapshotId)], sql: &str, owner: &Owner) -> Result<RowSource>;

    /// Removes a snapshot, its views, and the remains of an unfinished write. If the snapshot does not exist, this
    /// succeeds.
    async fn delete(&self, id: &SnapshotId) -> Result<()>;

    /// Returns all snapshots that were started before this time, finished or not. Use it to find orphaned snapshots.
    fn ids(&self, before: DateTime<Utc>) -> BoxStream<'_, Result<SnapshotId>>;

    /// Returns the bytes of storage that a tenant uses. A view that any process is building counts with its maximum
    /// size.
    async fn usage(&self, tenant: Option<&str>) -> Result<u64>;

    /// Returns the bytes of storage that the owner's share uses. The share is the tenant, or the principal if there is
    /// no tenant.
    ///
    /// If the value is expensive to compute, it can be some time old. By default this returns [`usage`](Self::usage),
    /// and all principals without a tenant share one value.
    async fn usage_of(&self, owner: &Owner) -> Result<Taken> {
        Ok(Taken::now(self.usage(owner.tenant.as_deref()).await?))
    }
}

/// The storage that a share uses.
#[cfg(feature = "server")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// Used bytes.
    pub bytes: u64,
    /// Age of the value. [`Duration::MAX`] if the store has not answered yet.
    pub age: Duration,
}

#[cfg(feature = "server")]
impl Taken {
    /// Creates a value that was measured now.
    pub fn now(bytes: u64) -> Self {
        Self { bytes, age: Duration::ZERO }
    }

    /// Sets the age of the value. Default: 0.
    #[must_use]
    pub fn with_age(mut self, age: Duration) -> Self {
        self.age = age;
        self
    }
}

/// The name of a snapshot: the ID of the set, within its tenant.
#[cfg(feature = "server")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SnapshotId {
    /// The tenant's part of the store. [`SnapshotId::place`] derives it from a name.
    pub place: String,
    /// ID of the set: lower-case letters, digits and `_`.
    pub set: String,
    /// See [`SnapshotId::share`]. It is not part of the name, because a snapshot that is found in a store does not
    /// contain it.
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
    /// Creates the name of this owner's snapshot of this set.
    pub fn new(owner: &Owner, set: impl Into<String>) -> Self {
        let place = Self::place(owner.tenant.as_deref());
        Self { place, set: set.into(), share: Self::share_of(owner) }
    }

    /// Creates the name of a snapshot that was found at this place. Use it to implement a store.
    pub fn found(place: impl Into<String>, set: impl Into<String>) -> Self {
        let place = place.into();
        Self { share: place.clone(), place, set: set.into() }
    }

    /// Returns the name of the share to which the snapshot counts. The share is the tenant, or the principal if there
    /// is no tenant. Callers without both have one common share.
    ///
    /// A store that limits the storage of each share uses this name. It is valid in a path.
    pub fn share(&self) -> &str {
        &self.share
    }

    /// Returns the [`share`](Self::share) of an owner's sets.
    pub fn share_of(owner: &Owner) -> String {
        use sha2::{Digest as _, Sha256};
        match (&owner.tenant, &owner.principal) {
            (None, Some(principal)) => format!("p{}", hex(&Sha256::digest(principal.as_bytes())[..16])),
            (tenant, _) => Self::place(tenant.as_deref()),
        }
    }

    /// Returns the name of a tenant's part of the store. It is valid in a path for any tenant, and does not reveal the
    /// tenant's name.
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
    /// Sort and filter. If it is empty, the snapshot itself. The view must have been
    /// [prepared](SnapshotStore::prepare).
    pub view: View,
    /// Position of the first row, counted from 0.
    pub offset: u64,
    /// Maximum number of rows.
    pub limit: u64,
    /// Columns in this order. Empty: all columns.
    pub columns: Vec<String>,
    /// Size in bytes after which the store can stop.
    pub max_bytes: usize,
}

impl SnapshotPage {
    /// Creates a request for `limit` rows, starting at `offset`.
    pub fn new(offset: u64, limit: u64) -> Self {
        Self { view: View::default(), offset, limit, columns: Vec::new(), max_bytes: usize::MAX }
    }

    /// Sets the view. Default: the snapshot itself.
    #[must_use]
    pub fn with_view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Sets the columns. Default: all.
    #[must_use]
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the size in bytes after which the store can stop. Default: `usize::MAX`.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// An `Arc` of a store is a store.
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
