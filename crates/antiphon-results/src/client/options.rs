use std::{fmt, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use http::HeaderMap;
use url::Url;

use super::{fetch::Fetch, guard::Resolve, http::HttpFetch};

/// How long an answer may take if nobody says.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// How long it is waited for what is not ready if nobody says.
pub(super) const PATIENCE: Duration = Duration::from_secs(2 * 60);
/// How many bytes a page may have if nobody says.
pub(super) const MAX_BODY: usize = 64 << 20;

pub(super) type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;
pub(super) type WaitObserver = Arc<dyn Fn(bool) + Send + Sync>;
pub(super) type HeaderProvider = Arc<dyn Fn(&Url) -> HeaderMap + Send + Sync>;

/// How a [`DualResponseClient`](super::DualResponseClient) works, and where it may go.
///
/// # Where it may go
///
/// A dual response has a URL that its server chose. It is followed if its origin is
///
/// - that of [`with_base_url`](Self::with_base_url), [`with_fallback_base_url`](Self::with_fallback_base_url)
///   or [`allow_origin`](Self::allow_origin): these may be `http`, and in private networks;
/// - that of [`with_endpoint_origin`](Self::with_endpoint_origin): only with `https`, and only if all its
///   addresses are on the public internet;
/// - this machine, after [`allow_loopback`](Self::allow_loopback).
///
/// With none of them nothing is fetched, and the error says which option to set:
///
/// ```
/// use antiphon_results::client::{DualResponseClient, DualResponseClientOptions};
///
/// # fn client() -> Result<DualResponseClient, antiphon_results::client::DualResponseClientError> {
/// let options = DualResponseClientOptions::new().allow_origin("https://data.example.com");
/// DualResponseClient::new(options)
/// # }
/// ```
///
/// Redirects are not followed, but for one from an export to a file that is at
/// one of these too; it is sent no headers. Proxies in the environment are not used.
#[derive(Clone, Default)]
#[must_use]
pub struct DualResponseClientOptions {
    pub(super) base_url: Option<String>,
    pub(super) fallback_base_url: Option<String>,
    pub(super) endpoint: Option<String>,
    pub(super) origins: Vec<String>,
    pub(super) loopback: bool,
    pub(super) public_redirects: bool,
    pub(super) headers: Vec<(String, String)>,
    pub(super) provider: Option<HeaderProvider>,
    pub(super) timeout: Option<Duration>,
    pub(super) patience: Option<Duration>,
    pub(super) wait_observer: Option<WaitObserver>,
    pub(super) max_body: Option<usize>,
    pub(super) fetch: Option<Arc<dyn Fetch>>,
    pub(super) clock: Option<Clock>,
}

impl DualResponseClientOptions {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where result sets are, whatever their responses say: only the id is taken from them.
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Where result sets are if their responses do not say.
    pub fn with_fallback_base_url(mut self, url: impl Into<String>) -> Self {
        self.fallback_base_url = Some(url.into());
        self
    }

    /// The MCP endpoint the responses come from, or its origin. Its result sets may be behind the same origin.
    pub fn with_endpoint_origin(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// An origin that may be gone to, as `https://host:port`. It may be `http`, and in a private network.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Whatever port of this machine may be gone to, with `http` as well: for development.
    pub fn allow_loopback(mut self) -> Self {
        self.loopback = true;
        self
    }

    /// Lets the server redirect an export to any `https` address on the public internet, such as an object store. The
    /// redirected request carries no headers of the application.
    pub fn allow_public_redirects(mut self) -> Self {
        self.public_redirects = true;
        self
    }

    /// A header for every request.
    ///
    /// Headers are sent to one origin: that of the base URL; without one, that of the MCP endpoint; without
    /// either, that of the fallback base URL or the one listed. Other origins that may be gone to get none.
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Headers that are made anew for every request: tokens that are renewed. They are sent where those of
    /// [`with_header`](Self::with_header) are, and replace them.
    pub fn with_header_provider(
        mut self,
        provider: impl Fn(&Url) -> HeaderMap + Send + Sync + 'static,
    ) -> Self {
        self.provider = Some(Arc::new(provider));
        self
    }

    /// Whether headers are sent, and nobody has said with a base URL where to. They then go to whichever endpoint the
    /// client is made for.
    pub fn has_headers_for_any_endpoint(&self) -> bool {
        (!self.headers.is_empty() || self.provider.is_some()) && self.base_url.is_none()
    }

    /// How long an answer may take, with its body; of a stream, how long nothing may come. Default: 30 s.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long it is waited, in all, for rows that are still being saved or put in order. Default: 2 minutes.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Calls `observer` with `true` when the client begins to wait for rows that are not ready, and with `false` when
    /// that wait is over.
    pub fn with_wait_observer(mut self, observer: impl Fn(bool) + Send + Sync + 'static) -> Self {
        self.wait_observer = Some(Arc::new(observer));
        self
    }

    /// How many bytes a page may have. Default: 64 MiB.
    pub fn with_max_body(mut self, bytes: usize) -> Self {
        self.max_body = Some(bytes);
        self
    }

    /// Sends requests otherwise than with [`HttpFetch`].
    pub fn with_fetch(mut self, fetch: impl Fetch) -> Self {
        self.fetch = Some(Arc::new(fetch));
        self
    }

    /// Sends requests with an [`HttpFetch`] that asks `resolver` for addresses. What it answers is checked.
    pub fn with_resolver(self, resolver: impl Resolve) -> Self {
        self.with_fetch(HttpFetch::new().with_resolver(resolver))
    }

    /// What time it is. Default: the system's.
    pub fn with_clock(mut self, clock: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }
}

/// Without the values of headers.
impl fmt::Debug for DualResponseClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DualResponseClientOptions")
            .field("base_url", &self.base_url.as_deref().map(quiet))
            .field("fallback_base_url", &self.fallback_base_url.as_deref().map(quiet))
            .field("endpoint", &self.endpoint.as_deref().map(quiet))
            .field("origins", &self.origins)
            .field("loopback", &self.loopback)
            .field("public_redirects", &self.public_redirects)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("provider", &self.provider.is_some())
            .field("timeout", &self.timeout.unwrap_or(TIMEOUT))
            .field("max_body", &self.max_body.unwrap_or(MAX_BODY))
            .field("fetch", &self.fetch)
            .finish_non_exhaustive()
    }
}

/// The URL without what may be a credential.
fn quiet(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "…".to_owned(), |url| url.origin().ascii_serialization() + url.path())
}
