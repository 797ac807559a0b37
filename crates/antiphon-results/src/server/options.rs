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

/// How a [`DualResponseServer`](crate::DualResponseServer) works.
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
    /// A server whose routes are reached at `base_url`: `https://api.example.com/resources`.
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

    /// Sets where result sets are kept. Default: a [`MemoryStore`].
    pub fn with_store(mut self, store: impl ResourceStore) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Sets how long a result set lives. Default: 15 minutes.
    pub fn with_default_expiration(mut self, life: Duration) -> Self {
        self.default_expiration = life;
        self
    }

    /// Sets how many rows a preview has. Default: 15.
    pub fn with_default_sample_size(mut self, rows: usize) -> Self {
        self.default_sample_size = rows;
        self
    }

    /// Sets how often what has expired is removed. Default: every minute.
    pub fn with_cleanup_interval(mut self, interval: Duration) -> Self {
        self.cleanup_interval = interval;
        self
    }

    /// Lets a result set live on for its whole life again whenever its rows are read. Default: no.
    pub fn with_sliding_expiration(mut self, sliding: bool) -> Self {
        self.sliding = sliding;
        self
    }

    /// Sets the scheme of the URIs in links. Default: `resource`. Use `https` only for what a client can fetch
    /// by that URI itself.
    pub fn with_scheme(mut self, scheme: impl Into<String>) -> Self {
        self.scheme = scheme.into();
        self
    }

    /// Sets what bounds the server's work.
    pub fn with_limits(mut self, limits: ResultLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Registers a query under a name. Every replica must be given the same.
    pub fn with_query(mut self, name: impl Into<String>, query: impl Query) -> Self {
        let name = name.into();
        if !self.queries.add(name.clone(), Arc::new(query)) {
            self.problems.push(format!("two queries are registered as `{name}`"));
        }
        self
    }

    /// Sets where rows are saved that come as [`Source::snapshot`](crate::Source::snapshot). Every replica must be
    /// given the same. `antiphon-snapshot` has one.
    pub fn with_snapshots(mut self, snapshots: impl SnapshotStore) -> Self {
        self.snapshots = Some(Arc::new(snapshots));
        self
    }

    /// Sets how whoever wants a snapshot's stored rows gets them, where the object store signs addresses. Default:
    /// through this server. Whoever has such an address can use it until it ends, whatever becomes of the set.
    pub fn with_retrieval(mut self, retrieval: RetrievalMode) -> Self {
        self.retrieval = retrieval;
        self
    }

    /// Sets the secrets that links are signed with. Without them no links are made.
    pub fn with_link_keys(mut self, keys: LinkKeys) -> Self {
        self.link_keys = Some(keys);
        self
    }

    /// Decides who may do what with which set, in place of the rule that only its owner may do anything.
    pub fn with_authorize(mut self, authorize: impl Authorize) -> Self {
        self.authorize = Some(Arc::new(authorize));
        self
    }

    /// Is told who did what. The same is in the log, under the target `antiphon_results::audit`.
    pub fn with_audit(mut self, listener: impl Fn(&AuditEvent) + Send + Sync + 'static) -> Self {
        self.audit = Some(Arc::new(listener));
        self
    }

    /// Says what time it is. For tests.
    pub fn with_clock(mut self, clock: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Says who is calling, from a request. With it, an id alone grants nothing: a result set must have an
    /// owner, and only its owner gets it.
    #[cfg(feature = "rest")]
    pub fn with_authenticate(mut self, authenticate: impl super::Authenticate) -> Self {
        self.authenticate = Some(Arc::new(authenticate));
        self
    }

    /// Sets the `Host` headers that are answered, so that no page can reach the routes under a name of its own; an
    /// empty list answers all. Default: the base URL's, and this machine's. Behind a proxy that passes on another name
    /// than it was asked by, name that one.
    #[cfg(feature = "rest")]
    pub fn with_allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = Some(hosts.into_iter().map(Into::into).collect());
        self
    }

    /// Lets pages of these origins call the routes (CORS). Pages of others but our own are not answered. Default: none.
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

/// What bounds a server's work. Everything that comes from outside has one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultLimits {
    /// The most bytes of the text a model reads, and of the rows in the structured content. Default: 8 KiB.
    pub preview_bytes: usize,
    /// The most characters of one cell of a preview. Default: 200.
    pub preview_cell: usize,
    /// The most columns of a preview. Default: 50.
    pub preview_columns: usize,
    /// The most bytes of what `resources/read` gives. Default: 32 KiB.
    pub read_bytes: usize,
    /// The most rows of one page; who asks for more gets so many. Default: 10,000.
    pub page_rows: u64,
    /// The most bytes of one page; it then has fewer rows. Default: 16 MiB.
    pub page_bytes: usize,
    /// The most bytes of rows in hand. Default: 16 MiB.
    pub rows_bytes: usize,
    /// The most bytes of a set's parameters, and of its metadata. Default: 64 KiB.
    pub metadata_bytes: usize,
    /// The most bytes of a request's body. Default: 64 KiB.
    pub body_bytes: usize,
    /// How many pages are read at once. Default: 64.
    pub concurrent_pages: usize,
    /// How many whole sets are streamed at once. Default: 32.
    pub concurrent_streams: usize,
    /// How long whoever reads a stream may take nothing of it. Default: 60 seconds.
    pub stall: Duration,
    /// How long a request waits for its turn. Default: 5 seconds.
    pub wait: Duration,
    /// How long a source may take for a page or a count. Default: 30 seconds.
    pub source_timeout: Duration,
    /// The longest life of a set that is not pinned. Default: 30 days.
    pub life: Duration,
    /// The longest life of a link. Default: 15 minutes.
    pub link_life: Duration,
    /// How long making a set waits for its last row, so that a small one is answered with an exact count.
    /// Default: 2 seconds.
    pub settle: Duration,
    /// How long whoever reads a view waits for it to be made, before they are told to come back. Default: 2 seconds.
    pub view_wait: Duration,
    /// The most rows of a snapshot; what comes after them is left out, and that is said. Default: 100 million.
    pub snapshot_rows: u64,
    /// The most bytes of a snapshot as it is stored; likewise. Default: 10 GiB.
    pub snapshot_bytes: u64,
    /// The most bytes of all snapshots of one tenant and their views; with more, no new ones are made. Where there is no
    /// tenant, each principal has as many, and callers without a principal share them. Default: 50 GiB.
    pub tenant_bytes: u64,
    /// How many snapshots of one tenant are written at once in this process. Whoever is in no tenant has as many of
    /// their own, here and below. Default: 4.
    pub intakes_per_tenant: usize,
    /// How many views, statistics and queries of one tenant are worked on at once in this process. Default: 8.
    pub scans_per_tenant: usize,
    /// How many exports and streams of saved rows of one tenant are on their way out at once in this process.
    /// Default: 8.
    pub exports_per_tenant: usize,
    /// How often whoever writes a snapshot says how far it is. Default: every 3 seconds.
    pub beat: Duration,
    /// After how long nothing was heard of whoever writes a snapshot, it has failed. Default: 1 minute.
    pub silence: Duration,
    /// How old something in the snapshot store must be that no set knows, before it is swept away. Default: 1 hour.
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
