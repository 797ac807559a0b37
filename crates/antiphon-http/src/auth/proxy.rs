use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::extract::ConnectInfo;
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use ipnet::IpNet;

use super::Identity;

/// The maximum length of a client's name in the header, in bytes.
const MAX_NAME: usize = 1024;

/// The settings for a proxy that terminates TLS and checks client certificates. The proxy reads the client's name from
/// the certificate, and sends the name to this server in an HTTP header.
///
/// The server uses the header with the client's name only if the connection comes from one of the proxy's networks. On
/// other connections, the server ignores the header with the client's name. The proxy must remove this header from the
/// requests that it receives from clients. Clients in the proxy's networks must not be able to reach the server
/// without the proxy.
///
/// A client with a certificate has the principal `proxy#<name>`. To check the proxy's network, the server needs the
/// remote address of each connection. [`serve`](crate::serve) and the HTTP methods of `antiphon::Server` provide the
/// remote address. If you serve an application in another way, use
/// `into_make_service_with_connect_info::<SocketAddr>()`.
///
/// ```
/// use antiphon_http::auth::Proxy;
///
/// // nginx: proxy_set_header x-client-subject $ssl_client_s_dn;
/// //        proxy_set_header x-client-verify  $ssl_client_verify;
/// let proxy = Proxy::new("x-client-subject", ["10.1.0.0/16"]).with_verified("x-client-verify", "SUCCESS");
/// # let _ = proxy;
/// ```
#[derive(Clone)]
#[must_use = "a proxy does nothing until you pass it to an `AuthBuilder`"]
pub struct Proxy {
    header: Option<HeaderName>,
    networks: Vec<IpNet>,
    verified: Option<(HeaderName, String)>,
    name: Option<NameHook>,
    scopes: Vec<String>,
    problems: Vec<String>,
}

type NameHook = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl Proxy {
    /// Creates the settings for a proxy. `header` is the name of the HTTP header that contains the client's name.
    /// `networks` lists the addresses of the proxy, for example `10.1.0.0/16` or `::1`.
    pub fn new(header: &str, networks: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut problems = Vec::new();
        let mut read = Vec::new();
        for network in networks {
            let network = network.as_ref();
            match network.parse::<IpNet>().or_else(|_| network.parse::<IpAddr>().map(IpNet::from)) {
                Ok(network) => read.push(network),
                Err(_) => {
                    problems
                        .push(format!("`{network}` is not a valid network; write a network or an address, like `10.1.0.0/16` or `::1`"));
                }
            }
        }
        if read.is_empty() && problems.is_empty() {
            problems
                .push("the proxy has no network, so its header would never be accepted; pass a network to `Proxy::new`".into());
        }
        let mut proxy =
            Self { header: None, networks: read, verified: None, name: None, scopes: Vec::new(), problems };
        proxy.header = proxy.header_named(header);
        proxy
    }

    /// Accepts a client's name only if the HTTP header `header` has the value `value`. Use `with_verified` if the proxy
    /// also forwards requests whose certificates it could not verify. Default: the server does not check another
    /// header.
    pub fn with_verified(mut self, header: &str, value: impl Into<String>) -> Self {
        self.verified = self.header_named(header).map(|header| (header, value.into()));
        self
    }

    /// Sets a function that extracts the client's name from the header value. If the function for the name returns
    /// `None`, the caller is not authenticated. Default: the whole value of the header, trimmed.
    pub fn with_name(mut self, name: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.name = Some(Arc::new(name));
        self
    }

    /// Sets the scopes of all clients with a certificate. Default: none.
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    fn header_named(&mut self, name: &str) -> Option<HeaderName> {
        let header = name.parse().ok();
        if header.is_none() {
            self.problems.push(format!("`{name}` is not a valid header name for a proxy"));
        }
        header
    }

    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    pub(super) fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Returns the names of the headers with which the proxy identifies callers.
    pub(super) fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.header.iter().chain(self.verified.iter().map(|(header, _)| header))
    }

    /// Returns the identity from the proxy's header, if the connection comes from the proxy.
    pub(super) fn identify(&self, parts: &Parts) -> Option<Identity> {
        let name = only(&parts.headers, self.header.as_ref()?)?;
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        // An IPv4 address can be in its IPv6-mapped form.
        let peer = peer.map(|peer| peer.to_canonical());
        if !peer.is_some_and(|peer| self.networks.iter().any(|network| network.contains(&peer))) {
            tracing::info!(
                ?peer,
                "a proxy's header was ignored: the connection does not come from a network of the proxy"
            );
            return None;
        }
        if let Some((header, value)) = &self.verified
            && only(&parts.headers, header)? != value
        {
            return None;
        }
        let name = match &self.name {
            Some(read) => read(name)?,
            None => name.trim().to_owned(),
        };
        let is_name = (1..=MAX_NAME).contains(&name.len());
        is_name.then(|| Identity::new(format!("proxy#{name}")).with_scopes(self.scopes.iter().cloned()))
    }
}

/// Returns the value of a header, if the request has this header exactly once. If a request has the header twice, one
/// of the values could come from the client.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value: &HeaderValue = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("header", &self.header)
            .field("networks", &self.networks)
            .finish_non_exhaustive()
    }
}
