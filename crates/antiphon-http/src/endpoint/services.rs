//! Two instances of the SDK's endpoint: one for streams that end when the server drains, and one for requests
//! that it completes.

use std::sync::Arc;

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::Request;
use rmcp::{
    ServerHandler,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::SessionManager,
    },
};

use antiphon_transport::drain::Drain;

/// The SDK's services for requests.
///
/// The SDK has a single cancellation token. When it is cancelled, the SDK answers requests in flight with an
/// error. Streams without a request in flight must end when the server drains. Other requests can finish
/// until the server stops.
pub(super) struct Services<S, M> {
    streams: StreamableHttpService<S, M>,
    calls: StreamableHttpService<S, M>,
}

impl<S: ServerHandler, M: SessionManager> Services<S, M> {
    pub(super) fn new(
        handler: impl Fn() -> std::io::Result<S> + Send + Sync + Clone + 'static,
        sessions: &Arc<M>,
        settings: StreamableHttpServerConfig,
        drain: &Drain,
    ) -> Self {
        let streams = settings.clone().with_cancellation_token(drain.draining.child_token());
        let calls = settings.with_cancellation_token(drain.stopped.child_token());
        Self {
            streams: StreamableHttpService::new(handler.clone(), Arc::clone(sessions), streams),
            calls: StreamableHttpService::new(handler, Arc::clone(sessions), calls),
        }
    }

    /// Handles a request that is in flight until it is answered.
    pub(super) async fn call(&self, request: Request<Body>) -> Response {
        self.calls.handle(request).await.into_response()
    }

    /// Handles a request for a stream on which the client only listens.
    pub(super) async fn listen(&self, request: Request<Body>) -> Response {
        self.streams.handle(request).await.into_response()
    }
}
