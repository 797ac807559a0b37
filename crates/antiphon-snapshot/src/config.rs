use std::time::Duration;

use crate::error::{Error, Result};

/// The settings for writing, caching and querying snapshots.
///
/// The defaults are suitable for a server with some gigabytes of memory. Start with [`SnapshotConfig::default`], and
/// change only the settings that you need, as in the example of [`Snapshots::open_with`](crate::Snapshots::open_with).
/// A store can read snapshots that were written with any other configuration. Nevertheless, use the same
/// [`with_page_rows`](Self::with_page_rows) and [`with_compression`](Self::with_compression) on all replicas. If a
/// request exports only some columns or one chunk as Parquet, the server encodes a new file for this request. The bytes
/// of the new file depend on the Parquet page size and the compression level. The settings from
/// [`with_abandoned`](Self::with_abandoned) to [`with_queries`](Self::with_queries) configure views and queries, so
/// they have an effect only with the feature `sql`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotConfig {
    pub(crate) chunk_rows: usize,
    pub(crate) chunk_bytes: usize,
    pub(crate) page_rows: usize,
    pub(crate) compression: i32,
    pub(crate) part_bytes: usize,
    pub(crate) cache_bytes: u64,
    pub(crate) cache_idle: Duration,
    pub(crate) abandoned: Duration,
    pub(crate) pool_bytes: usize,
    pub(crate) spill_bytes: u64,
    pub(crate) query_time: Duration,
    pub(crate) queries_per_tenant: usize,
    pub(crate) queries: usize,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            chunk_rows: 65_536,
            chunk_bytes: 32 * MIB,
            page_rows: 4_096,
            compression: 1,
            part_bytes: 8 * MIB,
            cache_bytes: 64 * MIB as u64,
            cache_idle: Duration::from_mins(5),
            abandoned: Duration::from_hours(1),
            pool_bytes: 256 * MIB,
            spill_bytes: 16 * 1024 * MIB as u64,
            query_time: Duration::from_mins(2),
            queries_per_tenant: 2,
            queries: 4,
        }
    }
}

impl SnapshotConfig {
    /// Sets the maximum number of rows in a chunk, which is a part of a snapshot that can be read separately. The
    /// minimum is 1 row. Default: 65,536.
    #[must_use]
    pub fn with_chunk_rows(mut self, rows: usize) -> Self {
        self.chunk_rows = rows;
        self
    }

    /// Sets the maximum size of a chunk in bytes before compression. If rows are large, a chunk has fewer rows than
    /// [`with_chunk_rows`](Self::with_chunk_rows) allows. Default: 32 MiB.
    #[must_use]
    pub fn with_chunk_bytes(mut self, bytes: usize) -> Self {
        self.chunk_bytes = bytes;
        self
    }

    /// Sets the number of rows in a Parquet page. To read one row, the store decodes the whole Parquet page that
    /// contains the row. The minimum is 1 row. Default: 4,096.
    #[must_use]
    pub fn with_page_rows(mut self, rows: usize) -> Self {
        self.page_rows = rows;
        self
    }

    /// Sets the compression level of zstd, 1 to 22. Default: 1.
    #[must_use]
    pub fn with_compression(mut self, level: i32) -> Self {
        self.compression = level;
        self
    }

    /// Sets the size in bytes of the parts in which a file is uploaded. Only the last part of a file can be smaller. S3
    /// requires at least 5 MiB. Default: 8 MiB.
    #[must_use]
    pub fn with_part_bytes(mut self, bytes: usize) -> Self {
        self.part_bytes = bytes;
        self
    }

    /// Sets the size in bytes of the cache for the footers (the metadata) of Parquet files. Default: 64 MiB.
    #[must_use]
    pub fn with_cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets the time after which an unused footer is removed from the cache. If another replica deletes a snapshot,
    /// this process keeps the footer of the snapshot in its cache until this time has passed. Default: 5 minutes.
    #[must_use]
    pub fn with_cache_idle(mut self, time: Duration) -> Self {
        self.cache_idle = time;
        self
    }

    /// Sets the age after which the files of an unfinished view are removed. The files of an unfinished view are
    /// removed when the next view of the same snapshot is created. Default: 1 hour.
    #[must_use]
    pub fn with_abandoned(mut self, age: Duration) -> Self {
        self.abandoned = age;
        self
    }

    /// Sets the maximum memory in bytes that one process uses for sorts and queries. Default: 256 MiB.
    #[must_use]
    pub fn with_pool_bytes(mut self, bytes: usize) -> Self {
        self.pool_bytes = bytes;
        self
    }

    /// Sets the maximum disk space in bytes that one process uses for sorts and queries that do not fit in memory. The
    /// files on disk are in the system's folder for temporary files. Default: 16 GiB.
    #[must_use]
    pub fn with_spill_bytes(mut self, bytes: u64) -> Self {
        self.spill_bytes = bytes;
        self
    }

    /// Sets the maximum time of one query, sort, filter or aggregate. Default: 2 minutes.
    #[must_use]
    pub fn with_query_time(mut self, time: Duration) -> Self {
        self.query_time = time;
        self
    }

    /// Sets the maximum number of concurrent queries, sorts, filters and aggregates of one tenant. For callers without
    /// a tenant, the limit applies to each principal, and all callers without a principal share one limit. Default: 2.
    #[must_use]
    pub fn with_queries_per_tenant(mut self, queries: usize) -> Self {
        self.queries_per_tenant = queries;
        self
    }

    /// Sets the maximum number of concurrent queries, sorts, filters and aggregates of a process. The process has two
    /// dedicated threads for each concurrent operation, up to a total of 64 threads. The first query, sort, filter or
    /// aggregate starts these threads. Default: 4.
    #[must_use]
    pub fn with_queries(mut self, queries: usize) -> Self {
        self.queries = queries;
        self
    }

    /// Returns an error for invalid settings that would otherwise cause errors only when rows are written.
    pub(crate) fn check(&self) -> Result<()> {
        let problem = if self.chunk_rows == 0 || self.page_rows == 0 {
            "`SnapshotConfig::with_chunk_rows` and `with_page_rows` must be at least 1"
        } else if !(1..=22).contains(&self.compression) {
            "`SnapshotConfig::with_compression` must be between 1 and 22"
        } else {
            return Ok(());
        };
        Err(Error::Config(problem.to_owned()))
    }
}
