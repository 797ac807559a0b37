use std::{fmt, pin::Pin};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use super::guard::AddressScope;
use crate::error::BoxError;

/// An HTTP client that a [`DualResponseClient`](super::DualResponseClient) uses for its requests.
///
/// The default is [`HttpFetch`](super::HttpFetch).
///
/// # Contract
///
/// - The client sends a request only to [`FetchRequest::url`]. The client returns a redirect as a response, and does
///   not follow the redirect.
/// - The client sends a request once, and only with the headers of the request. The client does not add cookies.
/// - The client resolves the host name once, and checks each address with [`AddressScope::check`] of
///   [`FetchRequest::reach`] before it connects. The caller has already checked the URL as far as possible without
///   resolving names.
/// - If the body of a response is interrupted, the stream ends with an error.
/// - The client does not decompress bodies, and does not read more of a body than the caller consumes.
///
/// If an error has an [`AddressRefused`](super::AddressRefused) among its sources, the `DualResponseClient` returns the
/// error code `URL_REFUSED`. For all other errors, the `DualResponseClient` returns `FETCH_ERROR`.
#[async_trait]
pub trait Fetch: fmt::Debug + Send + Sync + 'static {
    /// Sends a request, and returns when the headers of the response arrive.
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, BoxError>;
}

/// An HTTP request.
#[derive(Clone)]
#[non_exhaustive]
pub struct FetchRequest {
    /// HTTP method of the request.
    pub method: Method,
    /// URL of the request.
    pub url: Url,
    /// Headers of the request.
    pub headers: HeaderMap,
    /// Body of the request. For a request without a body, the value is empty.
    pub body: Bytes,
    /// IP addresses to which the client is allowed to connect.
    pub reach: AddressScope,
}

impl FetchRequest {
    /// Creates a request without headers and body.
    pub fn new(method: Method, url: Url, reach: AddressScope) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new(), reach }
    }
}

/// The debug output omits header values and the query string of the URL, because they can contain credentials.
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

/// The body of a response, as a stream of chunks.
pub type FetchBody = Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>;

/// An HTTP response whose body has not been read yet.
#[non_exhaustive]
pub struct FetchResponse {
    /// HTTP status code of the response.
    pub status: StatusCode,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// Body of the response, as a stream.
    pub body: FetchBody,
    /// Whether the HTTP protocol shows that the body is complete. For an HTTP/1.1 response without a length and without
    /// chunks, the value is `false`. For this kind of response, a lost connection looks like the end of the body.
    /// Default: `true`.
    pub framed: bool,
}

impl FetchResponse {
    /// Creates a response with this status, these headers and this body.
    pub fn new(status: StatusCode, headers: HeaderMap, body: FetchBody) -> Self {
        Self { status, headers, body, framed: true }
    }
}

impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchResponse").field("status", &self.status).finish_non_exhaustive()
    }
}
