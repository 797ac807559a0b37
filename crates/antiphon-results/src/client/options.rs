use std::{fmt, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use http::HeaderMap;
use url::Url;

use super::{fetch::Fetch, guard::Resolve, http::HttpFetch};

/// The default timeout of a response.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// The default maximum wait for data that is not ready.
pub(super) const PATIENCE: Duration = Duration::from_secs(2 * 60);
/// The default maximum size of a page in bytes.
pub(super) const MAX_BODY: usize = 64 << 20;

pub(super) type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;
pub(super) type WaitObserver = Arc<dyn Fn(bool) + Send + Sync>;
pub(super) type HeaderProvider = Arc<dyn Fn(&Url) -> HeaderMap + Send + Sync>;

/// The options of a [`DualResponseClient`](super::DualResponseClient), and the origins to which it can connect.
///
/// # Allowed origins
///
/// A dual response contains a URL that its server chose. The client sends requests to a URL from a dual response only
/// if the origin of the URL is in this list:
///
/// - The origin of [`with_base_url`](Self::with_base_url), [`with_fallback_base_url`](Self::with_fallback_base_url) or
///   [`allow_origin`](Self::allow_origin). An origin that one of these methods allows can use `http`, and can be in a
///   private network.
/// - The origin of [`with_endpoint_origin`](Self::with_endpoint_origin). The origin of the MCP endpoint must use
///   `https`, and all its IP addresses must be on the public internet.
/// - The loopback addresses of this machine, if [`allow_loopback`](Self::allow_loopback) is called.
///
/// If no option allows an origin, every request fails. The error names the option that would allow the request:
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
/// The client does not follow redirects, with one exception: the server can redirect an export to an allowed origin.
/// After [`allow_public_redirects`](Self::allow_public_redirects), the server can redirect an export to any public
/// `https` URL. The redirected request does not contain the headers that the application set. The client does not use
/// proxies from the environment.
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
    /// Creates options with the default values, which allow no origin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the base URL of all result sets. The client then appends the ID of a result set to the base URL, and
    /// ignores the URL in the response. Default: none.
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets the base URL for responses that contain an ID but no URL. Default: none.
    pub fn with_fallback_base_url(mut self, url: impl Into<String>) -> Self {
        self.fallback_base_url = Some(url.into());
        self
    }

    /// Sets the URL of the MCP server that returns the responses. The client then accepts result sets at the origin of
    /// this MCP server. Default: none.
    pub fn with_endpoint_origin(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// Allows requests to an origin, as `https://host:port`. The origin can use `http`, and can be in a private
    /// network.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Allows requests to all ports of this machine, with `https` and with `http`. Use this option for development.
    pub fn allow_loopback(mut self) -> Self {
        self.loopback = true;
        self
    }

    /// Allows the server to redirect an export to any `https` URL on the public internet, such as an object store.
    /// The redirected request does not contain the headers that the application set.
    pub fn allow_public_redirects(mut self) -> Self {
        self.public_redirects = true;
        self
    }

    /// Adds a header to every request.
    ///
    /// The client sends the headers of the application to only one origin. The client uses the first URL in this list
    /// that is set: base URL, MCP endpoint, fallback base URL, the only allowed origin. Requests to other allowed
    /// origins do not contain the headers of the application.
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets a function that returns headers for each request, for example renewed tokens. The client sends the
    /// returned headers to the same origin as the headers of [`with_header`](Self::with_header). The returned headers
    /// replace headers of `with_header` with the same name. Default: none.
    pub fn with_header_provider(
        mut self,
        provider: impl Fn(&Url) -> HeaderMap + Send + Sync + 'static,
    ) -> Self {
        self.provider = Some(Arc::new(provider));
        self
    }

    /// Returns `true` if headers are set but no base URL is set. With these options, a client sends the headers to the
    /// MCP endpoint for which the client is created.
    pub fn has_headers_for_any_endpoint(&self) -> bool {
        (!self.headers.is_empty() || self.provider.is_some()) && self.base_url.is_none()
    }

    /// Sets the timeout of a request, including the body of its response. For a stream, the timeout is the maximum
    /// time without data. Default: 30 s.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long the client retries while rows are still being saved, or while a sorted or filtered view is still
    /// being built. Default: 2 minutes.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Calls `observer` with `true` when the client starts to wait for rows that are not ready, and with `false` when
    /// the wait ends. Default: none.
    pub fn with_wait_observer(mut self, observer: impl Fn(bool) + Send + Sync + 'static) -> Self {
        self.wait_observer = Some(Arc::new(observer));
        self
    }

    /// Sets the maximum size of a page in bytes. Default: 64 MiB.
    pub fn with_max_body(mut self, bytes: usize) -> Self {
        self.max_body = Some(bytes);
        self
    }

    /// Sets the HTTP client. Default: an [`HttpFetch`].
    pub fn with_fetch(mut self, fetch: impl Fetch) -> Self {
        self.fetch = Some(Arc::new(fetch));
        self
    }

    /// Sets the HTTP client to an [`HttpFetch`] with this resolver for host names. The client checks the addresses
    /// that the resolver returns.
    pub fn with_resolver(self, resolver: impl Resolve) -> Self {
        self.with_fetch(HttpFetch::new().with_resolver(resolver))
    }

    /// Sets the clock that decides whether a result set has expired, for tests. Default: the system clock.
    pub fn with_clock(mut self, clock: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }
}

/// The debug output omits the values of headers.
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

/// Returns the URL without parts that can be credentials.
fn quiet(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "…".to_owned(), |url| url.origin().ascii_serialization() + url.path())
}
