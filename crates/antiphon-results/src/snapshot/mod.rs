//! Rows that are saved: written once, then read in any order, at any size.
//!
//! A [`SnapshotStore`] keeps them. This crate says what one must do and serves what it keeps; the crate
//! `antiphon-snapshot` is one, on Parquet and an object store.

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

/// For the crate that saves rows: what a source of JSON rows says of a column.
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

/// Keeps the rows of result sets: each set is written once and never changes.
///
/// # Contract
///
/// - **Whole or not at all.** Until [`SnapshotWrite::rest`] has ended well, no reader sees a snapshot; every reader sees the
///   same one afterwards, from whatever opening of the store. What ends otherwise leaves nothing that a reader could
///   take for a set, and what it leaves behind is found by [`ids`](Self::ids) and removed by
///   [`delete`](Self::delete).
/// - **One order.** [`page`](Self::page) gives rows in the order they came in, or in the view's, exactly: row `n` is
///   the same row for every page size and on every replica. A view that does not decide between two rows keeps
///   them in the order they came in.
/// - **One content.** [`Manifest::digest`] is the same for as long as the snapshot lives, and so is every byte of an
///   export: what was broken off can be gone on with.
/// - **Never a shorter truth.** What cannot be read is an error, in the middle of a stream too.
/// - What is dropped stops: a page, an export, a write, a query.
/// - A snapshot is named by its whole [`SnapshotId`]; that of one tenant is not found under another's.
///
/// What cannot be done without a query engine may be answered with
/// [`DualResponseError::Unsupported`](crate::DualResponseError::Unsupported).
///
/// The contract is written as tests in `snapshot::conformance` (the feature `conformance`).
#[cfg(feature = "server")]
#[async_trait]
pub trait SnapshotStore: fmt::Debug + Send + Sync + 'static {
    /// What it can do besides keeping rows and giving them back.
    fn capabilities(&self) -> SnapshotCapabilities;

    /// Begins to write a snapshot. Returns as soon as the first rows are there; the rest is written by whoever
    /// drives [`SnapshotWrite::rest`].
    async fn begin(
        &self,
        id: &SnapshotId,
        row_source: RowSource,
        options: SnapshotWriteOptions,
    ) -> Result<SnapshotWrite>;

    /// What is known of a snapshot, and where its chunks are.
    async fn manifest(&self, id: &SnapshotId) -> Result<Manifest>;

    /// Makes a view ready to be read and says how many rows it has. It is made once; whoever asks meanwhile waits
    /// for the same. When nobody waits any more it goes on for a while, since somebody may ask again.
    async fn prepare(&self, id: &SnapshotId, view: &View) -> Result<u64>;

    /// Some rows of a snapshot, or of a view of it.
    async fn page(&self, id: &SnapshotId, request: &SnapshotPage) -> Result<Rows>;

    /// What is in each column: found out once, then kept.
    async fn stats(&self, id: &SnapshotId) -> Result<Vec<ColumnStats>>;

    /// Rows grouped and measured: what a chart shows.
    async fn aggregate(&self, id: &SnapshotId, aggregate: &Aggregate) -> Result<Rows>;

    /// All rows, or those of a view, in a format, as a stream.
    async fn export(&self, id: &SnapshotId, request: &ExportRequest) -> Result<Export>;

    /// An address where the stored data themselves can be got without us, for a while: the whole, or one chunk's
    /// bytes by range. `None` where the store signs nothing.
    async fn sign(&self, id: &SnapshotId, life: Duration) -> Result<Option<Url>>;

    /// Rows that a read-only query gives over snapshots, each known to it as a table of that name. Nothing else is
    /// within its reach.
    async fn query(&self, tables: &[(String, SnapshotId)], sql: &str, owner: &Owner) -> Result<RowSource>;

    /// Removes a snapshot, its views, and what an unfinished one has left. One that is not there is removed.
    async fn delete(&self, id: &SnapshotId) -> Result<()>;

    /// All snapshots that were begun before a moment, finished or not, for whoever looks for what nobody owns.
    fn ids(&self, before: DateTime<Utc>) -> BoxStream<'_, Result<SnapshotId>>;

    /// How much of the store a tenant has taken, in bytes. A view that is being made, by whichever process, counts for as
    /// much as it may come to.
    async fn usage(&self, tenant: Option<&str>) -> Result<u64>;

    /// How much of the store those have taken who share it with this owner: the owner's tenant, or where there is none
    /// the principal alone.
    ///
    /// The answer may be some time old, if it is expensive to find. By default it is that of [`usage`](Self::usage), and
    /// all principals without a tenant share one.
    async fn usage_of(&self, owner: &Owner) -> Result<Taken> {
        Ok(Taken::now(self.usage(owner.tenant.as_deref()).await?))
    }
}

