use std::{fmt, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};

use super::{Authorize, audit::Listener};
use crate::{
    AuditEvent, SCHEME,
    link::LinkKeys,
    snapshot::{RetrievalMode, SnapshotStore},
    source::{Queries, Query},
    store::{MemoryStore, ResourceStore},
};

pub(crate) type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// The options of a [`DualResponseServer`](crate::DualResponseServer).
///
/// ```
/// use antiphon_results::{DualResponseServer, DualResponseServerOptions};
///
/// let options = DualResponseServerOptions::new("https://api.example.com/resources");
/// let server = DualResponseServer::new(options)?;
/// # Ok::<(), antiphon_results::DualResponseError>(())
/// ```
#[derive(Clone)]
#[must_use = "options do nothing until a server is made with them"]
pub struct DualResponseServerOptions {
    pub(crate) base_url: String,
    pub(crate) store: Arc<dyn ResourceStore>,
    pub(crate) default_expiration: Duration,
    pub(crate) default_sample_size: usize,
    pub(crate) cleanup_interval: Duration,
    pub(crate) sliding: bool,
    pub(crate) scheme: String,
    pub(crate) limits: ResultLimits,
    pub(crate) queries: Queries,
    pub(crate) snapshots: Option<Arc<dyn SnapshotStore>>,
    pub(crate) retrieval: RetrievalMode,
    pub(crate) link_keys: Option<LinkKeys>,
    pub(crate) authorize: Option<Arc<dyn Authorize>>,
    pub(crate) audit: Option<Listener>,
    pub(crate) clock: Clock,
    pub(crate) problems: Vec<String>,
    #[cfg(feature = "rest")]
    pub(crate) authenticate: Option<Arc<dyn super::Authenticate>>,
    #[cfg(feature = "rest")]
    pub(crate) allowed_origins: Vec<String>,
    #[cfg(feature = "rest")]
    pub(crate) allowed_hosts: Option<Vec<String>>,
}

