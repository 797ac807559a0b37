use std::{fmt, pin::Pin};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use super::guard::AddressScope;
use crate::error::BoxError;

/// A client for HTTP requests.
///
/// The default is [`HttpFetch`](super::HttpFetch).
///
/// # Contract
///
/// - A request goes only to [`FetchRequest::url`]. Redirects are answers, and are not followed.
/// - It is sent once, with its own headers only. This excludes cookies.
/// - Every address passes [`AddressScope::check`] of [`FetchRequest::reach`] before the connection. The check comes
///   after the name is resolved, and the name is not resolved again. The URL was already checked as far as this is
///   possible without resolving names.
/// - If a body is interrupted, it ends with an error.
/// - Bodies are not decompressed, and are not read ahead of their reader.
///
/// If an error has an [`AddressRefused`](super::AddressRefused) among its sources, the client reports `URL_REFUSED`,
/// otherwise `FETCH_ERROR`.
#[async_trait]
pub trait Fetch: fmt::Debug + Send + Sync + 'static {
    /// Sends a request, and returns when the headers of the answer arrive.
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, BoxError>;
}

/// An HTTP request.
#[derive(Clone)]
#[non_exhaustive]
pub struct FetchRequest {
    /// Method.
    pub method: Method,
    /// URL.
    pub url: Url,
    /// Headers.
    pub headers: HeaderMap,
    /// Body. Empty if there is none.
    pub body: Bytes,
    /// Addresses to which the request can connect.
    pub reach: AddressScope,
}

impl FetchRequest {
    /// Creates a request without headers and body.
    pub fn new(method: Method, url: Url, reach: AddressScope) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new(), reach }
    }
}

/// Omits header values and the query of the URL, because they can contain credentials.
impl fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchRequest")
            .field("method", &self.method)
            .field("origin", &self.url.origin().ascii_serialization())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("body", &self.body.len())
            .field("reach", &self.reach)
            .finish()
    }
}

/// The body of an answer, in pieces.
pub type FetchBody = Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>;

/// An answer whose body has not been read.
#[non_exhaustive]
pub struct FetchResponse {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: FetchBody,
    /// Whether the end of the body differs from a lost connection. This is false for HTTP/1.1 without a length and
    /// without chunks. Default: `true`.
    pub framed: bool,
}

impl FetchResponse {
    /// Creates an answer.
    pub fn new(status: StatusCode, headers: HeaderMap, body: FetchBody) -> Self {
        Self { status, headers, body, framed: true }
    }
}

impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchResponse").field("status", &self.status).finish_non_exhaustive()
    }
}
