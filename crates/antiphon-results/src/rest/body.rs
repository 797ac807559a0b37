//! Reads request bodies.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::{HeaderMap, header};

use super::error::ApiError;

/// Timeout for receiving a request body. The timeout is short, because request bodies are small.
const SLOWEST: Duration = Duration::from_secs(30);

/// Reads a body that is JSON or empty. An empty body can have any media type.
pub(super) async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    // A body with a declared size above the limit is not read.
    if body.size_hint().lower() > limit as u64 {
        return Err(ApiError::body_too_large(limit));
    }
    let bytes = if body.is_end_stream() {
        Bytes::new()
    } else {
        let all = tokio::time::timeout(SLOWEST, collect(body, limit)).await;
        all.map_err(|_| ApiError::body_too_slow())??
    };
    if !bytes.is_empty() && !is_json(headers) {
        return Err(ApiError::media_type());
    }
    Ok(bytes)
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let broken = |_| ApiError::invalid("the request body could not be read to its end");
    let mut chunks = body.into_data_stream();
    let Some(first) = chunks.next().await else { return Ok(Bytes::new()) };
    let first = first.map_err(broken)?;
    let mut all: Option<BytesMut> = None;
    let mut length = first.len();
    // Most bodies are a single chunk, which is not copied.
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(broken)?;
        length += chunk.len();
        if length > limit {
            break;
        }
        all.get_or_insert_with(|| BytesMut::from(&first[..])).extend_from_slice(&chunk);
    }
    if length > limit {
        return Err(ApiError::body_too_large(limit));
    }
    Ok(all.map_or(first, BytesMut::freeze))
}

/// Returns whether the headers declare the body as JSON. A body without `Content-Type` counts as JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let plain = |encoding: &http::HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(header::CONTENT_ENCODING).iter().all(plain) {
        return false;
    }
    headers.get_all(header::CONTENT_TYPE).iter().all(|value| {
        let Ok(value) = value.to_str() else { return false };
        let mut parts = value.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let json = essence.eq_ignore_ascii_case("application/json")
            || essence.split_once('/').is_some_and(|(kind, subtype)| {
                !kind.is_empty() && subtype.len() > 5 && subtype.to_ascii_lowercase().ends_with("+json")
            });
        json && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
                let value = value.trim().trim_matches('"');
                value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
            }
            _ => true,
        })
    })
}