/// How much of a store somebody has taken.
#[cfg(feature = "server")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// In bytes.
    pub bytes: u64,
    /// How long ago the store was asked. [`Duration::MAX`] if it has not answered yet.
    pub age: Duration,
}

#[cfg(feature = "server")]
impl Taken {
    /// So many bytes at this moment.
    pub fn now(bytes: u64) -> Self {
        Self { bytes, age: Duration::ZERO }
    }

    /// Sets how long ago the store was asked. Default: 0.
    #[must_use]
    pub fn with_age(mut self, age: Duration) -> Self {
        self.age = age;
        self
    }
}

/// Which snapshot: the set's id, within its tenant.
#[cfg(feature = "server")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SnapshotId {
    /// The tenant's part of the store, as [`SnapshotId::place`] makes it of a name.
    pub place: String,
    /// The set's id: lower case letters, digits and `_`.
    pub set: String,
    /// See [`SnapshotId::share`]. It is no part of the name: a snapshot that is found does not tell it.
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
    /// The snapshot of this set of this owner.
    pub fn new(owner: &Owner, set: impl Into<String>) -> Self {
        let place = Self::place(owner.tenant.as_deref());
        Self { place, set: set.into(), share: Self::share_of(owner) }
    }

    /// A snapshot that was found where it is, for those who write a store.
    pub fn found(place: impl Into<String>, set: impl Into<String>) -> Self {
        let place = place.into();
        Self { share: place.clone(), place, set: set.into() }
    }

    /// Those who share what a tenant may have: all of a tenant, or where there is no tenant the principal alone. Callers
    /// without a principal share with each other.
    ///
    /// A store that limits how much one of them takes tells them apart by it. It can stand in a path.
    pub fn share(&self) -> &str {
        &self.share
    }

    /// The [`share`](Self::share) of an owner's sets.
    pub fn share_of(owner: &Owner) -> String {
        use sha2::{Digest as _, Sha256};
        match (&owner.tenant, &owner.principal) {
            (None, Some(principal)) => format!("p{}", hex(&Sha256::digest(principal.as_bytes())[..16])),
            (tenant, _) => Self::place(tenant.as_deref()),
        }
    }

    /// A tenant's part of a store: a name that can stand in a path, whatever the tenant is called, and does not say
    /// what that is.
    pub fn place(tenant: Option<&str>) -> String {
        use sha2::{Digest as _, Sha256};
        let Some(tenant) = tenant else { return "all".into() };
        let digest = Sha256::digest(tenant.as_bytes());
        format!("t{}", hex(&digest[..16]))
    }
}

/// Which rows of a snapshot.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SnapshotPage {
    /// The order and the choice of rows; the snapshot's own, if it is empty. It must have been
    /// [prepared](SnapshotStore::prepare).
    pub view: View,
    /// Where to begin, counted from 0.
    pub offset: u64,
    /// How many rows at most.
    pub limit: u64,
    /// Which columns, in this order; all, if there are none.
    pub columns: Vec<String>,
    /// When the rows have become more bytes than this, the store may stop.
    pub max_bytes: usize,
}

impl SnapshotPage {
    /// `limit` rows from `offset` on.
    pub fn new(offset: u64, limit: u64) -> Self {
        Self { view: View::default(), offset, limit, columns: Vec::new(), max_bytes: usize::MAX }
    }

    /// Reads them from a view.
    #[must_use]
    pub fn with_view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Reads only these columns.
    #[must_use]
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Says how many bytes are enough.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// A handle on a store is one.
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
