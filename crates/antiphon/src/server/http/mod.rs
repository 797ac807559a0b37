//! Streamable HTTP: one endpoint for every protocol revision.

mod ask_loopback;
mod ask_page;
#[cfg(feature = "auth")]
pub mod auth;
mod health;
mod operators;

use std::{any::Any, future::Future, sync::Arc, time::Duration};

use antiphon_http::{Application, SharedSessions, endpoint};
#[doc(inline)]
pub use antiphon_http::{HttpConfig, ServeConfig, serve, shutdown_signal};
use antiphon_store::Backend;
use antiphon_transport::drain::Drain;
#[doc(inline)]
pub use antiphon_transport::weight::MemoryBudget;
use axum::Router;
use futures_util::future::BoxFuture;
use http::request::Parts;
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio_util::sync::CancellationToken;

pub(super) use self::{ask_loopback::begin as begin_loopback, auth::sign_in_problem};
pub use self::{health::Health, operators::OperatorConfig};
use super::{ServeError, Server, Shared, replicas::Sessions};
use crate::{mcp::Served, run::Pending};

/// The replacement for the authentication module if the feature `auth` is off. The server then does not authenticate
/// callers.
#[cfg(not(feature = "auth"))]
mod auth {
    use std::sync::Arc;

    use antiphon_http::Received;
    use axum::{Router, response::Response, routing::MethodRouter};
    use futures_util::future::BoxFuture;

    use super::{Shared, ask_page::Pages};
    use crate::{asking::AskPolicy, mcp::Authorize};

    pub(super) fn sign_in_routes() -> Router<Arc<Pages>> {
        Router::new()
    }

    pub(in crate::server) fn sign_in_problem(
        _: &AskPolicy,
        _: Option<&Arc<dyn Authorize>>,
        _: bool,
    ) -> Option<String> {
        None
    }

    pub(super) fn protect(
        _: &Shared,
        _: &str,
        endpoint: MethodRouter,
        others: Router,
    ) -> (MethodRouter, Router) {
        (endpoint, others)
    }

    pub(super) fn challenge(
        _: &Shared,
        _: &Received,
        _: bool,
    ) -> Option<BoxFuture<'static, Option<Response>>> {
        None
    }
}

impl Application for Shared {
    fn drain(&self) -> &Drain {
        &self.drain
    }

    fn begin(&self) {
        Self::begin(self);
    }

    fn has_principals(&self) -> bool {
        self.service.principal.is_some()
    }

    fn principal(&self, parts: &Parts) -> Option<String> {
        self.service.principal_of(parts)
    }

    fn challenge(
        &self,
        request: &antiphon_http::Received,
        is_legacy: bool,
    ) -> Option<BoxFuture<'static, Option<axum::response::Response>>> {
        auth::challenge(self, request, is_legacy)
    }

    fn lists(&self) -> Vec<&'static str> {
        let registry = self.service.registry();
        let mut lists = vec!["tools"];
        if !registry.prompts().is_empty() {
            lists.push("prompts");
        }
        if !registry.resources().is_empty() || !registry.templates().is_empty() {
            lists.push("resources");
        }
        lists
    }

    fn hear_changes(&self) -> BoxFuture<'_, antiphon_store::Result<()>> {
        Box::pin(async {
            match &self.replicas {
                Some(replicas) => replicas.ready().await,
                None => Ok(()),
            }
        })
    }
}

impl Sessions for SharedSessions {
    fn shortest_life(&self) -> Duration {
        Self::shortest_life(self)
    }

    fn clean_up(&self) -> Pending<'_, ()> {
        Box::pin(Self::clean_up(self))
    }

    fn ended(&self) -> Pending<'_, ()> {
        Box::pin(Self::ended(self))
    }
}

/// Creates the HTTP sessions. All replicas share the sessions through the backend.
#[expect(clippy::unnecessary_wraps, reason = "the same signature without the feature `http`")]
pub(super) fn shared_sessions(
    backend: &Backend,
    drain: &Drain,
    stop: &CancellationToken,
) -> Option<Box<dyn Sessions>> {
    Some(Box::new(SharedSessions::new(backend, drain, stop.clone())))
}

impl Shared {
    /// Returns the HTTP sessions that all replicas share, or `None` if the server has no backend.
    fn sessions(&self) -> Option<&SharedSessions> {
        let sessions: &dyn Any = self.replicas.as_ref()?.sessions()?;
        sessions.downcast_ref()
    }
}

