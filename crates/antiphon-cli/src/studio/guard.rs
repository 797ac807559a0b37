//! Restricts access to the studio's server to its own web page.
//!
//! Every request must pass three checks. The `Host` must be this machine's loopback address, to prevent DNS rebinding.
//! The `Origin`, if present, must be the studio's origin, to block foreign web pages. All paths except the files of
//! the web page require the printed token.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{
            AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS,
        },
    },
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};

use super::refusal::Refusal;

/// The content security policy: the web page can load its files, use its server and show embedded images.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The headers of every response.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The checks that every request must pass.
#[derive(Clone)]
pub(super) struct Guard {
    /// The allowed values of the header `Host`: `127.0.0.1:port` and `localhost:port`.
    hosts: Arc<[String; 2]>,
    token: Arc<str>,
}

impl Guard {
    pub(super) fn new(port: u16, token: String) -> Self {
        Self {
            hosts: Arc::new([format!("127.0.0.1:{port}"), format!("localhost:{port}")]),
            token: token.into(),
        }
    }

    /// Adds the checks to all routes. Requests for `files` must pass the checks of `Host` and `Origin`. Requests for
    /// `api` must also contain the token.
    pub(super) fn around(&self, files: Router, api: Router) -> Router {
        let api = api.layer(middleware::from_fn_with_state(self.clone(), knows_token));
        let all = files.merge(api);
        all.layer(middleware::from_fn_with_state(self.clone(), comes_from_here))
            .layer(middleware::map_response(with_headers))
    }

    fn is_ours(&self, headers: &HeaderMap) -> bool {
        let named = |host: &str| self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host));
        let host = one(headers, &HOST).is_some_and(named);
        let ours = |origin: &str| origin.strip_prefix("http://").is_some_and(named);
        let origin = !headers.contains_key(ORIGIN) || one(headers, &ORIGIN).is_some_and(ours);
        host && origin
    }
}

/// Returns the value of a header, or `None` if the header occurs more than once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok())?
}

async fn comes_from_here(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    if guard.is_ours(request.headers()) {
        return next.run(request).await;
    }
    Refusal::new(StatusCode::FORBIDDEN, "the Host or Origin header is not allowed").into_response()
}

async fn knows_token(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let given = one(request.headers(), &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if given.is_some_and(|given| is_same(given, &guard.token)) {
        return next.run(request).await;
    }
    Refusal::new(StatusCode::UNAUTHORIZED, "open the address that `antiphon studio` has printed")
        .into_response()
}

/// Compares two texts of equal length in constant time, so that timing does not reveal the position of a difference.
fn is_same(given: &str, token: &str) -> bool {
    given.len() == token.len()
        && given.bytes().zip(token.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

async fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_and_origins_are_ours() {
        let guard = Guard::new(8000, "t".into());
        let check = |headers: &[(HeaderName, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            guard.is_ours(&headers.collect())
        };
        assert!(check(&[(HOST, "127.0.0.1:8000")]));
        assert!(check(&[(HOST, "localhost:8000"), (ORIGIN, "http://localhost:8000")]));
        assert!(!check(&[]));
        assert!(!check(&[(HOST, "127.0.0.1:8001")]));
        assert!(!check(&[(HOST, "studio.example.com:8000")]));
        for origin in ["null", "http://evil.example", "https://127.0.0.1:8000", "http://127.0.0.1:8001"] {
            assert!(!check(&[(HOST, "127.0.0.1:8000"), (ORIGIN, origin)]), "{origin}");
        }
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(is_same("abc", "abc"));
        for wrong in ["", "ab", "abd", "abcd"] {
            assert!(!is_same(wrong, "abc"), "{wrong}");
        }
    }
}
