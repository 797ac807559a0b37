//! Carries the tasks of 2025-11-25 past the SDK, over streamable HTTP.
//!
//! What a message becomes is said in `antiphon_transport::revise`; here are the bodies it comes in.

use std::convert::Infallible;

use antiphon_transport::revise;
use axum::{body::Body, extract::Request, response::Response};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http::{Method, StatusCode, header};

/// The request as the SDK is to read it, and whether [`answer`] must see what it answers.
pub(super) async fn question(request: Request, is_legacy: bool, max_bytes: usize) -> (Request, bool) {
    if request.method() != Method::POST {
        return (request, false);
    }
    if !is_legacy {
        // A request of 2026-07-28 says in a header what it is.
        let discovers = request.headers().get("mcp-method").is_some_and(|it| it == "server/discover");
        return (request, discovers);
    }
    let (mut parts, body) = request.into_parts();
    let bytes = match collect(body, max_bytes).await {
        Ok(bytes) => bytes,
        Err(body) => return (Request::from_parts(parts, body), false),
    };
    let asks = revise::asks_for_capabilities(&bytes);
    let body = match revise::server_in(&bytes) {
        Some(revised) => {
            parts.headers.insert(header::CONTENT_LENGTH, revised.len().into());
            Body::from(revised)
        }
        None => Body::from(bytes),
    };
    (Request::from_parts(parts, body), asks)
}

/// All of a body; or, if it is too long or breaks off, the same body again. The SDK has words for those.
async fn collect(body: Body, max_bytes: usize) -> Result<Bytes, Body> {
    let mut chunks = body.into_data_stream();
    let mut bytes = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) if chunk.len() <= max_bytes - bytes.len() => bytes.extend_from_slice(&chunk),
            other => {
                let read = stream::iter([Ok(bytes.freeze()), other]);
                return Err(Body::from_stream(read.chain(chunks)));
            }
        }
    }
    Ok(bytes.freeze())
}

/// The response to a question about capabilities, as the client is to read it. It ends by itself, so it
/// need not stay a stream.
pub(super) async fn answer(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return Response::builder()
            .status(StatusCode::INTERNAL_SERVER_ERROR)
            .body(Body::empty())
            .unwrap_or_default();
    };
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let revised = if is_stream { events(&bytes) } else { revise::server_out(&bytes) };
    let bytes = revised.map_or(bytes, Bytes::from);
    // The length is known to whoever sends the body; a stream of events is sent as one.
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = if is_stream {
        Body::from_stream(stream::iter([Ok::<_, Infallible>(bytes)]))
    } else {
        Body::from(bytes)
    };
    Response::from_parts(parts, body)
}

/// Revises each event. The SDK writes the data of one on one line.
fn events(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut changed = false;
    let mut revised = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let data = line.strip_prefix(b"data:").and_then(|data| data.strip_suffix(b"\n"));
        match data.and_then(revise::server_out) {
            Some(data) => {
                changed = true;
                revised.extend_from_slice(b"data: ");
                revised.extend_from_slice(&data);
                revised.push(b'\n');
            }
            None => revised.extend_from_slice(line),
        }
    }
    changed.then_some(revised)
}
