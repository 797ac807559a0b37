//! Streamable HTTP: one endpoint for every revision.

use std::{future::Future, sync::Arc, time::Duration};

use axum::{
    extract::Request, http::StatusCode, response::IntoResponse as _, routing::MethodRouter,
    serve::ListenerExt as _,
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService,
    session::local::{LocalSessionManager, SessionConfig},
};
use tokio::net::{TcpListener, ToSocketAddrs};

use super::{ServeError, Server, replicas::Sessions, revised};
use crate::wire::Handler;

/// Marks what came over streamable HTTP, where a request may belong to no session. Over WebSocket and HTTP+SSE, whose
/// messages bring their HTTP requests, too, every request does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streamable;

/// How a server is served over HTTP.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpConfig {
    /// Where the endpoint is. Default: `/mcp`.
    pub path: String,
    /// The `Host` headers that are answered, so that no web page can reach a local server under a
    /// name of its own. Default: loopback. A public server names its own.
    pub allowed_hosts: Vec<String>,
    /// The `Origin` headers that are answered; requests without one always are. Default: loopback,
    /// any port.
    pub allowed_origins: Vec<String>,
    /// The longest request body, in bytes. Default: 4 MiB.
    pub max_body_bytes: usize,
    /// Whether 2025-11-25 clients get sessions. Without one they cannot be asked anything. Default:
    /// yes.
    pub sessions: bool,
    /// After how long a session nobody uses is closed. Default: 5 minutes. A session in which a
    /// question is waiting is in use.
    pub session_idle: Option<Duration>,
    /// Whether plain answers are sent as JSON instead of an event stream where the client allows.
    /// Default: yes. Applies to requests outside a session.
    pub json_response: bool,
    /// How often an open event stream shows that it is alive. Default: 15 seconds.
    pub sse_keep_alive: Option<Duration>,
    /// With a [backend](crate::ServerBuilder::with_backend): how many events of one stream are kept, so that
    /// the stream can be resumed at any replica. Beyond that, notifications reach only a client that is
    /// connected, and one that comes back is told that some are missing; questions and answers are always
    /// kept. Default: 1000.
    pub stream_events: usize,
    /// With a [backend](crate::ServerBuilder::with_backend): how many bytes of one stream are kept, in the
    /// same way. Default: 1 MiB.
    pub stream_bytes: usize,
}

impl Default for HttpConfig {
    fn default() -> Self {
        let loopback = ["localhost", "127.0.0.1", "[::1]"];
        Self {
            path: "/mcp".into(),
            allowed_hosts: ["localhost", "127.0.0.1", "::1"].map(Into::into).into(),
            allowed_origins: loopback
                .iter()
                .flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")])
                .collect(),
            max_body_bytes: 4 * 1024 * 1024,
            sessions: true,
            session_idle: Some(Duration::from_secs(5 * 60)),
            json_response: true,
            sse_keep_alive: Some(Duration::from_secs(15)),
            stream_events: 1000,
            stream_bytes: 1024 * 1024,
        }
    }
}

impl HttpConfig {
    /// Sets where the endpoint is.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets the `Host` headers that are answered.
    #[must_use]
    pub fn with_allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the `Origin` headers that are answered.
    #[must_use]
    pub fn with_allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_origins = origins.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the longest request body, in bytes.
    #[must_use]
    pub fn with_max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets whether 2025-11-25 clients get sessions.
    #[must_use]
    pub fn with_sessions(mut self, sessions: bool) -> Self {
        self.sessions = sessions;
        self
    }

    /// Sets after how long a session nobody uses is closed.
    #[must_use]
    pub fn with_session_idle(mut self, idle: impl Into<Option<Duration>>) -> Self {
        self.session_idle = idle.into();
        self
    }

    /// Sets whether plain answers are sent as JSON.
    #[must_use]
    pub fn with_json_response(mut self, json_response: bool) -> Self {
        self.json_response = json_response;
        self
    }

    /// Sets how many events of one stream are kept.
    #[must_use]
    pub fn with_stream_events(mut self, events: usize) -> Self {
        self.stream_events = events;
        self
    }

    /// Sets how many bytes of one stream are kept.
    #[must_use]
    pub fn with_stream_bytes(mut self, bytes: usize) -> Self {
        self.stream_bytes = bytes;
        self
    }
}

impl Server {
    /// The server as an axum router, to merge into an application of your own.
    pub fn router(&self, config: HttpConfig) -> axum::Router {
        let endpoint = match &self.shared.replicas {
            Some(replicas) if config.sessions => {
                let sessions = Sessions::new(Arc::clone(&self.shared), replicas, &config);
                let settings = self.settings(&config);
                self.replicated(&config, settings, sessions)
            }
            _ => self.alone(&config, self.settings(&config)),
        };
        let HttpConfig { path, .. } = config;
        axum::Router::new().route(&path, endpoint)
    }

    fn settings(&self, config: &HttpConfig) -> StreamableHttpServerConfig {
        let mut settings = StreamableHttpServerConfig::default()
            .with_allowed_hosts(config.allowed_hosts.clone())
            .with_allowed_origins(config.allowed_origins.clone())
            .enforce_origin_validation()
            .with_sse_keep_alive(config.sse_keep_alive);
        settings.legacy_session_mode = config.sessions;
        settings.json_response = config.json_response;
        settings.max_request_body_bytes = config.max_body_bytes;
        settings.cancellation_token = self.shared.shutdown.child_token();
        settings
    }