impl Server {
    /// Returns the server as an axum router. You can merge this router into your application. If the server has an
    /// answer page ([`AskPage`](crate::elicitation::AskPage)), the router also contains the routes of
    /// [`ask_router`](Self::ask_router).
    ///
    /// If you call this method inside a Tokio runtime, the server also starts its task workers, unless
    /// [`TaskConfig::with_workers`](crate::task::TaskConfig::with_workers) is 0. If you call this method outside of a
    /// Tokio runtime, the workers start with the first request.
    #[expect(clippy::needless_pass_by_value, reason = "every method here takes its configuration by value")]
    pub fn router(&self, config: HttpConfig) -> axum::Router {
        self.shared.begin();
        let (service, idle) = (Arc::clone(&self.shared.service), config.session_idle());
        let handler = move || Served::new(Arc::clone(&service), idle);
        let shared = Arc::clone(&self.shared);
        let endpoint = endpoint(shared, handler, self.shared.sessions(), &config);
        let path = config.path().to_owned();
        let (endpoint, metadata) = auth::protect(&self.shared, &path, endpoint, Router::new());
        Router::new().route(&path, endpoint).merge(metadata).merge(self.ask_router())
    }

    /// Serves over HTTP at `address`, with the default [`HttpConfig`], until the process receives a
    /// [`shutdown_signal`]. After the signal, the server shuts down gracefully, as with [`drain`](Self::drain).
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot listen on `address`.
    pub async fn serve_http(&self, address: impl ToSocketAddrs) -> Result<(), ServeError> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(ServeError::new("the server cannot listen on the address"))?;
        self.serve_listener(listener, HttpConfig::default(), shutdown_signal()).await
    }

    /// Serves over HTTP on `listener` until `shutdown` completes. When `shutdown` completes, the server shuts down
    /// gracefully, as with [`drain`](Self::drain). Requests in flight can continue for the shorter of two durations:
    /// [`ServeConfig::with_drain`] and [`ServerBuilder::with_drain`](crate::ServerBuilder::with_drain).
    ///
    /// # Errors
    ///
    /// At present, this method never returns an error.
    pub async fn serve_listener(
        &self,
        listener: TcpListener,
        config: HttpConfig,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        if let Ok(address) = listener.local_addr() {
            tracing::info!("listening on http://{address}{}", config.path());
        }
        let serving = config.serve().clone();
        self.serve_router(listener, self.router(config), serving, shutdown).await;
        Ok(())
    }

    /// Serves your router until `shutdown` completes. Your router must contain [`router`](Self::router). When
    /// `shutdown` completes, the server shuts down gracefully, as with [`drain`](Self::drain). Requests in flight can
    /// continue for the shorter of two durations: [`ServeConfig::with_drain`] and
    /// [`ServerBuilder::with_drain`](crate::ServerBuilder::with_drain).
    ///
    /// ```no_run
    /// # async fn example(server: antiphon::Server, results: axum::Router) -> std::io::Result<()> {
    /// use antiphon::http::{HttpConfig, ServeConfig};
    ///
    /// let app = server.router(HttpConfig::default()).nest("/resources", results);
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
    /// server.serve_router(listener, app, ServeConfig::default(), antiphon::http::shutdown_signal()).await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn serve_router(
        &self,
        listener: TcpListener,
        router: axum::Router,
        serving: ServeConfig,
        shutdown: impl Future<Output = ()> + Send,
    ) {
        let limit = serving.drain().min(self.shared.drain_limit);
        let mut serving = self.serve_until_drained(listener, router, serving, limit);
        tokio::select! {
            () = &mut serving => return,
            // Without this call, the shutdown would wait until the clients close their open event streams.
            () = shutdown => self.shared.drain.draining.cancel(),
        }
        serving.await;
    }

    /// Serves until the server shuts down. This method is not generic and not `async`, so that only this crate compiles
    /// the future, and not each program that uses the crate.
    fn serve_until_drained(
        &self,
        listener: TcpListener,
        router: axum::Router,
        serving: ServeConfig,
        limit: Duration,
    ) -> BoxFuture<'_, ()> {
        // At shutdown, the server closes connections a little later than it ends requests, so that unfinished requests
        // receive an error response.
        let serving = serving.with_drain(limit + CUT_OFF);
        let drain = &self.shared.drain;
        Box::pin(async move {
            let ends = async {
                drain.draining.cancelled().await;
                drain.begin(limit);
            };
            // `serve` also records the remote address of each connection. The server accepts the header of a proxy only
            // from certain remote addresses.
            serve(listener, router, serving, ends).await;
            self.drained().await;
        })
    }
}

/// The additional time for which connections stay open at shutdown, after the time limit for requests in flight.
const CUT_OFF: Duration = Duration::from_secs(1);
