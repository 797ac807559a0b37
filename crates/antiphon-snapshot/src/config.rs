use std::time::Duration;

/// The settings for writing, caching and querying snapshots.
///
/// The defaults are for a server with some gigabytes of memory. Start with [`SnapshotConfig::default`] and change
/// single fields, as in the example of [`Snapshots::open_with`](crate::Snapshots::open_with). A store can read
/// snapshots that were written with any other configuration. Nevertheless, use the same `page_rows` and `compression`
/// on all replicas. A Parquet export of some columns or of one chunk is encoded for each request, and its bytes
/// depend on these two settings. `abandoned` and all fields after it have an effect only with the feature `sql`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotConfig {
    /// The maximum number of rows in a chunk, which is a part of a snapshot that can be read separately. Default:
    /// 65,536.
    pub chunk_rows: usize,
    /// The maximum size of a chunk in bytes before compression. A chunk with large rows has fewer rows. Default: 32
    /// MiB.
    pub chunk_bytes: usize,
    /// The number of rows in a Parquet page. To read one row, the whole Parquet page is decoded. Default: 4,096.
    pub page_rows: usize,
    /// The compression level of zstd, 1 to 22. Default: 1.
    pub compression: i32,
    /// The size in bytes of each part of an upload except the last one. S3 requires at least 5 MiB. Default: 8 MiB.
    pub part_bytes: usize,
    /// The size in bytes of the cache for the footers (the metadata) of Parquet files. Default: 64 MiB.
    pub cache_bytes: u64,
    /// The time after which an unused footer is removed from the cache. This time limits how long the footer of a
    /// snapshot that another replica deleted stays in the cache. Default: 5 minutes.
    pub cache_idle: Duration,
    /// The age after which the files of an unfinished view are removed. The files are removed when the next view of the
    /// same snapshot is created. Default: 1 hour.
    pub abandoned: Duration,
    /// The maximum memory in bytes that one process uses for sorts and queries. Default: 256 MiB.
    pub pool_bytes: usize,
    /// The maximum disk space in bytes that one process uses for sorts and queries that do not fit in memory. The
    /// files are in the system's folder for temporary files. Default: 16 GiB.
    pub spill_bytes: u64,
    /// The maximum time of one query, sort, filter or aggregate. Default: 2 minutes.
    pub query_time: Duration,
    /// The maximum number of concurrent queries, sorts, filters and aggregates of one tenant. Without a tenant, the
    /// limit applies to each principal, and all callers without a principal share one limit. Default: 2.
    pub queries_per_tenant: usize,
    /// The maximum number of concurrent queries, sorts, filters and aggregates of a process. The process has two
    /// dedicated threads for each concurrent operation, but at most 64 threads. The first query starts the threads.
    /// Default: 4.
    pub queries: usize,
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
