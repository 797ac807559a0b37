use std::time::Duration;

/// How snapshots are written, kept at hand and searched.
///
/// The defaults suit a server with some gigabytes of memory; begin with [`SnapshotConfig::default`] and change what you
/// must, as the example of [`Snapshots::open_with`](crate::Snapshots::open_with) does. Whatever one has written, all can
/// read. Give replicas the same `page_rows` and `compression` all the same: Parquet of some columns or of one chunk is
/// written anew for whoever asks, and its bytes depend on them. `abandoned`, and what comes after it, matters only with
/// the feature `sql`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotConfig {
    /// How many rows lie together as a chunk. Default: 65,536.
    pub chunk_rows: usize,
    /// The most bytes of a chunk before it is compressed; one that has more has fewer rows. Default: 32 MiB.
    pub chunk_bytes: usize,
    /// How many rows are decoded to read one: the rows of a Parquet page. Default: 4,096.
    pub page_rows: usize,
    /// How hard zstd tries, 1 to 22. Default: 1.
    pub compression: i32,
    /// How many bytes are sent to the object store at a time: the length of each part of an upload but the last.
    /// Default: 8 MiB, the least S3 takes is 5.
    pub part_bytes: usize,
    /// How many bytes of footers are kept at hand. Default: 64 MiB.
    pub cache_bytes: u64,
    /// How long a footer that nobody reads is kept at hand: its set may be gone, and other replicas do not say so.
    /// Default: 5 minutes.
    pub cache_idle: Duration,
    /// How old what somebody left who broke off making a view must be before whoever makes the next one removes it.
    /// Default: 1 hour.
    pub abandoned: Duration,
    /// What one process may use to sort and to query, in bytes of memory. Default: 256 MiB.
    pub pool_bytes: usize,
    /// What it may put aside on local disk meanwhile, in bytes: in the system's folder for temporary files.
    /// Default: 16 GiB.
    pub spill_bytes: u64,
    /// How long one query, sort, filter or grouping may take. Default: 2 minutes.
    pub query_time: Duration,
    /// How many queries, sorts, filters and groupings one tenant may have at once. Where there is no tenant, each
    /// principal may have as many, and callers without a principal share them. Default: 2.
    pub queries_per_tenant: usize,
    /// How many of them a process does at once. Each has two threads of its own, which the first one starts; there are 64
    /// threads at most. Default: 4.
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
