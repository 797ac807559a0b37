//! The SDK's endpoint, twice: for what ends with the server, and for what is let finish.

use std::sync::Arc;

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::{Method, Request};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::SessionManager,
};
use tokio_util::sync::CancellationToken;

use super::headers::SESSION;
use crate::wire::Served;

/// Answers requests.
///
/// The SDK has one token, and when it is cancelled a request in hand is answered with an error. Streams that clients can
/// resume elsewhere must end with the server; every other request is let finish, for as long as whoever serves waits.
pub(super) struct Doors<M> {
    /// Whether another replica goes on with a session.
    shared: bool,
    streams: StreamableHttpService<Served, M>,
    calls: StreamableHttpService<Served, M>,
}

impl<M: SessionManager> Doors<M> {
    pub(super) fn new(
        handler: impl Fn() -> std::io::Result<Served> + Send + Sync + Clone + 'static,
        sessions: &Arc<M>,
        settings: StreamableHttpServerConfig,
        shared: bool,
    ) -> Self {
        let calls = settings.clone().with_cancellation_token(CancellationToken::new());
        Self {
            shared,
            streams: StreamableHttpService::new(handler.clone(), Arc::clone(sessions), settings),
            calls: StreamableHttpService::new(handler, Arc::clone(sessions), calls),
        }
    }

    pub(super) async fn handle(&self, request: Request<Body>) -> Response {
        let can_resume = self.shared && request.headers().contains_key(&SESSION);
        let is_call = request.method() == Method::POST && !can_resume;
        let door = if is_call { &self.calls } else { &self.streams };
        door.handle(request).await.into_response()
    }
}
