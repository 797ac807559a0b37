use std::time::Duration;

use antiphon_transport::weight::{MAX_PARSED_BYTES, MemoryBudget};

use crate::ServeConfig;

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
    /// The most memory that parsing one request body takes, in bytes, estimated from the number of JSON values in it.
    /// A body can always take 8 times its own length. A body that needs more is answered with 413. Default: 8 MiB, which
    /// is about 17,000 values.
    pub max_parsed_bytes: usize,
    /// The memory that requests can take together, estimated in the same way; a request beyond it is answered with 503.
    /// A quarter is reserved for requests that need up to 64 KiB. Default: 64 MiB, shared by all endpoints of the
    /// process that are not given another budget.
    pub bodies: MemoryBudget,
    /// How long a request body may take to arrive. Default: 30 seconds.
    pub body_timeout: Duration,
    /// How many 2025-11-25 sessions this process keeps; one more is answered with 503. Default: 4096.
    pub max_sessions: usize,
    /// What a connection may take, where the server serves by itself (`Server::serve_http`, `Server::serve_listener`).
    pub serve: ServeConfig,
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
    /// After how long a stream on which a client listens ends: one that was opened with GET, or a subscription of
    /// 2026-07-28. The client opens another, perhaps at another replica. Each stream ends after a random part of the
    /// last quarter of this, so that they do not end together. `None` lets them stay open. Default: 1 hour.
    pub max_stream_age: Option<Duration>,
    /// With a backend (`ServerBuilder::with_backend`): how many events of one stream are kept, so that
    /// the stream can be resumed at any replica. Beyond that, notifications reach only a client that is
    /// connected, and one that comes back is told that some are missing; questions and answers are always
    /// kept. Default: 1000.
    pub stream_events: usize,
    /// With a backend (`ServerBuilder::with_backend`): how many bytes of one stream are kept, in the
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
            max_parsed_bytes: MAX_PARSED_BYTES,
            bodies: MemoryBudget::default(),
            body_timeout: Duration::from_secs(30),
            max_sessions: 4096,
            serve: ServeConfig::default(),
            sessions: true,
            session_idle: Some(Duration::from_secs(5 * 60)),
            json_response: true,
            sse_keep_alive: Some(Duration::from_secs(15)),
            max_stream_age: Some(Duration::from_secs(60 * 60)),
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

    /// Sets the most memory that parsing one request body takes, in bytes. Default: 8 MiB.
    #[must_use]
    pub fn with_max_parsed_bytes(mut self, bytes: usize) -> Self {
        self.max_parsed_bytes = bytes;
        self
    }

    /// Sets the most memory that the requests to this endpoint take together, in bytes. Default: a budget of 64 MiB for
    /// all endpoints of the process.
    #[must_use]
    pub fn with_max_bodies_bytes(mut self, bytes: usize) -> Self {
        self.bodies = MemoryBudget::new(bytes);
        self
    }

    /// Sets the budget of memory that this endpoint shares with others: WebSocket and HTTP+SSE endpoints take the same.
    /// Default: one budget of 64 MiB for the process.
    #[must_use]
    pub fn with_bodies(mut self, budget: MemoryBudget) -> Self {
        self.bodies = budget;
        self
    }

    /// Sets how long a request body may take to arrive.
    #[must_use]
    pub fn with_body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Sets how many 2025-11-25 sessions this process keeps.
    #[must_use]
    pub fn with_max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Sets what a connection may take.
    #[must_use]
    pub fn with_serve(mut self, serve: ServeConfig) -> Self {
        self.serve = serve;
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

    /// Sets after how long a stream on which a client listens ends. Default: 1 hour.
    #[must_use]
    pub fn with_max_stream_age(mut self, age: impl Into<Option<Duration>>) -> Self {
        self.max_stream_age = age.into();
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
