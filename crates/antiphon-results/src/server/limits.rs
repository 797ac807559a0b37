use std::time::Duration;

/// The limits of a [`DualResponseServer`](crate::DualResponseServer). The server limits every input from clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultLimits {
    pub(crate) preview_bytes: usize,
    pub(crate) preview_cell: usize,
    pub(crate) preview_columns: usize,
    pub(crate) read_bytes: usize,
    pub(crate) page_rows: u64,
    pub(crate) page_bytes: usize,
    pub(crate) rows_bytes: usize,
    pub(crate) metadata_bytes: usize,
    pub(crate) body_bytes: usize,
    pub(crate) concurrent_pages: usize,
    pub(crate) concurrent_streams: usize,
    pub(crate) stall: Duration,
    pub(crate) wait: Duration,
    pub(crate) source_timeout: Duration,
    pub(crate) life: Duration,
    pub(crate) link_life: Duration,
    pub(crate) settle: Duration,
    pub(crate) view_wait: Duration,
    pub(crate) snapshot_rows: u64,
    pub(crate) snapshot_bytes: u64,
    pub(crate) tenant_bytes: u64,
    pub(crate) intakes_per_tenant: usize,
    pub(crate) scans_per_tenant: usize,
    pub(crate) exports_per_tenant: usize,
    pub(crate) beat: Duration,
    pub(crate) silence: Duration,
    pub(crate) abandoned: Duration,
}

impl Default for ResultLimits {
    fn default() -> Self {
        const KIB: usize = 1024;
        const GIB: u64 = 1024 * 1024 * 1024;
        Self {
            preview_bytes: 8 * KIB,
            preview_cell: 200,
            preview_columns: 50,
            read_bytes: 32 * KIB,
            page_rows: 10_000,
            page_bytes: 16 * KIB * KIB,
            rows_bytes: 16 * KIB * KIB,
            metadata_bytes: 64 * KIB,
            body_bytes: 64 * KIB,
            concurrent_pages: 64,
            concurrent_streams: 32,
            stall: Duration::from_secs(60),
            wait: Duration::from_secs(5),
            source_timeout: Duration::from_secs(30),
            life: Duration::from_secs(30 * 24 * 60 * 60),
            link_life: Duration::from_secs(15 * 60),
            settle: Duration::from_secs(2),
            view_wait: Duration::from_secs(2),
            snapshot_rows: 100_000_000,
            snapshot_bytes: 10 * GIB,
            tenant_bytes: 50 * GIB,
            intakes_per_tenant: 4,
            scans_per_tenant: 8,
            exports_per_tenant: 8,
            beat: Duration::from_secs(3),
            silence: Duration::from_secs(60),
            abandoned: Duration::from_secs(60 * 60),
        }
    }
}

impl ResultLimits {
    /// Sets the maximum size in bytes of the text for the model. The size limit of the text also applies to the
    /// structured content, as compact JSON. The name and the URL of the result set are not shortened. Default: 8 KiB.
    #[must_use]
    pub fn with_preview_bytes(mut self, bytes: usize) -> Self {
        self.preview_bytes = bytes;
        self
    }

    /// Sets the maximum number of characters in one cell of a preview. Default: 200.
    #[must_use]
    pub fn with_preview_cell(mut self, characters: usize) -> Self {
        self.preview_cell = characters;
        self
    }

    /// Sets the maximum number of columns of a preview. Default: 50.
    #[must_use]
    pub fn with_preview_columns(mut self, columns: usize) -> Self {
        self.preview_columns = columns;
        self
    }

    /// Sets the maximum size in bytes of the response to the MCP request `resources/read`. Default: 32 KiB.
    #[must_use]
    pub fn with_read_bytes(mut self, bytes: usize) -> Self {
        self.read_bytes = bytes;
        self
    }

    /// Sets the maximum number of rows in one page. If a client requests more rows than the maximum, the page has the
    /// maximum number of rows. The lowest possible maximum is 1 row. Default: 10,000.
    #[must_use]
    pub fn with_page_rows(mut self, rows: u64) -> Self {
        self.page_rows = rows;
        self
    }

    /// Sets the maximum size of one page in bytes. If the requested rows are larger than the maximum page size, the
    /// page has fewer rows. Default: 16 MiB.
    #[must_use]
    pub fn with_page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// Sets the maximum size in bytes of the in-memory rows of one result set. Default: 16 MiB.
    #[must_use]
    pub fn with_rows_bytes(mut self, bytes: usize) -> Self {
        self.rows_bytes = bytes;
        self
    }

    /// Sets the maximum size in bytes of the query parameters of a result set. The limit for query parameters also
    /// applies to the metadata of a result set. Default: 64 KiB.
    #[must_use]
    pub fn with_metadata_bytes(mut self, bytes: usize) -> Self {
        self.metadata_bytes = bytes;
        self
    }

    /// Sets the maximum size of an HTTP request body in bytes. Default: 64 KiB.
    #[must_use]
    pub fn with_body_bytes(mut self, bytes: usize) -> Self {
        self.body_bytes = bytes;
        self
    }

