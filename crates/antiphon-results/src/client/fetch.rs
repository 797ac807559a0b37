use std::{fmt, pin::Pin};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use super::guard::AddressScope;
use crate::error::BoxError;

/// Sends HTTP requests.
///
/// [`HttpFetch`](super::HttpFetch) is the one that is used if nobody gives another.
///
/// # Contract
///
/// - A request goes to [`FetchRequest::url`] and nowhere else: redirects are answers, not followed.
/// - It is sent once, with the headers it has and none of anybody else's, cookies among them.
/// - Every address that is connected to passes [`AddressScope::check`] of [`FetchRequest::reach`], after it was
///   resolved and without resolving again. The URL was checked as far as it can be without resolving.
/// - A body that breaks off ends with an error.
/// - Bodies are passed on as they come, not decompressed, and not read ahead of whoever reads them.
///
/// An error that has an [`AddressRefused`](super::AddressRefused) among its sources is reported as
/// `URL_REFUSED`, any other as `FETCH_ERROR`.
#[async_trait]
pub trait Fetch: fmt::Debug + Send + Sync + 'static {
    /// Sends a request and returns when the head of its answer is there.
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, BoxError>;
}

/// A request.
#[derive(Clone)]
#[non_exhaustive]
pub struct FetchRequest {
    /// Its method.
    pub method: Method,
    /// Where it goes.
    pub url: Url,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; empty if it has none.
    pub body: Bytes,
    /// Which addresses it may go to.
    pub reach: AddressScope,
}

impl FetchRequest {
    /// A request without headers and body.
    pub fn new(method: Method, url: Url, reach: AddressScope) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new(), reach }
    }
}

/// Says where the request goes, not what it carries: headers and queries hold credentials.
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

/// The body of an answer, in the pieces it comes in.
pub type FetchBody = Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>;

/// An answer, whose body is still to come.
#[non_exhaustive]
pub struct FetchResponse {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: FetchBody,
    /// Whether the end of the body can be told from a connection that was lost. HTTP/1.1 with neither a
    /// length nor chunks is the case where it cannot. Default: it can.
    pub framed: bool,
}

impl FetchResponse {
    /// An answer.
    pub fn new(status: StatusCode, headers: HeaderMap, body: FetchBody) -> Self {
        Self { status, headers, body, framed: true }
    }
}

impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchResponse").field("status", &self.status).finish_non_exhaustive()
    }
}
