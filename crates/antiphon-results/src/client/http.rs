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

/// How long a connection may take to be made, within the time limit of its request.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// Fetches with `reqwest` and rustls.
///
/// It keeps the contract of [`Fetch`] by going without what HTTP clients do for convenience: redirects,
/// cookies, proxies from the environment, decompression. Names are looked up once for a connection, all
/// their addresses are checked, and exactly those are connected to.
///
/// Clones share connections.
#[derive(Clone)]
pub struct HttpFetch {
    resolver: Arc<dyn Resolve>,
    roots: Vec<Certificate>,
    clients: Arc<Mutex<HashMap<Line, Client>>>,
}

/// Requests that may share connections. A connection that was made where more is allowed must not serve where
/// less is, so each reach has connections of its own.
type Line = (AddressScope, bool);

impl HttpFetch {
    /// Trusts whom the system trusts, and asks it for addresses.
    pub fn new() -> Self {
        Self { resolver: Arc::new(SystemResolver), roots: Vec::new(), clients: Arc::default() }
    }

    /// Asks `resolver` for addresses. What it answers is checked like any other.
    #[must_use]
    pub fn with_resolver(mut self, resolver: impl Resolve) -> Self {
        self.resolver = Arc::new(resolver);
        self.clients = Arc::default();
        self
    }

    /// Trusts these certificates too, besides those the system trusts. They are PEM, one after another.
    ///
    /// # Errors
    ///
    /// When it is no PEM.
    pub fn with_root_certificates(mut self, pem: &[u8]) -> Result<Self, BoxError> {
        self.roots.extend(Certificate::from_pem_bundle(pem)?);
        self.clients = Arc::default();
        Ok(self)
    }

    /// The client for requests of this kind, which is made when the first of them comes: reading the
    /// certificates of the system takes a while, and plain HTTP has no use for them.
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
        // A host that is an address is connected to without a resolver, so it is looked at here.
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

/// Looks names up for `reqwest`, and lets through what may be reached.
struct Guarded {
    resolver: Arc<dyn Resolve>,
    reach: AddressScope,
}

impl reqwest::dns::Resolve for Guarded {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let (resolver, reach) = (Arc::clone(&self.resolver), self.reach);
        Box::pin(async move {
            let addresses = checked(resolver, reach, name.as_str()).await?;
            // Port 0 stands for the port of the URL.
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as reqwest::dns::Addrs)
        })
    }
}
