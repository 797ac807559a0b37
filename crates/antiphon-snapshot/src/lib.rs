//! The rows of a result set, written once as Parquet on an object store, and read from there in any order.
//!
//! A *live* result set keeps a query and runs it again for every page. A *snapshot* keeps the rows: they stream in once,
//! and the count, the preview, every page, every export and every later question come from the same data, on any
//! replica, for as long as the set lives.
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
//! // Rows come once, some at a time. The first are given back at once; the rest is written by whoever awaits it.
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
//! // The last page costs what the first one does.
//! let page = snapshots.page(&id, &SnapshotPage::new(9_990, 100)).await?;
//! assert_eq!((page.len(), page.get(0)), (10, Some(r#"{"id":9990,"name":"sale 9990"}"#)));
//!
//! // All of it as a file, as it is written.
//! let export = snapshots.export(&id, &ExportRequest::new(ExportFormat::Csv)).await?;
//! let csv: Vec<u8> = export.body.try_collect::<Vec<_>>().await?.concat();
//! assert!(csv.starts_with(b"id,name\r\n0,sale 0\r\n"));
//! # Ok(())
//! # }
//! ```
//!
//! # In a server
//!
//! [`Snapshots`] is a [`SnapshotStore`](antiphon_results::snapshot::SnapshotStore), and most never call it themselves:
//! they give it to the server of result sets, and answer with [`Source::snapshot`](antiphon_results::Source::snapshot).
//! That server gives ids, expires sets, sweeps, bounds and authorises; it serves pages, exports and queries over HTTP.
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
//! `examples/explore` is a whole program, and `docs/guides/snapshots.md` says how one is run.
//!
//! # When to use it
//!
//! - **A snapshot** for whatever somebody will sort, export, analyse or ask again, and for more rows than fit in memory.
//! - **A live query** ([`Source::query`](antiphon_results::Source::query)) for what must be current, and is small or has
//!   a key to go on by.
//! - **Rows in hand** ([`Source::rows`](antiphon_results::Source::rows)) for a few megabytes that only need pages.
//!
//! # The parts
//!
//! - [`Snapshots`], [`SnapshotConfig`]: where rows are kept, and how. [`Bucket`]: an object store that you have already.
//! - [`RowSource`](antiphon_results::snapshot::RowSource): rows as JSON. [`Batches`]: as Arrow. `from_postgres`, `from_mysql`,
//!   `from_sqlite`: those of a query, with the database's types.
//! - [`arrow`], [`object_store`]: the versions that are spoken here.
//!
//! # Features
//!
//! None is on by default: without any, rows are written, paged, described and exported in memory or on a local disk.
//!
//! | feature | what it gives | what it weighs |
//! |---|---|---|
//! | `aws`, `gcp`, `azure` | `s3://…`, `gs://…`, `az://…` | an HTTP client with TLS, one for all three |
//! | `sql` | views (sorts and filters), groupings, read-only SQL | DataFusion: thirty crates, minutes of building |
//! | `postgres`, `mysql` | `from_postgres`, `from_mysql` | `sqlx`, without TLS: choose that where you make the pool |
//! | `sqlite` | `from_sqlite` | `sqlx`, and SQLite itself, in C |
//! | `xlsx` | exports as a workbook | `rust_xlsxwriter`, little |
//!
//! # What is promised
//!
//! - **Whole or not at all.** A snapshot is there when its manifest is, and that is written last, after the footer of
//!   the rows was read back. Nothing half written is ever seen, whoever dies; what they leave is found and removed.
//! - **It never changes.** The count is exact, row `n` is the same row for every page size and every replica, the same
//!   export has the same bytes, and the digest is that of the stored file.
//! - **One instant**, where the source has one: a query of a database is one statement.
//! - **Nothing is lost in types.** Whole numbers, decimals, moments and bytes come out as they went in.
//! - **Never a shorter truth.** What is damaged or gone is an error, in the middle of a stream too.
//! - **Memory does not grow with the rows**, and what is dropped stops.
//!
//! What is not: rows are not encrypted or deduplicated here, and nothing expires by itself. Whoever uses a store without
//! the server calls [`delete`](antiphon_results::snapshot::SnapshotStore::delete). How many different values a column
//! has is estimated, where they are many. There are no updates and no appends: a new snapshot is a new id.
//!
//! # Limits
//!
//! 1,000 columns; 16 views of a snapshot, of 4 columns to sort by each, and whoever makes one more removes the oldest;
//! queries of 16 KiB over 16 tables. Rows and bytes are bounded by
//! [`SnapshotWriteOptions`](antiphon_results::snapshot::SnapshotWriteOptions), memory, disk and time by [`SnapshotConfig`]. An object
//! store must be able to create an object only if there is none: S3 by `If-None-Match`, and so must those that speak its
//! protocol.
//!
//! # Where the files lie
//!
//! Under the prefix each tenant has a folder whose name does not say whose it is, and in it each snapshot has one: the
//! rows as one Parquet file, the manifest beside them, statistics once somebody has asked, and in `views` the same for
//! each sort and filter. A note that somebody writes is there before anything else, and goes when all is there. Whatever
//! reads Parquet reads these files; their names are no promise, so ask a manifest and not the folder.
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

/// The Arrow that snapshots speak, so that whoever brings batches brings them in the right version.
pub use arrow;
/// The object stores that snapshots lie on.
pub use object_store;
