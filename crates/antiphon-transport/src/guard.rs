//! Checks of the headers `Host` and `Origin`, before a server does any other work for a request.
//!
//! A web page can make the user's browser send requests to any address, including addresses on the user's own machine.
//! With DNS rebinding, the web page can even use its own host name for an address on the user's machine. But a web
//! page cannot choose the `Host` and `Origin` headers of its requests.

use std::sync::Arc;

use http::{HeaderMap, StatusCode, Uri, header, request::Parts, uri::Authority};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Returns the `Host` header values that requests to this machine can have. By default, servers accept only the `Host`
/// headers that this function returns.
pub fn loopback_hosts() -> Vec<String> {
    ["localhost", "127.0.0.1", "::1"].map(Into::into).into()
}

/// Returns the `Origin` header values of web pages on this machine, with any port. By default, servers accept only the
/// `Origin` headers that this function returns.
pub fn loopback_origins() -> Vec<String> {
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")])
        .collect()
}

/// The authenticated caller of a request. An authentication middleware adds the caller to the extensions of the
/// request.
///
/// An HTTP+SSE session accepts messages only from the caller who opened the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller(pub Arc<str>);

/// A permission to keep a connection open, which ends when the caller's credentials expire. An authentication
/// middleware adds the lease to the extensions of a request, and ends the lease with its [`LeaseWatch`]. When the
/// lease of a WebSocket ends, the WebSocket closes with the code 1008. A clone of a `Lease` is a handle to the same
/// lease.
///
/// ```
/// use antiphon_transport::guard::Lease;
///
/// let (lease, watch) = Lease::new();
/// assert!(!lease.is_over());
/// watch.end();
/// assert!(lease.is_over());
/// ```
#[derive(Clone, Debug)]
pub struct Lease {
    over: CancellationToken,
    _holders: Arc<DropGuard>,
}

/// The handle with which a middleware ends a [`Lease`].
#[derive(Debug)]
pub struct LeaseWatch {
    over: CancellationToken,
    released: CancellationToken,
}

impl Lease {
    /// Creates a lease, and the handle that ends the lease.
    pub fn new() -> (Self, LeaseWatch) {
        let (over, released) = (CancellationToken::new(), CancellationToken::new());
        let holders = Arc::new(released.clone().drop_guard());
        (Self { over: over.clone(), _holders: holders }, LeaseWatch { over, released })
    }

    /// Waits until the lease has ended.
    pub async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Returns whether the lease has ended.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }
}

impl LeaseWatch {
    /// Ends the lease, so that the connection closes.
    pub fn end(&self) {
        self.over.cancel();
    }

    /// Waits until all clones of the lease are dropped. The clones are dropped when the connection has closed.
    pub async fn released(&self) {
        self.released.cancelled().await;
    }
}

/// The rejection of a request: the HTTP status and the message of the response. `axum` converts a `Refused` value into
/// a response.
pub type Refused = (StatusCode, &'static str);

/// A check of the headers `Host` and `Origin`. With this check, web pages of other origins cannot use a server on the
/// user's machine. The streamable HTTP server also checks the headers `Host` and `Origin`.
///
/// ```
/// use antiphon_transport::guard::{Guard, loopback_hosts};
///
/// let guard = Guard::new(&loopback_hosts(), &["https://app.example.com".into()]);
/// let from = |host: &str, origin: &str| {
///     let request = http::Request::get("/").header("host", host).header("origin", origin);
///     guard.admit(&request.body(()).unwrap().into_parts().0)
/// };
/// assert!(from("localhost:8000", "https://app.example.com").is_ok());
/// assert!(from("evil.example", "https://app.example.com").is_err());
/// assert!(from("localhost:8000", "http://evil.example").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Guard {
    hosts: Arc<[HostPort]>,
    origins: Arc<[Origin]>,
    /// Whether a request must have a `Host` header.
    named: bool,
    /// Whether requests from web pages of the requested host are accepted.
    own: bool,
}

/// An accepted host and port. If the port is `None`, all ports are accepted.
#[derive(Debug, PartialEq, Eq)]
struct HostPort {
    host: String,
    port: Option<u16>,
}

#[derive(Debug, PartialEq, Eq)]
enum Origin {
    /// The origin of a sandboxed page or a file.
    Null,
    From {
        scheme: String,
        place: HostPort,
    },
    /// All origins, which is written as `*` in the configuration.
    Any,
}

