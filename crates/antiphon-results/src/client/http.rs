use std::{
    collections::HashMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::StreamExt;
use http::{Version, header};
use reqwest::{Certificate, Client, redirect};

use super::{
    fetch::{Fetch, FetchRequest, FetchResponse},
    guard::{AddressScope, Resolve, SystemResolver, checked},
};
use crate::error::BoxError;

/// Timeout of a connection attempt. The connection attempt also counts toward the timeout of the request.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// The default HTTP client, built on `reqwest` and rustls.
///
/// `HttpFetch` follows the contract of [`Fetch`]. An `HttpFetch` does not follow redirects, store cookies, decompress
/// bodies, or use proxies from the environment. For each connection, `HttpFetch` resolves the host name once, checks
/// all addresses, and connects only to these addresses.
///
/// Clones of an `HttpFetch` share connections.
#[derive(Clone)]
pub struct HttpFetch {
    resolver: Arc<dyn Resolve>,
    roots: Vec<Certificate>,
    clients: Arc<Mutex<HashMap<Line, Client>>>,
}

/// The address scope of a request, and whether the request uses `https`. Requests with an equal `Line` share
/// connections. A connection that was opened with a wide scope must not be used for a request with a narrow scope.
type Line = (AddressScope, bool);

impl HttpFetch {
    /// Creates a client with the system's root certificates and DNS resolver.
    pub fn new() -> Self {
        Self { resolver: Arc::new(SystemResolver), roots: Vec::new(), clients: Arc::default() }
    }

    /// Sets the resolver for host names. The HTTP client also checks the addresses that the resolver returns. Default:
    /// the system's resolver.
    #[must_use]
    pub fn with_resolver(mut self, resolver: impl Resolve) -> Self {
        self.resolver = Arc::new(resolver);
        self.clients = Arc::default();
        self
    }

    /// Adds root certificates in PEM format to the root certificates of the system. Default: none.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificates are not PEM.
    pub fn with_root_certificates(mut self, pem: &[u8]) -> Result<Self, BoxError> {
        self.roots.extend(Certificate::from_pem_bundle(pem)?);
        self.clients = Arc::default();
        Ok(self)
    }

    /// Returns the `reqwest` client for requests with the properties `line`. The first request creates this `reqwest`
    /// client, because reading the system's certificates takes time, and plain HTTP needs no certificates.
    fn client(&self, line: Line) -> Result<Client, BoxError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&line) {
            return Ok(client.clone());
        }
        let (reach, secure) = line;
        let builder = Client::builder()
            .user_agent(concat!("antiphon-results/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Guarded { resolver: Arc::clone(&self.resolver), reach })
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .https_only(secure)
            .connect_timeout(CONNECT)
            .tcp_nodelay(true);
        let builder = if secure {
            builder.tls_certs_merge(self.roots.iter().cloned())
        } else {
            builder.tls_certs_only([])
        };
        let client = builder.build()?;
        clients.insert(line, client.clone());
        Ok(client)
    }
}

impl Default for HttpFetch {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HttpFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFetch").field("resolver", &self.resolver).finish_non_exhaustive()
    }
}

#[async_trait]
impl Fetch for HttpFetch {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, BoxError> {
        // If the host is an address, the connection does not use the resolver, so the address is checked here.
        request.reach.check_host(&request.url)?;
        let client = self.client((request.reach, request.url.scheme() == "https"))?;
        let mut sending = client.request(request.method, request.url).headers(request.headers);
        if !request.body.is_empty() {
            sending = sending.body(request.body);
        }
        let answer = sending.send().await.map_err(reqwest::Error::without_url)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let told =
            headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING);
        let framed = told || answer.version() >= Version::HTTP_2;
        let body = answer.bytes_stream().map(|piece| piece.map_err(|error| error.without_url().into()));
        Ok(FetchResponse { status, headers, body: Box::pin(body), framed })
    }
}

/// A resolver for `reqwest` that returns only allowed addresses.
struct Guarded {
    resolver: Arc<dyn Resolve>,
    reach: AddressScope,
}

impl reqwest::dns::Resolve for Guarded {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let (resolver, reach) = (Arc::clone(&self.resolver), self.reach);
        Box::pin(async move {
            let addresses = checked(resolver, reach, name.as_str()).await?;
            // Port 0 means the port of the URL.
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as reqwest::dns::Addrs)
        })
    }
}
