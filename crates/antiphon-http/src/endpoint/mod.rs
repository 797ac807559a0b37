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

/// The server that an endpoint belongs to: what the endpoint must know of it beyond the SDK's handler.
pub trait Application: Send + Sync + 'static {
    /// The phases in which the server ends.
    fn drain(&self) -> &Drain;

    /// Begins background work, unless it has begun. Called with every request. Default: nothing.
    fn begin(&self) {}

    /// Whether [`principal`](Self::principal) can name callers. If so, a session belongs to the caller who began it.
    /// Default: no.
    fn has_principals(&self) -> bool {
        false
    }

    /// Names the caller of a request. Default: `None`.
    fn principal(&self, parts: &Parts) -> Option<String> {
        let _ = parts;
        None
    }

    /// Checks whether the caller can send a request, and returns the response if not. `None` means that nothing is to be
    /// checked. `is_legacy` says whether the request is of 2025-11-25 or before. Default: `None`.
    fn challenge(&self, request: &Received, is_legacy: bool) -> Option<BoxFuture<'static, Option<Response>>> {
        let _ = (request, is_legacy);
        None
    }

    /// The lists of the server that can change: `tools`, `prompts`, `resources`. A client whose replica ended is told that
    /// they may have changed. Default: none.
    fn lists(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Waits until the server is told of changes at other replicas. Default: returns at once.
    fn hear_changes(&self) -> BoxFuture<'_, antiphon_store::Result<()>> {
        Box::pin(ready(Ok(())))
    }
}

/// Makes the route of an MCP endpoint.
///
/// `service` makes a handler for each session, and for each request outside of one. With `sessions`, replicas share the
/// sessions of 2025-11-25; without, each session is kept by the process where it began.
///
/// A server of `antiphon` has it already: `Server::router`. This is for a handler of the SDK's own:
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
    // Routes are cloned for every request, so there is one handle in each.
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

/// Who sent a message: the caller of the HTTP request that it came with.
fn principal_of(app: &dyn Application, extensions: &Extensions) -> Option<String> {
    app.principal(extensions.get::<Parts>()?)
}
