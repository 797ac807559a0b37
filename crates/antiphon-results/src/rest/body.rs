//! The bodies of requests.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::{HeaderMap, header};

use super::error::ApiError;

/// How long a body may take to arrive: it is small.
const SLOWEST: Duration = Duration::from_secs(30);

/// Reads a body that is JSON, or none. An empty one may be called anything.
pub(super) async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    // What says that it is too large is not read at all.
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
    let broken = |_| ApiError::invalid("the body broke off");
    let mut chunks = body.into_data_stream();
    let Some(first) = chunks.next().await else { return Ok(Bytes::new()) };
    let first = first.map_err(broken)?;
    let mut all: Option<BytesMut> = None;
    let mut length = first.len();
    // Nearly always one chunk is all there is, and is not copied.
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

/// Whether the body is JSON by what its headers say; who says nothing is believed.
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
