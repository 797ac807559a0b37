//! Snapshots: the rows of a result set, written once as Parquet to an object store.
//!
//! A *live* result set stores a query, and the query runs again for every page. A *snapshot* stores the rows, which are
//! read from the source once. So the count, the preview, every page, every export and every later query show the same
//! data. All replicas show the same data until the result set is deleted.
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
//! // The last page costs as much as the first page.
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
//! [`Snapshots`] is a [`SnapshotStore`](antiphon_results::snapshot::SnapshotStore). Most programs do not call
//! `Snapshots` directly. Most programs pass `Snapshots` to a
//! [`DualResponseServer`](antiphon_results::DualResponseServer), and create result sets with
//! [`Source::snapshot`](antiphon_results::Source::snapshot). The server assigns IDs, deletes expired result sets,
//! enforces limits, and authorizes callers. The server also serves pages, exports and queries over HTTP.
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
//! The folder `examples/explore` contains a complete program. The guide `docs/guides/snapshots.md` describes the
//! operation of snapshots in production.
//!
//! # When to use it
//!
//! - Use **a snapshot** if users sort, export, analyze or query the result, or if the rows do not fit into memory.
//! - Use **a live query** ([`Source::query`](antiphon_results::Source::query)) if the data must be current. The result
//!   must be small, or must have a key for paging.
//! - Use **in-memory rows** ([`Source::rows`](antiphon_results::Source::rows)) if the rows have a few megabytes and
//!   clients only read pages.
//!
//! # Parts
//!
//! - [`Snapshots`] stores snapshots, and [`SnapshotConfig`] configures the store. [`Bucket`] passes an existing object
//!   store to [`Snapshots::on`].
//! - [`RowSource`](antiphon_results::snapshot::RowSource) supplies rows as JSON. [`Batches`] supplies rows as Arrow
//!   batches. `from_postgres`, `from_mysql` and `from_sqlite` supply the rows of a database query, with the column
//!   types of the database.
//! - [`arrow`] and [`object_store`] re-export the versions of these crates that `antiphon-snapshot` uses.
//!
//! # Features
//!
//! No feature is on by default. Without features, the crate stores snapshots in memory or on a local disk. Even
//! without features, the crate returns pages and statistics of snapshots, and exports snapshots.
//!
//! | feature | adds | cost |
//! |---|---|---|
//! | `aws`, `gcp`, `azure` | stores at `s3://…`, `gs://…`, `az://…` | one HTTP client with TLS for all three features |
//! | `sql` | views (sorts and filters), aggregates, read-only SQL | DataFusion (30 crates, minutes to build) |
//! | `postgres`, `mysql` | `from_postgres`, `from_mysql` | `sqlx` without TLS: you choose TLS for your pool |
//! | `sqlite` | `from_sqlite` | `sqlx`, and SQLite itself, which is compiled from C |
//! | `xlsx` | exports as an Excel workbook | `rust_xlsxwriter`, which is small |
//!
//! # Properties
//!
//! - **Atomic.** Readers see a snapshot only after the manifest of the snapshot is written. The manifest of a snapshot
//!   is written last, after the footer of the stored file was read back. If a process stops during a write, readers do
//!   not see a partial snapshot. A later clean-up removes the files of the unfinished write.
//! - **Immutable.** The row count of a snapshot is exact. Row `n` of a snapshot is the same row on every replica and
//!   with every page size. Two exports of a snapshot with the same options have the same bytes. The digest in the
//!   manifest is the digest of the stored file.
//! - **Consistent if the source is consistent.** A database query is one statement, so its rows come from one point
//!   in time.
//! - **Lossless types.** Integers, decimals, timestamps and bytes keep their exact values.
//! - **No silent truncation.** If stored data is damaged or missing, the call returns an error, even in the middle of
//!   a stream.
//! - **Bounded memory.** Memory use does not grow with the number of rows. If you drop a future or a stream of this
//!   crate, the work of this future or stream stops.
//!
//! This crate does not encrypt or deduplicate rows, and snapshots do not expire automatically. If you use a store
//! without the server, delete snapshots with [`delete`](antiphon_results::snapshot::SnapshotStore::delete). If a
//! column has many distinct values, the number of distinct values in the statistics is an estimate. You cannot update
//! a snapshot or append rows to it. Instead of an update, write a new snapshot with a new ID.
//!
//! # Limits
//!
//! - A snapshot has at most 1,000 columns.
//! - A snapshot has at most 16 views, and a view is sorted by at most 4 columns. If a snapshot already has 16 views, a
//!   new view replaces the oldest view.
//! - The text of an SQL query has at most 16 KiB, and a query reads at most 16 tables.
//! - [`SnapshotWriteOptions`](antiphon_results::snapshot::SnapshotWriteOptions) limits the rows and the bytes of one
//!   snapshot. [`SnapshotConfig`] limits the memory, the disk space and the time that queries use.
//! - The object store must support conditional creation: a request that creates an object only if the object does not
//!   exist. S3 uses the header `If-None-Match` for conditional creation, and S3-compatible stores must also support
//!   this header.
//!
//! # File layout
//!
//! Under the prefix, each tenant has a folder whose name does not reveal the tenant. Each snapshot is a folder in the
//! tenant's folder. The folder of a snapshot contains the rows as one Parquet file, the manifest, and the statistics
//! after they were first requested. The folder `views` contains one folder for each view, with the rows, the manifest
//! and the statistics of the view. Before a writer creates any other file, it creates a file that announces the write.
//! The writer removes the announcement after the snapshot is complete. Any Parquet reader can read the row files. File
//! names can change in later versions, so read the names from the manifest.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod config;
#[cfg(feature = "sql")]
mod engine;
mod error;
mod ingest;
mod inner;
mod layout;
mod read;
mod snapshots;
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
    snapshots::Snapshots,
    store::Bucket,
};

/// The version of Arrow that this crate uses, for programs that create Arrow batches.
pub use arrow;
/// The version of `object_store` that this crate uses.
pub use object_store;