impl Guard {
    /// Creates a check that accepts the hosts in `hosts` and the origins in `origins`.
    ///
    /// A host is a text such as `example.com` or `example.com:8443`. If `hosts` is empty, all hosts are accepted. An
    /// origin is a text such as `https://example.com:443`. Use `:*` as the port of an origin for any port, and `*` for
    /// all origins. Requests without an `Origin` header do not come from web pages, and the check always accepts their
    /// origin.
    pub fn new(hosts: &[String], origins: &[String]) -> Self {
        Self {
            hosts: hosts.iter().map(|host| HostPort::listed(host)).collect(),
            origins: origins.iter().filter_map(|origin| Origin::listed(origin)).collect(),
            named: true,
            own: false,
        }
    }

    /// Accepts requests without a `Host` header. Some programs send requests without `Host`, but browsers always send
    /// `Host`. Default: requests without a `Host` header are rejected.
    #[must_use]
    pub fn with_host_optional(mut self) -> Self {
        self.named = false;
        self
    }

    /// Accepts requests from web pages whose origin is the requested host. Default: only requests from the given
    /// origins are accepted.
    #[must_use]
    pub fn with_own_pages(mut self) -> Self {
        self.own = true;
        self
    }

    /// Checks whether the `Host` and `Origin` of a request are accepted.
    ///
    /// # Errors
    ///
    /// Returns the HTTP status and the message of the response if the request is rejected.
    pub fn admit(&self, parts: &Parts) -> Result<(), Refused> {
        const NO_HOST: Refused = (StatusCode::BAD_REQUEST, "the request needs exactly one valid Host header");
        let host = host(&parts.headers, &parts.uri);
        match &host {
            Host::Named(place) => {
                if !self.hosts.is_empty() && !self.hosts.iter().any(|allowed| allowed.admits(place, None)) {
                    return Err((
                        StatusCode::FORBIDDEN,
                        "the host name in the Host header is not allowed; add it with `with_allowed_hosts`",
                    ));
                }
            }
            Host::None if !self.named || self.hosts.is_empty() => {}
            Host::Odd if self.hosts.is_empty() => {}
            Host::None | Host::Odd => return Err(NO_HOST),
        }
        let mut origins = parts.headers.get_all(header::ORIGIN).iter();
        let allowed = match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => {
                origin.to_str().ok().and_then(Origin::sent).is_some_and(|origin| self.knows(&origin, &host))
            }
            (Some(_), Some(_)) => false,
        };
        if allowed {
            Ok(())
        } else {
            Err((
                StatusCode::FORBIDDEN,
                "the origin in the Origin header is not allowed; add it with `with_allowed_origins`",
            ))
        }
    }

    fn knows(&self, origin: &Origin, host: &Host) -> bool {
        self.origins.iter().any(|allowed| allowed.admits(origin)) || (self.own && origin.is_of(host))
    }
}

/// The host that a request names in its `Host` header.
enum Host {
    Named(HostPort),
    None,
    /// An invalid `Host` header, or several `Host` headers. A proxy and this server could interpret a request with
    /// several hosts differently.
    Odd,
}

fn host(headers: &HeaderMap, uri: &Uri) -> Host {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            Authority::try_from(host.as_bytes()).map_or(Host::Odd, |host| Host::Named(HostPort::of(&host)))
        }
        (Some(_), Some(_)) => Host::Odd,
        (None, _) => uri.authority().map_or(Host::None, |host| Host::Named(HostPort::of(host))),
    }
}

impl HostPort {
    fn of(authority: &Authority) -> Self {
        Self { host: bare(authority.host()), port: authority.port_u16() }
    }

    /// Parses a host in the configuration. In the configuration, `::1` can be written without brackets.
    fn listed(text: &str) -> Self {
        let text = text.trim();
        Authority::try_from(text)
            .map_or_else(|_| Self { host: bare(text), port: None }, |authority| Self::of(&authority))
    }

    fn admits(&self, found: &Self, implied: Option<u16>) -> bool {
        self.host == found.host && self.port.is_none_or(|port| found.port.or(implied) == Some(port))
    }
}

fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

impl Origin {
    fn sent(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("null") {
            return Some(Self::Null);
        }
        let uri = Uri::try_from(text).ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        Some(Self::From { scheme, place: HostPort::of(uri.authority()?) })
    }

    /// Parses an origin in the configuration. In the configuration, the port can be `*`.
    fn listed(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "*" {
            return Some(Self::Any);
        }
        Self::sent(text.strip_suffix(":*").unwrap_or(text))
    }

