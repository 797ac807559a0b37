use std::time::Duration;

use antiphon_transport::weight::{MAX_PARSED_BYTES, MemoryBudget};

use crate::ServeConfig;

/// Configuration of the HTTP endpoint.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    pub(crate) path: String,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_parsed_bytes: usize,
    pub(crate) bodies: MemoryBudget,
    pub(crate) body_timeout: Duration,
    pub(crate) max_sessions: usize,
    pub(crate) serve: ServeConfig,
    pub(crate) sessions: bool,
    pub(crate) session_idle: Option<Duration>,
    pub(crate) json_response: bool,
    pub(crate) sse_keep_alive: Option<Duration>,
    pub(crate) max_stream_age: Option<Duration>,
    pub(crate) stream_events: usize,
    pub(crate) stream_bytes: usize,
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
    /// Sets the path of the endpoint. Default: `/mcp`.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets the accepted `Host` headers. Default: loopback.
    ///
    /// Requests to other hosts are rejected, so that no web page can reach a local server under its own host
    /// name. For a public server, list its host names.
    #[must_use]
    pub fn with_allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the accepted `Origin` headers. Default: loopback, any port.
    ///
    /// Requests without this header are always accepted.
    #[must_use]
    pub fn with_allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_origins = origins.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the longest request body, in bytes. Default: 4 MiB.
    #[must_use]
    pub fn with_max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets the most memory that parsing one request body can use, in bytes. Default: 8 MiB, which is about
    /// 17,000 values.
    ///
    /// The server estimates it from the number of JSON values in the body. A body can always use 8 times its
    /// own length. A body that needs more is answered with 413.
    #[must_use]
    pub fn with_max_parsed_bytes(mut self, bytes: usize) -> Self {
        self.max_parsed_bytes = bytes;
        self
    }

    /// Sets the most memory that all requests to this endpoint can use together, in bytes. Default: a budget
    /// of 64 MiB for all endpoints of the process.
    ///
    /// A request that exceeds it is answered with 503. A quarter is reserved for requests that need up to 64
    /// KiB.
    #[must_use]
    pub fn with_body_memory(mut self, bytes: usize) -> Self {
        self.bodies = MemoryBudget::new(bytes);
        self
    }

    /// Sets the memory budget that this endpoint shares with others. Default: one budget of 64 MiB for the
    /// process.
    ///
    /// WebSocket and HTTP+SSE endpoints use the same type.
    #[must_use]
    pub fn with_body_budget(mut self, budget: MemoryBudget) -> Self {
        self.bodies = budget;
        self
    }

    /// Sets how long a request body can take to arrive. Default: 30 seconds.
    #[must_use]
    pub fn with_body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Sets how many 2025-11-25 sessions this process can have. Further ones are answered with 503. Default:
    /// 4096.
    #[must_use]
    pub fn with_max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Sets the limits of connections. Default: those of [`ServeConfig`].
    ///
    /// They apply if the server itself serves connections (`Server::serve_http`, `Server::serve_listener`).
    #[must_use]
    pub fn with_serve(mut self, serve: ServeConfig) -> Self {
        self.serve = serve;
        self
    }

    /// Sets whether 2025-11-25 clients get sessions. Default: yes.
    ///
    /// Tools cannot ask a client without a session any questions.
    #[must_use]
    pub fn with_sessions(mut self, sessions: bool) -> Self {
        self.sessions = sessions;
        self
    }

    /// Sets after how long an idle session is closed. Default: 5 minutes. `None` disables this.
    ///
    /// A session in which a question waits for its answer is not idle.
    #[must_use]
    pub fn with_session_idle(mut self, idle: impl Into<Option<Duration>>) -> Self {
        self.session_idle = idle.into();
        self
    }

    /// Sets whether plain responses are sent as JSON instead of an event stream, if the client allows it.
    /// Default: yes.
    ///
    /// It applies to requests outside of a session.
    #[must_use]
    pub fn with_json_response(mut self, json_response: bool) -> Self {
        self.json_response = json_response;
        self
    }

    /// Sets the interval of keep-alive comments on an open event stream. Default: 15 seconds. `None` disables
    /// them.
    #[must_use]
    pub fn with_sse_keep_alive(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.sse_keep_alive = interval.into();
        self
    }

    /// Sets how long a client can listen on one stream. Default: 1 hour.
    ///
    /// This applies to streams that were opened with GET, and to 2026-07-28 subscriptions. The client then
    /// opens a new stream, perhaps at another replica. Each stream ends at a random time in the last quarter,
    /// so that they do not end together. With `None`, they stay open.
    #[must_use]
    pub fn with_max_stream_age(mut self, age: impl Into<Option<Duration>>) -> Self {
        self.max_stream_age = age.into();
        self
    }

    /// Sets how many events of one stream the backend keeps, so that any replica can resume it. Default:
    /// 1000.
    ///
    /// Further notifications reach only a connected client. A client that reconnects receives a message that
    /// some are missing. Questions and responses are always kept.
    #[must_use]
    pub fn with_stream_events(mut self, events: usize) -> Self {
        self.stream_events = events;
        self
    }

    /// Sets how many bytes of one stream the backend keeps. The same rules as for
    /// [`with_stream_events`](Self::with_stream_events) apply. Default: 1 MiB.
    #[must_use]
    pub fn with_stream_bytes(mut self, bytes: usize) -> Self {
        self.stream_bytes = bytes;
        self
    }

    /// Returns the path of the endpoint.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the limits of connections.
    pub fn serve(&self) -> &ServeConfig {
        &self.serve
    }

    /// Returns after how long an idle session is closed.
    pub fn session_idle(&self) -> Option<Duration> {
        self.session_idle
    }
}
