//! Closes long-lived connections when their credentials expire.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use antiphon_transport::{
    guard::{Lease, LeaseWatch},
    streamable::METHOD,
};
use axum::{body::Body, extract::ConnectInfo, response::Response};
use futures_util::StreamExt as _;
use http::{Method, Request, header, request::Parts};
use tokio::time::Instant;

use super::{Auth, Identity, Refusal};

/// The kind of connection that a request opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    /// The request opens neither an event stream nor a WebSocket.
    Nothing,
    /// The request opens an event stream, which stays open until the client closes the stream.
    Stream,
    /// The request opens a WebSocket.
    Socket,
}

impl Opens {
    pub(super) fn of(parts: &Parts) -> Self {
        if parts.headers.contains_key(header::UPGRADE) {
            return Self::Socket;
        }
        let listens = parts.headers.get(&METHOD).is_some_and(|method| method == "subscriptions/listen");
        if parts.method == Method::GET || listens { Self::Stream } else { Self::Nothing }
    }
}

/// The credentials of a request. The server uses these credentials to authenticate the caller again while a connection
/// is open.
pub(super) struct Credentials {
    auth: Auth,
    parts: Parts,
    scopes: Arc<[String]>,
}

impl Credentials {
    /// Copies the credentials of a request. Call `Credentials::of` before the credentials are removed from the
    /// request.
    pub(super) fn of(auth: Auth, parts: &Parts, scopes: Arc<[String]>) -> Self {
        let (mut kept, ()) = Request::new(()).into_parts();
        kept.headers.clone_from(&parts.headers);
        if let Some(peer) = parts.extensions.get::<ConnectInfo<std::net::SocketAddr>>() {
            kept.extensions.insert(*peer);
        }
        Self { auth, parts: kept, scopes }
    }

    /// Creates a lease that ends when the caller's credentials become invalid.
    pub(super) fn lease(self, identity: Identity) -> Lease {
        let (lease, watch) = Lease::new();
        tokio::spawn(self.watch(identity, watch));
        lease
    }

    /// Ends the event stream of a response when the caller's credentials become invalid.
    pub(super) fn limit(self, response: Response, identity: Identity) -> Response {
        let kind = response.headers().get(header::CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            return response;
        }
        let lease = self.lease(identity);
        response.map(|body| {
            let ended = async move { lease.ended().await };
            Body::from_stream(body.into_data_stream().take_until(Box::pin(ended)))
        })
    }

    /// Checks the credentials repeatedly, and ends the lease when the credentials are no longer valid.
    async fn watch(self, mut identity: Identity, watch: LeaseWatch) {
        let limit = self.auth.inner.max_connection.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let pause = identity.ends().map_or(Duration::MAX, left).min(self.auth.inner.recheck);
            let next = Instant::now() + pause;
            tokio::select! {
                () = watch.released() => return,
                () = tokio::time::sleep_until(limit.map_or(next, |limit| limit.min(next))) => {}
            }
            if limit.is_some_and(|limit| limit <= Instant::now()) {
                tracing::debug!(
                    "a connection is closed: it reached the limit of `AuthBuilder::with_max_connection`"
                );
                return watch.end();
            }
            match self.auth.admit(&self.parts, &self.scopes).await {
                Ok(again) if again.is_same(&identity) && !again.is_over() => identity = again,
                // If the credentials cannot be checked now, the result of the last check stays valid until the
                // credentials expire.
                Err(Refusal::Unavailable) if !identity.is_over() => {}
                _ => {
                    tracing::debug!("a connection is closed: its credentials are no longer valid");
                    return watch.end();
                }
            }
        }
    }
}

/// Returns the duration until `ends`, plus 1 millisecond. When this duration has passed, credentials that expire at
/// `ends` have expired.
fn left(ends: SystemTime) -> Duration {
    ends.duration_since(SystemTime::now()).unwrap_or_default() + Duration::from_millis(1)
}
