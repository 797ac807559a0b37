//! What is true of every answer.

use std::{panic::AssertUnwindSafe, time::Duration};

use antiphon_transport::guard::{Guard, loopback_hosts};
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tower_http::{
    CompressionLevel,
    compression::{
        CompressionLayer, Predicate,
        predicate::{NotForContentType, SizeAbove},
    },
    cors::{AllowOrigin, CorsLayer},
};
use url::Url;

use super::{
    error::ApiError,
    export::{TRUNCATED, no_body},
    stream::CONSISTENCY,
};
use crate::{DualResponseServerOptions, ErrorCode, snapshot::ExportFormat};

/// Bodies below this are sent as they are, in bytes.
const COMPRESSED_FROM: u16 = 1024;

/// How long a browser may remember what CORS allows.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// Who is answered: whoever asks by a name of ours, and is no page but ours or one that was named.
pub(super) fn door(base: &Url, options: &DualResponseServerOptions) -> Guard {
    let own = || base.host_str().map(ToOwned::to_owned).into_iter().chain(loopback_hosts()).collect();
    let hosts: Vec<String> = options.allowed_hosts.clone().unwrap_or_else(own);
    Guard::new(&hosts, &options.allowed_origins).with_own_pages().with_host_optional()
}

/// Turns away whom the door does not know, before anything is read.
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

/// Sets the headers every answer has, and answers for a handler that panics: a source is code of others.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answered.unwrap_or_else(|_| {
        tracing::error!("a request failed: the handler panicked");
        ApiError::internal().into_response()
    });
    if response.status() == StatusCode::NOT_MODIFIED {
        // The length of nothing would be taken for the length of what the caller has.
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = no_body();
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A signed link is in the address; the address must not be told to the next site.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    weaken(headers);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// What was compressed on its way is not, byte for byte, what its validator stands for.
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

/// Compresses what is worth it, quickly rather than well. A part of something is sent as it is, and so is what is
/// compressed in itself.
pub(super) fn compression() -> CompressionLayer<impl Predicate> {
    let worth = SizeAbove::new(COMPRESSED_FROM)
        .and(NotForContentType::const_new(ExportFormat::Parquet.media_type()))
        .and(NotForContentType::const_new(ExportFormat::Xlsx.media_type()));
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worth)
}

/// Lets pages of these origins call; `*` is any. What is no origin is left out, with a word in the log.
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
                tracing::warn!(?origin, "an allowed origin is none, and is left out");
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
