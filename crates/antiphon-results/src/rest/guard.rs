//! Checks all requests, and sets the headers of all responses.

use std::{panic::AssertUnwindSafe, time::Duration};

use antiphon_transport::guard::{Guard, loopback_hosts};
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures_util::FutureExt as _;
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use tower_http::{
    CompressionLevel,
    compression::{CompressionLayer, Predicate, predicate::SizeAbove},
    cors::{AllowOrigin, CorsLayer},
};
use url::Url;

use super::{
    error::ApiError,
    export::{TRUNCATED, no_body},
    stream::CONSISTENCY,
};
use crate::{DualResponseServerOptions, ErrorCode, snapshot::ExportFormat};

/// Minimum size in bytes of a response body that is compressed.
const COMPRESSED_FROM: u16 = 1024;

/// Time for which a browser can cache the CORS permissions of a route.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// Returns the guard that checks each request to the routes. If a request has a `Host` header, the host in the header
/// must be allowed. Each request must come from a program, from the server's own web pages, or from an allowed origin.
pub(super) fn door(base: &Url, options: &DualResponseServerOptions) -> Guard {
    let own = || base.host_str().map(ToOwned::to_owned).into_iter().chain(loopback_hosts()).collect();
    let hosts: Vec<String> = options.allowed_hosts.clone().unwrap_or_else(own);
    Guard::new(&hosts, &options.allowed_origins).with_own_pages().with_host_optional()
}

/// Rejects requests that the guard does not accept, before the request body is read.
pub(super) async fn admit(State(door): State<Guard>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match door.admit(&parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err((StatusCode::FORBIDDEN, why)) => {
            ApiError::new(StatusCode::FORBIDDEN, "forbidden", ErrorCode::Forbidden, why).into_response()
        }
        Err((_, why)) => ApiError::invalid(why).into_response(),
    }
}

/// Sets the headers of every response, and returns an error response if a handler panics. Handlers can panic, because
/// handlers call sources, which are external code.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answered.unwrap_or_else(|_| {
        tracing::error!("a request for a result set failed: the handler panicked");
        ApiError::internal().into_response()
    });
    if response.status() == StatusCode::NOT_MODIFIED {
        // A client could interpret a length of 0 as the length of its cached copy.
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = no_body();
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The URL can contain a signed link, and must not be sent to other sites.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    weaken(headers);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Makes the validator of a response weak if the body was compressed, because compression changes the bytes.
fn weaken(headers: &mut HeaderMap) {
    if !headers.contains_key(header::CONTENT_ENCODING) {
        return;
    }
    let weak = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let weak = weak.filter(|tag| !tag.starts_with("W/")).map(|tag| HeaderValue::try_from(format!("W/{tag}")));
    if let Some(Ok(weak)) = weak {
        headers.insert(header::ETAG, weak);
    }
}

/// Compresses responses. The compression is fast, even if this makes the compressed body larger. Partial responses and
/// formats that are already compressed stay unchanged.
pub(super) fn compression() -> CompressionLayer<impl Predicate> {
    let worth = SizeAbove::new(COMPRESSED_FROM).and(is_uncompressed);
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worth)
}

/// Returns `true` if the format of the body is not already compressed.
fn is_uncompressed(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut compressed = ExportFormat::ALL.into_iter().filter(|format| format.is_compressed());
    !compressed.any(|format| kind.starts_with(format.media_type()))
}

/// Allows requests from web pages of these origins (CORS). The origin `*` allows all web pages. An invalid origin is
/// ignored, and a warning is logged.
pub(super) fn cors(origins: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let origin = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().filter_map(|origin| {
            let value = HeaderValue::from_str(origin).ok();
            if value.is_none() {
                tracing::warn!(?origin, "a CORS origin is not a valid header value and is ignored");
            }
            value
        }))
    };
    let cors = CorsLayer::new()
        .allow_origin(origin)
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers([
            header::ACCEPT,
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::IF_NONE_MATCH,
            header::IF_RANGE,
            header::RANGE,
        ])
        .expose_headers([
            header::ETAG,
            header::LINK,
            CONSISTENCY,
            TRUNCATED,
            header::ACCEPT_RANGES,
            header::CONTENT_LENGTH,
            header::CONTENT_RANGE,
            header::LOCATION,
            header::CONTENT_DISPOSITION,
            header::RETRY_AFTER,
        ])
        .max_age(REMEMBERED);
    Some(cors)
}