    /// Sets the maximum number of pages that the server reads concurrently. Default: 64.
    #[must_use]
    pub fn with_concurrent_pages(mut self, pages: usize) -> Self {
        self.concurrent_pages = pages;
        self
    }

    /// Sets the maximum number of whole result sets that the server streams concurrently. Default: 32.
    #[must_use]
    pub fn with_concurrent_streams(mut self, streams: usize) -> Self {
        self.concurrent_streams = streams;
        self
    }

    /// Sets the maximum time that a stream waits for its client or its source. If a stream waits longer, the server
    /// closes the connection. Default: 60 seconds.
    #[must_use]
    pub fn with_stall(mut self, time: Duration) -> Self {
        self.stall = time;
        self
    }

    /// Sets the maximum time that a request waits if too many requests are in flight. Default: 5 seconds.
    #[must_use]
    pub fn with_wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// Sets the maximum time that a source can take to return a page or a count. Default: 30 seconds.
    #[must_use]
    pub fn with_source_timeout(mut self, time: Duration) -> Self {
        self.source_timeout = time;
        self
    }

    /// Sets the maximum lifetime of a result set that is not pinned. Default: 30 days.
    #[must_use]
    pub fn with_life(mut self, time: Duration) -> Self {
        self.life = time;
        self
    }

    /// Sets the maximum lifetime of a signed link. Default: 15 minutes.
    #[must_use]
    pub fn with_link_life(mut self, time: Duration) -> Self {
        self.link_life = time;
        self
    }

    /// Sets the maximum time that the creation of a snapshot waits for the last row. If the last row arrives within
    /// the maximum time, the snapshot is complete and has an exact count when the tool returns. Default: 2 seconds.
    #[must_use]
    pub fn with_settle(mut self, time: Duration) -> Self {
        self.settle = time;
        self
    }

    /// Sets the maximum time that a request waits for a sorted or filtered view. If the view takes longer, the server
    /// responds that the view is not ready. Default: 2 seconds.
    #[must_use]
    pub fn with_view_wait(mut self, time: Duration) -> Self {
        self.view_wait = time;
        self
    }

    /// Sets the maximum number of rows in a snapshot. If the rows of a snapshot exceed the maximum, the server omits
    /// the further rows, and marks the result set as truncated. Default: 100 million.
    #[must_use]
    pub fn with_snapshot_rows(mut self, rows: u64) -> Self {
        self.snapshot_rows = rows;
        self
    }

    /// Sets the maximum stored size of a snapshot in bytes. If the rows of a snapshot exceed the maximum, the server
    /// omits the further rows, and marks the result set as truncated. Default: 10 GiB.
    #[must_use]
    pub fn with_snapshot_bytes(mut self, bytes: u64) -> Self {
        self.snapshot_bytes = bytes;
        self
    }

    /// Sets the maximum stored size in bytes of all snapshots and views of one tenant. If a tenant uses more than the
    /// maximum, the server rejects new snapshots and views of the tenant. For callers without a tenant, the limit
    /// applies to each principal, and all callers without a principal share one limit. Default: 50 GiB.
    #[must_use]
    pub fn with_tenant_bytes(mut self, bytes: u64) -> Self {
        self.tenant_bytes = bytes;
        self
    }

    /// Sets the maximum number of snapshots of one tenant that this process writes concurrently. For callers without a
    /// tenant, the limit applies to each principal. Default: 4.
    #[must_use]
    pub fn with_intakes_per_tenant(mut self, snapshots: usize) -> Self {
        self.intakes_per_tenant = snapshots;
        self
    }

    /// Sets the maximum number of views, statistics and queries of one tenant that this process computes concurrently.
    /// For callers without a tenant, the limit applies to each principal. Default: 8.
    #[must_use]
    pub fn with_scans_per_tenant(mut self, scans: usize) -> Self {
        self.scans_per_tenant = scans;
        self
    }

    /// Sets the maximum number of exports and streams of one tenant's snapshots that this process sends concurrently.
    /// For callers without a tenant, the limit applies to each principal. Default: 8.
    #[must_use]
    pub fn with_exports_per_tenant(mut self, exports: usize) -> Self {
        self.exports_per_tenant = exports;
        self
    }

    /// Sets the interval at which the writer of a snapshot stores a heartbeat. Default: 3 seconds.
    #[must_use]
    pub fn with_beat(mut self, interval: Duration) -> Self {
        self.beat = interval;
        self
    }

    /// Sets the time after which a snapshot write without a heartbeat is marked as failed. Default: 1 minute.
    #[must_use]
    pub fn with_silence(mut self, time: Duration) -> Self {
        self.silence = time;
        self
    }

    /// Sets the minimum age at which [`sweep`](crate::DualResponseServer::sweep) removes a snapshot that belongs to no
    /// result set. Default: 1 hour.
    #[must_use]
    pub fn with_abandoned(mut self, age: Duration) -> Self {
        self.abandoned = age;
        self
    }
}
