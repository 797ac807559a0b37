//! Whom a server answers, decided before anything else happens.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, Uri, header, request::Parts, uri::Authority};

/// The `Host` headers that are answered unless others are named.
pub(crate) fn loopback_hosts() -> Vec<String> {
    ["localhost", "127.0.0.1", "::1"].map(Into::into).into()
}

/// The `Origin` headers that are answered unless others are named.
pub(crate) fn loopback_origins() -> Vec<String> {
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")])
        .collect()
}

/// Checks `Host` and `Origin` as the streamable HTTP server does, so that no web page can reach a
/// server on the same machine.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    hosts: Arc<[Place]>,
    origins: Arc<[Origin]>,
}

/// A host and, unless any will do, a port.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    host: String,
    port: Option<u16>,
}

#[derive(Debug, PartialEq, Eq)]
enum Origin {
    /// What a browser sends for a sandboxed page or a file.
    Null,
    From {
        scheme: String,
        place: Place,
    },
}

impl Guard {
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Self {
        Self {
            hosts: hosts.iter().map(|host| Place::listed(host)).collect(),
            origins: origins.iter().filter_map(|origin| Origin::listed(origin)).collect(),
        }
    }

    /// Passes a request, or says what to answer it with.
    #[expect(clippy::result_large_err, reason = "the error is the answer")]
    pub(crate) fn admit(&self, parts: &Parts) -> Result<(), Response> {
        let refuse = |status: StatusCode, why: &'static str| Err((status, why).into_response());
        if !self.hosts.is_empty() {
            let Some(place) = host(&parts.headers, &parts.uri) else {
                return refuse(StatusCode::BAD_REQUEST, "one Host header is needed");
            };
            if !self.hosts.iter().any(|allowed| allowed.admits(&place, None)) {
                return refuse(StatusCode::FORBIDDEN, "this Host is not allowed");
            }
        }
        let mut origins = parts.headers.get_all(header::ORIGIN).iter();
        let allowed = match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => origin
                .to_str()
                .ok()
                .and_then(Origin::sent)
                .is_some_and(|origin| self.origins.iter().any(|allowed| allowed.admits(&origin))),
            (Some(_), Some(_)) => false,
        };
        if allowed { Ok(()) } else { refuse(StatusCode::FORBIDDEN, "this Origin is not allowed") }
    }
}

fn host(headers: &HeaderMap, uri: &Uri) -> Option<Place> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Authority::try_from(host.as_bytes()).ok().map(|host| Place::of(&host)),
        // Of two, a proxy and we might believe different ones.
        (Some(_), Some(_)) => None,
        (None, _) => uri.authority().map(Place::of),
    }
}

impl Place {
    fn of(authority: &Authority) -> Self {
        Self { host: bare(authority.host()), port: authority.port_u16() }
    }

    /// From a list in a configuration, where `::1` may stand without brackets.
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
        Some(Self::From { scheme, place: Place::of(uri.authority()?) })
    }

    /// From a list in a configuration, where the port may be `*`.
    fn listed(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::sent(text.strip_suffix(":*").unwrap_or(text))
    }

    fn admits(&self, found: &Self) -> bool {
        match (self, found) {
            (Self::Null, Self::Null) => true,
            (Self::From { scheme, place }, Self::From { scheme: found_scheme, place: found }) => {
                let implied = match scheme.as_str() {
                    "http" => Some(80),
                    "https" => Some(443),
                    _ => None,
                };
                scheme == found_scheme && place.admits(found, implied)
            }
            _ => false,
        }
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
        let found = guard.admit(&parts).map_or_else(|response| response.status().as_u16(), |()| 200);
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
}
