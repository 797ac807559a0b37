//! MCP over streamable HTTP: one endpoint for every protocol revision.

mod answer;
mod config;
mod local;
mod request;
mod services;
mod shared;

use std::{future::ready, sync::Arc};

use antiphon_transport::drain::Drain;
use axum::{
    extract::Request,
    response::Response,
    routing::{MethodRouter, any},
};
use futures_util::future::BoxFuture;
use http::request::Parts;
use rmcp::{ServerHandler, model::Extensions};

use self::{answer::Endpoint, shared::Sessions};
pub use self::{config::HttpConfig, request::Received, shared::SharedSessions};

/// The server that an MCP endpoint belongs to. The server provides the endpoint with information that the SDK's handler
/// does not have.
pub trait Application: Send + Sync + 'static {
    /// Returns the shutdown state of the server.
    fn drain(&self) -> &Drain;

    /// Starts the background work of the server, unless it has already started. The endpoint calls this method with
    /// every request. Default: does nothing.
    fn begin(&self) {}

    /// Returns whether [`principal`](Self::principal) can identify callers. If callers can be identified, only the
    /// caller that opened a session can use it. Default: `false`.
    fn has_principals(&self) -> bool {
        false
    }

    /// Returns the principal (the caller's name) of a request. Default: `None`.
    fn principal(&self, parts: &Parts) -> Option<String> {
        let _ = parts;
        None
    }

    /// Checks whether the caller is allowed to send a request. The future returns the HTTP response if the caller is
    /// not allowed. Returns `None` if no check is necessary. `is_legacy` is true for requests of MCP 2025-11-25 or
    /// earlier. Default: `None`.
    fn challenge(&self, request: &Received, is_legacy: bool) -> Option<BoxFuture<'static, Option<Response>>> {
        let _ = (request, is_legacy);
        None
    }

    /// Returns the names of the lists that can change: `tools`, `prompts`, `resources`. If a replica stops, its clients
    /// are notified that these lists may have changed. Default: none.
    fn lists(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Waits until the server is connected to the change notifications of other replicas. Default: returns immediately.
    fn hear_changes(&self) -> BoxFuture<'_, antiphon_store::Result<()>> {
        Box::pin(ready(Ok(())))
    }
}

/// Creates an axum route that serves MCP over streamable HTTP.
///
/// `service` creates a handler for each session, and for each request outside of a session. With `sessions`, replicas
/// share the MCP 2025-11-25 sessions. Without `sessions`, all requests of a session must arrive at the process that
/// opened the session.
///
/// For a server of the crate `antiphon`, use `Server::router`, which contains this route. Use this function for your
/// own handler of the SDK:
///
/// ```
/// use std::sync::Arc;
///
/// use antiphon_http::{Application, HttpConfig, endpoint};
/// use antiphon_transport::drain::Drain;
/// use rmcp::ServerHandler;
/// use tokio_util::sync::CancellationToken;
///
/// struct App(Drain);
///
/// impl Application for App {
///     fn drain(&self) -> &Drain {
///         &self.0
///     }
/// }
///
/// struct Tools;
///
/// impl ServerHandler for Tools {}
///
/// let app = Arc::new(App(Drain::new(CancellationToken::new())));
/// let config = HttpConfig::default();
/// let router: axum::Router = axum::Router::new().route(config.path(), endpoint(app, || Tools, None, &config));
/// # let _ = router;
/// ```
pub fn endpoint<S: ServerHandler>(
    app: Arc<dyn Application>,
    service: impl Fn() -> S + Clone + Send + Sync + 'static,
    sessions: Option<&SharedSessions>,
    config: &HttpConfig,
) -> MethodRouter {
    // Axum clones routes for every request, so each route has only one handle.
    match sessions {
        Some(shared) if config.sessions => {
            let sessions = Sessions::new(Arc::clone(&app), shared.replicas(), config);
            let endpoint = Arc::new(Endpoint::replicated(app, service, config, sessions));
            any(move |request: Request| {
                let endpoint = Arc::clone(&endpoint);
                async move { endpoint.serve(request).await }
            })
        }
        _ => {
            let endpoint = Arc::new(Endpoint::alone(app, service, config));
            any(move |request: Request| {
                let endpoint = Arc::clone(&endpoint);
                async move { endpoint.serve(request).await }
            })
        }
    }
}

/// Returns the principal of the HTTP request that a message came with.
fn principal_of(app: &dyn Application, extensions: &Extensions) -> Option<String> {
    app.principal(extensions.get::<Parts>()?)
}