impl DualResponseServerOptions {
    /// Creates options for a server. `base_url` is the URL at which clients reach its routes, such as
    /// `https://api.example.com/resources`.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            store: Arc::new(MemoryStore::new()),
            default_expiration: Duration::from_secs(15 * 60),
            default_sample_size: 15,
            cleanup_interval: Duration::from_secs(60),
            sliding: false,
            scheme: SCHEME.to_owned(),
            limits: ResultLimits::default(),
            queries: Queries::default(),
            snapshots: None,
            retrieval: RetrievalMode::Proxy,
            link_keys: None,
            authorize: None,
            audit: None,
            clock: Arc::new(Utc::now),
            problems: Vec::new(),
            #[cfg(feature = "rest")]
            authenticate: None,
            #[cfg(feature = "rest")]
            allowed_origins: Vec::new(),
            #[cfg(feature = "rest")]
            allowed_hosts: None,
        }
    }

    /// Sets the store of result sets. Default: a [`MemoryStore`].
    pub fn with_store(mut self, store: impl ResourceStore) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Sets the lifetime of a result set. Default: 15 minutes.
    pub fn with_default_expiration(mut self, life: Duration) -> Self {
        self.default_expiration = life;
        self
    }

    /// Sets the number of rows in a preview. Default: 15.
    pub fn with_default_sample_size(mut self, rows: usize) -> Self {
        self.default_sample_size = rows;
        self
    }

    /// Sets the interval of the clean-up of expired sets. Default: 1 minute.
    pub fn with_cleanup_interval(mut self, interval: Duration) -> Self {
        self.cleanup_interval = interval;
        self
    }

    /// Sets whether the lifetime of a set starts again when its rows are read. Default: `false`.
    pub fn with_sliding_expiration(mut self, sliding: bool) -> Self {
        self.sliding = sliding;
        self
    }

    /// Sets the scheme of result set URIs. Default: `resource`. With `https`, the URI is the URL of the set. Use
    /// `https` only if clients can fetch that URL themselves.
    pub fn with_scheme(mut self, scheme: impl Into<String>) -> Self {
        self.scheme = scheme.into();
        self
    }

    /// Sets the limits of the server. Default: [`ResultLimits::default`].
    pub fn with_limits(mut self, limits: ResultLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Registers a query under a name, for [`Source::query`](crate::Source::query). Every replica must register the
    /// same queries.
    pub fn with_query(mut self, name: impl Into<String>, query: impl Query) -> Self {
        let name = name.into();
        if !self.queries.add(name.clone(), Arc::new(query)) {
            self.problems.push(format!("two queries have the name `{name}`; rename one of them"));
        }
        self
    }

    /// Sets the store that saves rows from [`Source::snapshot`](crate::Source::snapshot). Every replica must use the
    /// same store. The crate `antiphon-snapshot` provides such a store. Default: none.
    pub fn with_snapshots(mut self, snapshots: impl SnapshotStore) -> Self {
        self.snapshots = Some(Arc::new(snapshots));
        self
    }

    /// Sets how clients download the stored file of a snapshot. Modes other than the default need an object store
    /// that signs URLs. Default: [`RetrievalMode::Proxy`].
    ///
    /// Every holder of a signed URL can use it until it expires, even if the set is deleted.
    pub fn with_retrieval(mut self, retrieval: RetrievalMode) -> Self {
        self.retrieval = retrieval;
        self
    }

    /// Sets the keys that sign links. Default: none, and the server cannot sign links.
    pub fn with_link_keys(mut self, keys: LinkKeys) -> Self {
        self.link_keys = Some(keys);
        self
    }

    /// Sets the access policy. Default: only the owner has access to a set.
    pub fn with_authorize(mut self, authorize: impl Authorize) -> Self {
        self.authorize = Some(Arc::new(authorize));
        self
    }

    /// Sets a function that is called for each audit event. The server also logs the events with the target
    /// `antiphon_results::audit`. Default: none.
    pub fn with_audit(mut self, listener: impl Fn(&AuditEvent) + Send + Sync + 'static) -> Self {
        self.audit = Some(Arc::new(listener));
        self
    }

    /// Sets the clock, for tests. Default: the system clock.
    pub fn with_clock(mut self, clock: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the authentication of HTTP requests. With authentication, the ID of a result set alone gives no access.
    /// Every result set must have an owner, and by default only the owner has access. Default: no authentication.
    #[cfg(feature = "rest")]
    pub fn with_authenticate(mut self, authenticate: impl super::Authenticate) -> Self {
        self.authenticate = Some(Arc::new(authenticate));
        self
    }

    /// Sets the `Host` headers that the server accepts, as protection against DNS rebinding. An empty list accepts all
    /// hosts. Default: the host of the base URL, and the loopback hosts.
    ///
    /// If a proxy forwards a different `Host`, add that name.
    #[cfg(feature = "rest")]
    pub fn with_allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = Some(hosts.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the origins whose web pages can call the routes (CORS). The server rejects requests from web pages of
    /// other origins, except its own. Default: none.
    #[cfg(feature = "rest")]
    pub fn with_allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_origins = origins.into_iter().map(Into::into).collect();
        self
    }
}

impl fmt::Debug for DualResponseServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DualResponseServerOptions")
            .field("base_url", &self.base_url)
            .field("store", &self.store)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The limits of a [`DualResponseServer`](crate::DualResponseServer). Every input from clients has a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultLimits {
    /// Maximum size in bytes of the text for the model. The same limit applies to the rows in the structured content.
    /// Default: 8 KiB.
    pub preview_bytes: usize,
    /// Maximum characters in one cell of a preview. Default: 200.
    pub preview_cell: usize,
    /// Maximum columns of a preview. Default: 50.
    pub preview_columns: usize,
    /// Maximum size in bytes of the response to the MCP request `resources/read`. Default: 32 KiB.
    pub read_bytes: usize,
    /// Maximum number of rows in one page. If a client requests more, the page has this number of rows. Default:
    /// 10,000.
    pub page_rows: u64,
    /// Maximum size of one page in bytes. If the requested rows are larger, the page has fewer rows. Default: 16 MiB.
    pub page_bytes: usize,
    /// Maximum size in bytes of the in-memory rows of one result set. Default: 16 MiB.
    pub rows_bytes: usize,
    /// Maximum size in bytes of the query parameters of a set. The same limit applies to its metadata. Default: 64
    /// KiB.
    pub metadata_bytes: usize,
    /// Maximum size of an HTTP request body in bytes. Default: 64 KiB.
    pub body_bytes: usize,
    /// Maximum number of pages that the server reads concurrently. Default: 64.
    pub concurrent_pages: usize,
    /// Maximum number of whole sets that the server streams concurrently. Default: 32.
    pub concurrent_streams: usize,
    /// Maximum time that a stream waits for its client or its source. After this time, the server closes the
    /// connection. Default: 60 seconds.
    pub stall: Duration,
    /// Maximum time that a request waits if too many requests are in flight. Default: 5 seconds.
    pub wait: Duration,
    /// Maximum time that a source can take to return a page or a count. Default: 30 seconds.
    pub source_timeout: Duration,
    /// Maximum lifetime of a set that is not pinned. Default: 30 days.
    pub life: Duration,
    /// Maximum lifetime of a signed link. Default: 15 minutes.
    pub link_life: Duration,
    /// Maximum time that the creation of a snapshot waits for its last row. A small snapshot is then complete, with
    /// an exact count, when the tool returns. Default: 2 seconds.
    pub settle: Duration,
    /// Maximum time that a request waits for a sorted or filtered view. After this time, the server responds that the
    /// view is not ready. Default: 2 seconds.
    pub view_wait: Duration,
    /// Maximum number of rows in a snapshot. Further rows are omitted, and the set is marked as truncated. Default:
    /// 100 million.
    pub snapshot_rows: u64,
    /// Maximum stored size of a snapshot in bytes. Further rows are omitted, and the set is marked as truncated.
    /// Default: 10 GiB.
    pub snapshot_bytes: u64,
    /// Maximum stored size in bytes of all snapshots and views of one tenant. Above this limit, the server rejects
    /// new snapshots and views. Without a tenant, the limit applies to each principal, and all callers without a
    /// principal share one limit. Default: 50 GiB.
    pub tenant_bytes: u64,
    /// Maximum number of snapshots of one tenant that this process writes concurrently. Without a tenant, the limit
    /// applies to each principal. Default: 4.
    pub intakes_per_tenant: usize,
    /// Maximum number of views, statistics and queries of one tenant that this process computes concurrently. Without
    /// a tenant, the limit applies to each principal. Default: 8.
    pub scans_per_tenant: usize,
    /// Maximum number of exports and streams of one tenant's snapshots that this process sends concurrently. Without
    /// a tenant, the limit applies to each principal. Default: 8.
    pub exports_per_tenant: usize,
    /// Interval at which the writer of a snapshot stores a heartbeat. Default: 3 seconds.
    pub beat: Duration,
    /// Time after which a snapshot write without a heartbeat is marked as failed. Default: 1 minute.
    pub silence: Duration,
    /// Minimum age at which [`sweep`](crate::DualResponseServer::sweep) removes a snapshot that belongs to no result
    /// set. Default: 1 hour.
    pub abandoned: Duration,
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
