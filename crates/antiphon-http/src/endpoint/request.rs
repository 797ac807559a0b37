//! Reads request bodies over streamable HTTP within limits, and translates the tasks of MCP 2025-11-25 into a form
//! that the SDK supports.
//!
//! `antiphon_transport::legacy_tasks` translates the messages. The module `request` handles the HTTP bodies that
//! contain these messages.

use std::{convert::Infallible, time::Duration};

use antiphon_transport::{
    legacy_tasks,
    streamable::{METHOD, Room, SESSION},
    weight::{FACTOR, MemoryBudget, Weight, reject},
};
use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http::{Extensions, HeaderMap, Method, StatusCode, header, request::Parts};

use super::{HttpConfig, answer::Said};

/// A request in the form that the SDK's services handle.
pub(super) struct Question {
    pub(super) request: Request,
    /// Whether [`answer`] must process the response to the request.
    pub(super) asks: bool,
    /// Whether the request begins a session.
    pub(super) begins: bool,
    /// The share of the memory budget that the request body uses.
    pub(super) room: Option<Room>,
}

/// The limits of request bodies: the length, the memory and the time of each body, and the memory of all bodies.
#[derive(Clone, Debug)]
pub(super) struct Bodies {
    max_bytes: usize,
    max_parsed: usize,
    timeout: Duration,
    budget: MemoryBudget,
}

impl Bodies {
    pub(super) fn new(config: &HttpConfig) -> Self {
        Self {
            max_bytes: config.max_body_bytes,
            max_parsed: config.max_parsed_bytes,
            timeout: config.body_timeout,
            budget: config.bodies.clone(),
        }
    }
}

/// An HTTP request. If its body contains an MCP message, the endpoint has already read the body.
#[derive(Debug)]
pub struct Received(Content);

#[derive(Debug)]
enum Content {
    Whole {
        parts: Parts,
        bytes: Bytes,
        room: Option<Room>,
    },
    /// The request contains no MCP message, or the message is too long or incomplete.
    Not(Request),
}

/// Reads a request and its body within the limits. If the request is rejected, returns the HTTP response as the error.
pub(super) async fn read(request: Request, bodies: &Bodies) -> Result<Received, Response> {
    if request.method() != Method::POST {
        return Ok(Received(Content::Not(request)));
    }
    let (parts, body) = request.into_parts();
    let announced = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse::<u64>().ok()).is_some_and(|it| it > bodies.max_bytes as u64)
    {
        // If the announced length of the body is over the limit, the server does not wait for the body.
        let why = format!("Payload Too Large: request body exceeds {} bytes", bodies.max_bytes);
        return Err((StatusCode::PAYLOAD_TOO_LARGE, [(header::CONNECTION, "close")], why).into_response());
    }
    match tokio::time::timeout(bodies.timeout, collect(body, bodies)).await {
        Ok(Collected::Whole(bytes, room)) => Ok(Received(Content::Whole { parts, bytes, room })),
        Ok(Collected::Not(body)) => Ok(Received(Content::Not(Request::from_parts(parts, body)))),
        Ok(Collected::NoRoom) => {
            let after = [(header::RETRY_AFTER, "1")];
            let why = "Service Unavailable: requests take too much memory at once; try again later, or raise `HttpConfig::with_body_memory` on the server";
            Err((StatusCode::SERVICE_UNAVAILABLE, after, why).into_response())
        }
        Ok(Collected::TooHeavy(error)) => {
            let json = [(header::CONTENT_TYPE, "application/json")];
            Err((StatusCode::PAYLOAD_TOO_LARGE, json, error).into_response())
        }
        Err(_) => {
            let close = [(header::CONNECTION, "close")];
            Err((StatusCode::REQUEST_TIMEOUT, close, "the request body took too long to arrive")
                .into_response())
        }
    }
}

impl Received {
    /// Returns the method of the HTTP request.
    pub fn method(&self) -> &Method {
        match &self.0 {
            Content::Whole { parts, .. } => &parts.method,
            Content::Not(request) => request.method(),
        }
    }

    /// Returns the headers of the HTTP request.
    pub fn headers(&self) -> &HeaderMap {
        match &self.0 {
            Content::Whole { parts, .. } => &parts.headers,
            Content::Not(request) => request.headers(),
        }
    }

    /// Returns the extensions of the HTTP request.
    pub fn extensions(&self) -> &Extensions {
        match &self.0 {
            Content::Whole { parts, .. } => &parts.extensions,
            Content::Not(request) => request.extensions(),
        }
    }