    fn handler(&self, config: &HttpConfig) -> impl Fn() -> std::io::Result<Handler> + Send + Sync + use<> {
        let (shared, idle) = (Arc::clone(&self.shared), config.session_idle);
        move || Ok(Handler::new(Arc::clone(&shared)).with_session_idle(idle))
    }

    /// Sessions in the memory of this process.
    fn alone(&self, config: &HttpConfig, settings: StreamableHttpServerConfig) -> MethodRouter {
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = config.session_idle;
        let mut sessions = LocalSessionManager::default();
        sessions.session_config = session_config;
        let service = StreamableHttpService::new(self.handler(config), Arc::new(sessions), settings);
        // The SDK's own `Service` clones its configuration for every request; this clones a handle.
        let service = Arc::new(service);
        let max_bytes = config.max_body_bytes;
        axum::routing::any(move |request: Request| {
            let service = Arc::clone(&service);
            async move {
                let is_legacy = is_legacy(&request);
                let (mut request, asks) = revised::question(request, is_legacy, max_bytes).await;
                request.extensions_mut().insert(Streamable);
                let response = Box::pin(service.handle(request)).await.into_response();
                if asks { revised::answer(response).await } else { response }
            }
        })
    }

    /// Sessions that all replicas share.
    fn replicated(
        &self,
        config: &HttpConfig,
        mut settings: StreamableHttpServerConfig,
        sessions: Arc<Sessions>,
    ) -> MethodRouter {
        settings.session_store = Some(Arc::clone(&sessions) as _);
        // What a stream begins with must name its place in the log, which the SDK does not know.
        settings.sse_retry = None;
        let service = StreamableHttpService::new(self.handler(config), Arc::clone(&sessions), settings);
        let service = Arc::new(service);
        let has_principal = self.shared.has_principal();
        let max_bytes = config.max_body_bytes;
        axum::routing::any(move |request: Request| {
            let (service, sessions) = (Arc::clone(&service), Arc::clone(&sessions));
            async move {
                let (request, session) = match admit(&sessions, request, has_principal).await {
                    Ok(admitted) => admitted,
                    Err(refused) => return refused.into_response(),
                };
                let is_legacy = is_legacy(&request);
                let (mut request, asks) = revised::question(request, is_legacy, max_bytes).await;
                request.extensions_mut().insert(Streamable);
                let _first = match &session {
                    Some(session) => sessions.restoring(session).await,
                    None => None,
                };
                let response = Box::pin(service.handle(request)).await.into_response();
                if asks { revised::answer(response).await } else { response }
            }
        })
    }

    /// Serves over HTTP at `address`, with the default [`HttpConfig`], until the process is asked to
    /// end ([`shutdown_signal`]); then lets the requests in hand finish.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on.
    pub async fn serve_http(&self, address: impl ToSocketAddrs) -> Result<(), ServeError> {
        let listener =
            TcpListener::bind(address).await.map_err(ServeError::new("the address cannot be listened on"))?;
        self.serve_listener(listener, HttpConfig::default(), shutdown_signal()).await
    }

    /// Serves over HTTP on `listener` until `shutdown` ends; then lets the requests in hand finish.
    ///
    /// # Errors
    ///
    /// When the listener fails.
    pub async fn serve_listener(
        &self,
        listener: TcpListener,
        config: HttpConfig,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        if let Ok(address) = listener.local_addr() {
            tracing::info!("listening on http://{address}{}", config.path);
        }
        // An event stream is several small writes; without this each costs 40 ms.
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let token = self.shared.shutdown.clone();
        let ends = async move {
            tokio::select! {
                () = shutdown => {}
                () = token.cancelled() => {}
            }
            // Open event streams would keep the server from ending for as long as their clients like.
            token.cancel();
        };
        axum::serve(listener, self.router(config))
            .with_graceful_shutdown(ends)
            .await
            .map_err(ServeError::new("the listener failed"))
    }
}

/// Ends when the process is asked to end: by Ctrl-C, or by a termination signal.
pub async fn shutdown_signal() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}

type Refused = (StatusCode, &'static str);

/// Lets a request in, unless it uses a session of somebody else's.
async fn admit(
    sessions: &Sessions,
    request: Request,
    has_principal: bool,
) -> Result<(Request, Option<String>), Refused> {
    const SESSION: &str = "mcp-session-id";
    let failed = |error: antiphon_store::Error| {
        tracing::error!(%error, "what replicas share cannot be reached");
        (StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable: try again later")
    };
    if !is_legacy(&request) {
        // Only who listens needs the other replicas, and it must miss nothing once it is acknowledged.
        if request.headers().get("mcp-method").is_some_and(|method| method == "subscriptions/listen") {
            sessions.hears_changes().await.map_err(failed)?;
        } else {
            sessions.begin();
        }
        return Ok((request, None));
    }
    sessions.ready().await.map_err(failed)?;
    let session = request.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
    let Some(id) = session else { return Ok((request, None)) };
    if !has_principal {
        return Ok((request, Some(id)));
    }
    let (parts, body) = request.into_parts();
    let mut extensions = rmcp::model::Extensions::new();
    extensions.insert(parts.clone());
    if sessions.admits(&id, &extensions).await.map_err(failed)? {
        Ok((Request::from_parts(parts, body), Some(id)))
    } else {
        // The SDK's own words for a session that is not there.
        Err((StatusCode::NOT_FOUND, "Not Found: Session not found"))
    }
}

/// Whether the request may belong to a session: 2026-07-28 has none.
fn is_legacy(request: &Request) -> bool {
    let version = request.headers().get("mcp-protocol-version").and_then(|version| version.to_str().ok());
    version.is_none_or(|version| version < "2026-07-28")
}
