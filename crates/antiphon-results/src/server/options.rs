use std::{fmt, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};

use super::{Authorize, audit::Listener, limits::ResultLimits};
use crate::{
    AuditEvent, SCHEME,
    link::LinkKeys,
    page::DEFAULT_PAGE_SIZE,
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
    pub(crate) default_page_size: u64,
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
    /// Creates options for a server. `base_url` is the URL at which clients reach the routes of the server, such as
    /// `https://api.example.com/resources`.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            store: Arc::new(MemoryStore::new()),
            default_expiration: Duration::from_secs(15 * 60),
            default_sample_size: 15,
            default_page_size: DEFAULT_PAGE_SIZE,
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

    /// Sets the number of rows in a page if the request sets no limit. The minimum is 1 row. Default: 100.
    ///
    /// A page never has more rows than [`ResultLimits::with_page_rows`] allows.
    pub fn with_default_page_size(mut self, rows: u64) -> Self {
        self.default_page_size = rows;
        self
    }

    /// Sets the interval at which the server removes expired result sets. Default: 1 minute.
    pub fn with_cleanup_interval(mut self, interval: Duration) -> Self {
        self.cleanup_interval = interval;
        self
    }

    /// Sets whether the lifetime of a result set starts again when its rows are read. Default: `false`.
    pub fn with_sliding_expiration(mut self, sliding: bool) -> Self {
        self.sliding = sliding;
        self
    }

    /// Sets the scheme of result set URIs. Default: `resource`. With the scheme `https`, the URI of a result set is
    /// its URL. Use the scheme `https` only if clients can fetch the URL of a result set themselves.
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
    /// same snapshot store. The crate `antiphon-snapshot` provides a snapshot store. Default: none.
    pub fn with_snapshots(mut self, snapshots: impl SnapshotStore) -> Self {
        self.snapshots = Some(Arc::new(snapshots));
        self
    }

    /// Sets how clients download the stored file of a snapshot. Retrieval modes other than the default need an object
    /// store that signs URLs. Default: [`RetrievalMode::Proxy`].
    ///
    /// Every holder of a signed URL can download the file until the URL expires, even if the result set is deleted.
    pub fn with_retrieval(mut self, retrieval: RetrievalMode) -> Self {
        self.retrieval = retrieval;
        self
    }

    /// Sets the keys that sign links. Default: none. Without keys, the server cannot sign links.
    pub fn with_link_keys(mut self, keys: LinkKeys) -> Self {
        self.link_keys = Some(keys);
        self
    }

    /// Sets the access policy. Default: only the owner has access to a result set.
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

    /// Sets the authentication of HTTP requests. If the server authenticates callers, the ID of a result set alone is
    /// not enough to get access. Every result set must have an owner, and by default only the owner has access.
    /// Default: no authentication.
    #[cfg(feature = "rest")]
    pub fn with_authenticate(mut self, authenticate: impl super::Authenticate) -> Self {
        self.authenticate = Some(Arc::new(authenticate));
        self
    }

    /// Sets the `Host` headers that the server accepts, as protection against DNS rebinding. If the list is empty, the
    /// server accepts all hosts. Default: the host of the base URL, and the loopback hosts.
    ///
    /// If a proxy sends a different `Host` header to the server, add the host name in that header.
    #[cfg(feature = "rest")]
    pub fn with_allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = Some(hosts.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the origins whose web pages can call the routes (CORS). The server rejects requests from web pages of all
    /// other origins, except the server's own origin. Default: none.
    #[cfg(feature = "rest")]
    pub fn with_allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_origins = origins.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the number of rows in a page for a request with the limit `limit`.
    pub(crate) fn page_size(&self, limit: Option<u64>) -> u64 {
        limit.unwrap_or(self.default_page_size).min(self.limits.page_rows)
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