    /// Returns the HTTP request and the MCP message in its body. Returns `None` if the body contains no message, or if
    /// the endpoint cannot read the body.
    pub fn message(&self) -> Option<(&Parts, &Bytes)> {
        match &self.0 {
            Content::Whole { parts, bytes, .. } => Some((parts, bytes)),
            Content::Not(_) => None,
        }
    }

    pub(super) fn question(self, said: Said) -> Question {
        let (mut parts, bytes, room) = match self.0 {
            Content::Whole { parts, bytes, room } => (parts, bytes, room),
            Content::Not(request) => return Question { request, asks: false, begins: false, room: None },
        };
        let asks = || legacy_tasks::asks_for_capabilities(&bytes);
        if !said.is_legacy {
            // A 2026-07-28 request has its MCP method in a header. The SDK rejects the request if the method in the
            // body differs from the method in the header.
            let discovers = parts.headers.get(&METHOD).is_some_and(|it| it == "server/discover");
            let begins = said.may_have_session && has_none(&parts) && asks();
            let request = Request::from_parts(parts, Body::from(bytes));
            return Question { request, asks: discovers, begins, room };
        }
        let asks = asks();
        let begins = asks && has_none(&parts);
        let body = match legacy_tasks::server_in(&bytes) {
            Some(revised) => {
                parts.headers.insert(header::CONTENT_LENGTH, revised.len().into());
                Body::from(revised)
            }
            None => Body::from(bytes),
        };
        Question { request: Request::from_parts(parts, body), asks, begins, room }
    }
}

/// Returns whether the request has no session ID.
fn has_none(parts: &Parts) -> bool {
    !parts.headers.contains_key(&SESSION)
}

/// The result of reading a request body.
enum Collected {
    Whole(Bytes, Option<Room>),
    /// The request body is too long or incomplete. The variant contains the whole body, because the SDK needs the body
    /// to create the error response.
    Not(Body),
    /// All request bodies together use too much memory.
    NoRoom,
    /// The request body alone would use too much memory. The value is the error as JSON.
    TooHeavy(Vec<u8>),
}

async fn collect(body: Body, bodies: &Bodies) -> Collected {
    let mut chunks = body.into_data_stream();
    let mut read = Pieces::default();
    let mut weight = Weight::default();
    let Some(mut share) = bodies.budget.take(0) else { return Collected::NoRoom };
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) if chunk.len() <= bodies.max_bytes - read.len() => {
                weight.add(&chunk);
                read.push(chunk);
                // Only parsing shows how much memory a body needs. Before parsing, the body reserves no more memory
                // than the limit allows.
                let holds = weight.parsed().min(bodies.max_parsed.max(weight.bytes() * FACTOR));
                if !share.grow(holds) {
                    return Collected::NoRoom;
                }
            }
            other => {
                let begun = stream::iter([Ok(read.into_bytes()), other]);
                return Collected::Not(Body::from_stream(begun.chain(chunks)));
            }
        }
    }
    let bytes = read.into_bytes();
    if let Err(too_heavy) = weight.check(bodies.max_parsed) {
        return Collected::TooHeavy(reject(&bytes, -32600, &too_heavy.to_string()).1);
    }
    Collected::Whole(bytes, Some(Room::new(share, weight)))
}

/// The chunks of a request body. Usually a body has only one chunk, which is not copied.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    /// The bytes of all chunks, if the body has several chunks.
    all: BytesMut,
}

impl Pieces {
    fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    fn push(&mut self, piece: Bytes) {
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&piece);
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}

/// Translates the response to a request for the server's capabilities. When `answer` returns, the whole response is in
/// memory.
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
    let revised = if is_stream { events(&bytes) } else { legacy_tasks::server_out(&bytes) };
    let bytes = revised.map_or(bytes, Bytes::from);
    // axum sets the length header again when it sends the body. Events are sent as a stream without this header.
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = if is_stream {
        Body::from_stream(stream::iter([Ok::<_, Infallible>(bytes)]))
    } else {
        Body::from(bytes)
    };
    Response::from_parts(parts, body)
}

/// Translates each event of an event stream. The SDK writes the data of each event on one line.
fn events(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut changed = false;
    let mut revised = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let data = line.strip_prefix(b"data:").and_then(|data| data.strip_suffix(b"\n"));
        match data.and_then(legacy_tasks::server_out) {
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