    fn admits(&self, found: &Self) -> bool {
        match (self, found) {
            (Self::Any, _) | (Self::Null, Self::Null) => true,
            (Self::From { scheme, place }, Self::From { scheme: found_scheme, place: found }) => {
                scheme == found_scheme && place.admits(found, implied(scheme))
            }
            _ => false,
        }
    }

    /// Returns whether the origin of the web page is the requested host. The method ignores the scheme, because a
    /// proxy can terminate TLS.
    fn is_of(&self, host: &Host) -> bool {
        let (Self::From { scheme, place }, Host::Named(asked)) = (self, host) else { return false };
        let implied = implied(scheme);
        place.host == asked.host && place.port.or(implied) == asked.port.or(implied)
    }
}

/// Returns the default port of a URL scheme.
fn implied(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guard: &Guard, host: &str, origin: Option<&str>, expect: u16) {
        let mut request = http::Request::builder().uri("/").header(header::HOST, host);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let found = guard.admit(&parts).map_or_else(|(status, _)| status.as_u16(), |()| 200);
        assert_eq!(found, expect, "Host {host}, Origin {origin:?}");
    }

    #[test]
    fn by_default_only_this_machine_is_answered() {
        let guard = Guard::new(&loopback_hosts(), &loopback_origins());
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "[::1]"] {
            check(&guard, host, None, 200);
            check(&guard, host, Some("http://localhost:5173"), 200);
            check(&guard, host, Some("https://[::1]"), 200);
        }
        for host in ["example.com", "localhost.example.com", "127.0.0.1.example.com:80"] {
            check(&guard, host, None, 403);
        }
        for origin in
            ["http://example.com", "null", "", "localhost", "file://", "http://localhost.example.com"]
        {
            check(&guard, "localhost", Some(origin), 403);
        }
        check(&guard, "", None, 400);
    }

    #[test]
    fn a_list_is_taken_at_its_word() {
        let hosts = ["example.com:8443".to_owned()];
        let origins = ["https://app.example.com".to_owned(), "https://x.example:443".into(), "null".into()];
        let guard = Guard::new(&hosts, &origins);
        check(&guard, "example.com:8443", None, 200);
        check(&guard, "example.com", None, 403);
        check(&guard, "example.com:8443", Some("https://app.example.com"), 200);
        check(&guard, "example.com:8443", Some("http://app.example.com"), 403);
        check(&guard, "example.com:8443", Some("https://x.example"), 200);
        check(&guard, "example.com:8443", Some("https://x.example:444"), 403);
        check(&guard, "example.com:8443", Some("null"), 200);
        check(&Guard::new(&[], &[]), "anything", None, 200);
        check(&Guard::new(&[], &[]), "anything", Some("http://localhost"), 403);
    }

    #[test]
    fn pages_of_the_server_itself_are_answered_where_it_has_pages() {
        let hosts = ["api.example.com".to_owned(), "localhost".into()];
        let guard = Guard::new(&hosts, &[]).with_own_pages();
        check(&guard, "api.example.com", Some("https://api.example.com"), 200);
        check(&guard, "localhost:8000", Some("http://localhost:8000"), 200);
        check(&guard, "localhost:8000", Some("http://localhost:8001"), 403);
        check(&guard, "api.example.com", Some("https://evil.example"), 403);
        check(&guard, "api.example.com", Some("null"), 403);
        // The host name of a malicious web page, which resolves to this server.
        check(&guard, "evil.example", Some("https://evil.example"), 403);
        check(&Guard::new(&hosts, &[]), "api.example.com", Some("https://api.example.com"), 403);
        check(&Guard::new(&hosts, &["*".into()]), "localhost", Some("https://evil.example"), 200);
    }

    #[test]
    fn only_a_program_may_leave_the_host_out() {
        let (parts, ()) = http::Request::get("/").body(()).unwrap().into_parts();
        let guard = Guard::new(&loopback_hosts(), &[]);
        assert_eq!(guard.admit(&parts).unwrap_err().0, 400);
        let guard = guard.with_host_optional();
        assert!(guard.admit(&parts).is_ok());
        let (two, ()) = http::Request::get("/")
            .header("host", "localhost")
            .header("host", "evil.example")
            .body(())
            .unwrap()
            .into_parts();
        assert_eq!(guard.admit(&two).unwrap_err().0, 400);
    }
}
