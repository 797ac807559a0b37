//! Streamable HTTP: one endpoint for every revision.

use std::{future::Future, sync::Arc, time::Duration};

use axum::serve::ListenerExt as _;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService,
    session::local::{LocalSessionManager, SessionConfig},
};
use tokio::net::{TcpListener, ToSocketAddrs};

use super::{ServeError, Server};
use crate::wire::Handler;

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
}

impl Server {
    /// The server as an axum router, to merge into an application of your own.
    pub fn router(&self, config: HttpConfig) -> axum::Router {
        let path = config.path.clone();
        let service = Arc::new(self.service(config));
        // The SDK's own `Service` clones its configuration for every request; this clones a handle.
        let endpoint = axum::routing::any(move |request: axum::extract::Request| {
            let service = Arc::clone(&service);
            async move { Box::pin(service.handle(request)).await }
        });
        axum::Router::new().route(&path, endpoint)
    }

    fn service(&self, config: HttpConfig) -> StreamableHttpService<Handler, LocalSessionManager> {
        let HttpConfig { allowed_hosts, allowed_origins, session_idle, .. } = config;
        let mut settings = StreamableHttpServerConfig::default()
            .with_allowed_hosts(allowed_hosts)
            .with_allowed_origins(allowed_origins)
            .enforce_origin_validation()
            .with_sse_keep_alive(config.sse_keep_alive);
        settings.legacy_session_mode = config.sessions;
        settings.json_response = config.json_response;
        settings.max_request_body_bytes = config.max_body_bytes;
        settings.cancellation_token = self.shared.shutdown.child_token();
        let mut sessions = LocalSessionManager::default();
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = session_idle;
        sessions.session_config = session_config;
        let shared = Arc::clone(&self.shared);
        let handler = move || Ok(Handler::new(Arc::clone(&shared)).with_session_idle(session_idle));
        StreamableHttpService::new(handler, Arc::new(sessions), settings)
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
