//! Snapshots: the rows of a result set, written once as Parquet to an object store.
//!
//! A *live* result set keeps a query and runs it again for every page. A *snapshot* keeps the rows, which are read
//! from the source once. The count, the preview, every page, every export and every later query come from the same
//! data. This is true on any replica until the result set is deleted.
//!
//! ```
//! use antiphon_results::{
//!     BoxError, Owner, Rows,
//!     snapshot::{ExportFormat, ExportRequest, RowSource, SnapshotWriteOptions, SnapshotId, SnapshotPage, SnapshotStore as _},
//! };
//! use antiphon_snapshot::Snapshots;
//! use futures_util::{TryStreamExt as _, stream};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let snapshots = Snapshots::open("memory:")?;
//!
//! // The source is read once. The first rows are returned immediately. Await `rest` to write all rows.
//! let parts = (0..100).map(|part| {
//!     let mut rows = Rows::new();
//!     for id in part * 100..(part + 1) * 100 {
//!         rows.push(&json!({"id": id, "name": format!("sale {id}")}))?;
//!     }
//!     Ok::<_, BoxError>(rows)
//! });
//! let id = SnapshotId::new(&Owner::nobody(), "rs_sales");
//! let begun = snapshots.begin(&id, RowSource::rows(stream::iter(parts)), SnapshotWriteOptions::sample(15)).await?;
//! assert_eq!(begun.sample.len(), 15);
//! let written = begun.rest.await?;
//! assert_eq!(written.rows, 10_000);
//!
//! // The last page costs as much as the first one.
//! let page = snapshots.page(&id, &SnapshotPage::new(9_990, 100)).await?;
//! assert_eq!((page.len(), page.get(0)), (10, Some(r#"{"id":9990,"name":"sale 9990"}"#)));
//!
//! // Export all rows as a stream of CSV.
//! let export = snapshots.export(&id, &ExportRequest::new(ExportFormat::Csv)).await?;
//! let csv: Vec<u8> = export.body.try_collect::<Vec<_>>().await?.concat();
//! assert!(csv.starts_with(b"id,name\r\n0,sale 0\r\n"));
//! # Ok(())
//! # }
//! ```
//!
//! # Use in a server
//!
//! [`Snapshots`] is a [`SnapshotStore`](antiphon_results::snapshot::SnapshotStore). Most programs do not call it
//! directly. They pass it to the server of result sets and return a
//! [`Source::snapshot`](antiphon_results::Source::snapshot). That server assigns IDs, expires and deletes result
//! sets, enforces limits, and authorizes callers. It serves pages, exports and queries over HTTP.
//!
//! ```
//! use antiphon_results::{
//!     Access, CreateOptions, DualResponseServer, DualResponseServerOptions, PageOptions, Rows, Source, snapshot::RowSource,
//! };
//! use antiphon_snapshot::Snapshots;
//! use futures_util::stream;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rows = Rows::from_json_array(r#"[{"id": 1, "state": "NJ"}, {"id": 2, "state": "NY"}]"#)?;
//! let options = DualResponseServerOptions::new("https://api.example.com/resources")
//!     .with_snapshots(Snapshots::open("memory:")?);
//! let results = DualResponseServer::new(options)?;
//!
//! let source = Source::snapshot(RowSource::rows(stream::iter([Ok(rows)])));
//! let set = results.create_response(CreateOptions::new("Sales", source).complete()).await?;
//! let page = results.page(&set.resource_id, &Access::Program, PageOptions::new(1, 100)).await?;
//! assert_eq!((set.total_count, page.rows.len()), (2, 1));
//! # Ok(())
//! # }
//! ```
//!
//! `examples/explore` is a complete program. `docs/guides/snapshots.md` describes operation.
//!
//! # When to use it
//!
//! - **A snapshot** if users sort, export, analyze or query the result, or if the rows do not fit into memory.
//! - **A live query** ([`Source::query`](antiphon_results::Source::query)) if the data must be current, and the
//!   result is small or has a key for paging.
//! - **In-memory rows** ([`Source::rows`](antiphon_results::Source::rows)) for a few megabytes that only need
//!   pages.
//!
//! # Parts
//!
//! - [`Snapshots`], [`SnapshotConfig`]: the store of snapshots, and its configuration. [`Bucket`]: an existing
//!   object store.
//! - [`RowSource`](antiphon_results::snapshot::RowSource): rows as JSON. [`Batches`]: rows as Arrow batches.
//!   `from_postgres`, `from_mysql`, `from_sqlite`: the rows of a query, with the types of the database.
//! - [`arrow`], [`object_store`]: the versions that this crate uses.
//!
//! # Features
//!
//! No feature is on by default. Without features, rows are written, paged, described and exported in memory or on a
//! local disk.
//!
//! | feature | contents | cost |
//! |---|---|---|
//! | `aws`, `gcp`, `azure` | `s3://…`, `gs://…`, `az://…` | an HTTP client with TLS, one for all three |
//! | `sql` | views (sorts and filters), aggregates, read-only SQL | DataFusion: thirty crates, minutes of build time |
//! | `postgres`, `mysql` | `from_postgres`, `from_mysql` | `sqlx` without TLS: choose TLS where you create the pool |
//! | `sqlite` | `from_sqlite` | `sqlx`, and SQLite itself, in C |
//! | `xlsx` | exports as a workbook | `rust_xlsxwriter`, which is small |
//!
//! # Properties
//!
//! - **Atomic.** A snapshot exists when its manifest exists. The manifest is written last, after the footer of the
//!   rows was read back. If a process stops during a write, readers do not see a partial snapshot. Its files are
//!   found and removed later.
//! - **Immutable.** The count is exact. Row `n` is the same row for every page size and every replica. The same
//!   export has the same bytes. The digest is that of the stored file.
//! - **Consistent**, if the source is: a database query is one statement, so its rows come from one point in time.
//! - **Lossless types.** Integers, decimals, timestamps and bytes are read as they were written.
//! - **No silent truncation.** If stored data is damaged or missing, the call returns an error, also in the middle
//!   of a stream.
//! - **Bounded memory.** Memory does not grow with the number of rows. Work stops when its future or stream is
//!   dropped.
//!
//! This crate does not encrypt or deduplicate rows, and nothing expires automatically. If you use a store without
//! the server, call [`delete`](antiphon_results::snapshot::SnapshotStore::delete). The number of distinct values of
//! a column is an estimate if there are many. Snapshots cannot be updated or appended to. Write a new snapshot with
//! a new ID instead.
//!
//! # Limits
//!
//! - A snapshot has at most 1,000 columns.
//! - A snapshot has at most 16 views, and a view is sorted by at most 4 columns. One more view removes the oldest
//!   one.
//! - A query has at most 16 KiB and reads at most 16 tables.
//! - [`SnapshotWriteOptions`](antiphon_results::snapshot::SnapshotWriteOptions) limits rows and bytes.
//!   [`SnapshotConfig`] limits memory, disk and time.
//! - An object store must support creating an object only if it does not exist. S3 does this with `If-None-Match`,
//!   and compatible stores must support it too.
//!
//! # File layout
//!
//! Under the prefix, each tenant has a folder whose name does not reveal the tenant. Each snapshot is a folder in
//! it. It contains the rows as one Parquet file, the manifest, and the statistics after they were first requested.
//! The folder `views` contains the same files for each sort and filter. A file that announces the write exists
//! before all others, and is removed after the snapshot is complete. Any Parquet reader can read the row files. The
//! file names can change, so read them from a manifest.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod config;
#[cfg(feature = "sql")]
mod engine;
mod error;
mod ingest;
mod inner;
mod keeper;
mod layout;
mod read;
#[cfg(feature = "sql")]
mod sql;
mod store;
mod sweep;
mod writer;

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use self::ingest::DatabaseQuery;
#[cfg(feature = "mysql")]
pub use self::ingest::from_mysql;
#[cfg(feature = "postgres")]
pub use self::ingest::from_postgres;
#[cfg(feature = "sqlite")]
pub use self::ingest::from_sqlite;
pub use self::{
    config::SnapshotConfig,
    error::{Error, Result},
    ingest::Batches,
    keeper::Snapshots,
    store::Bucket,
};

/// The version of Arrow that this crate uses, for programs that create batches.
pub use arrow;
/// The version of `object_store` that this crate uses.
pub use object_store;
