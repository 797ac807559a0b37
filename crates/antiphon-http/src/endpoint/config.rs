use std::time::Duration;

use antiphon_transport::weight::{MAX_PARSED_BYTES, MemoryBudget};

use crate::ServeConfig;

/// The configuration of an MCP endpoint over HTTP: its path, accepted hosts, limits and sessions.
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

    /// Sets the accepted `Host` headers. Default: the loopback hosts.
    ///
    /// The endpoint rejects requests whose `Host` header is not in the list. The check of the `Host` header prevents
    /// DNS rebinding. In a DNS rebinding attack, a web page reaches a local server through the host name of the web
    /// page. For a public server, list the host names of the server.
    #[must_use]
    pub fn with_allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the accepted `Origin` headers. Default: loopback origins with any port.
    ///
    /// Requests without an `Origin` header are always accepted.
    #[must_use]
    pub fn with_allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_origins = origins.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the maximum length of a request body, in bytes. Default: 4 MiB.
    #[must_use]
    pub fn with_max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets the maximum memory that parsing of one request body can use, in bytes. Default: 8 MiB. The default of 8
    /// MiB is enough for about 17,000 JSON values.
    ///
    /// The server estimates the memory from the number of JSON values in the body. Each body can always use 8 times its
    /// own length, even if 8 times the length is more than the maximum memory. If a body needs more memory than the
    /// maximum, the server answers with status 413.
    #[must_use]
    pub fn with_max_parsed_bytes(mut self, bytes: usize) -> Self {
        self.max_parsed_bytes = bytes;
        self
    }

    /// Sets the maximum memory that all request bodies of this endpoint can use together, in bytes. Default: the
    /// endpoint shares a memory budget of 64 MiB with the other endpoints of the process.
    ///
    /// If a request would exceed the maximum memory, the server answers with status 503. A quarter of the maximum
    /// memory is reserved for requests that need at most 64 KiB.
    #[must_use]
    pub fn with_body_memory(mut self, bytes: usize) -> Self {
        self.bodies = MemoryBudget::new(bytes);
        self
    }

    /// Sets a memory budget for request bodies. Several endpoints can share one memory budget. Default: one budget of
    /// 64 MiB for the whole process.
    ///
    /// WebSocket and HTTP+SSE endpoints can use the same budget as a streamable HTTP endpoint.
    #[must_use]
    pub fn with_body_budget(mut self, budget: MemoryBudget) -> Self {
        self.bodies = budget;
        self
    }

    /// Sets the maximum time in which a request body must arrive. Default: 30 seconds.
    #[must_use]
    pub fn with_body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Sets the maximum number of MCP 2025-11-25 sessions in this process. If the process has the maximum number of
    /// sessions, the server answers requests for a new session with status 503. Default: 4096.
    #[must_use]
    pub fn with_max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Sets the limits of HTTP connections. Default: the limits of [`ServeConfig::default`].
    ///
    /// The limits of HTTP connections apply only if the server itself accepts connections (`Server::serve_http`,
    /// `Server::serve_listener`).
    #[must_use]
    pub fn with_serve(mut self, serve: ServeConfig) -> Self {
        self.serve = serve;
        self
    }

    /// Sets whether MCP 2025-11-25 clients get sessions. Default: yes.
    ///
    /// If an MCP 2025-11-25 client has no session, tools cannot send questions to the client.
    #[must_use]
    pub fn with_sessions(mut self, sessions: bool) -> Self {
        self.sessions = sessions;
        self
    }

    /// Sets the time after which the server closes an idle session. Default: 5 minutes. With `None`, idle sessions
    /// stay open.
    ///
    /// While a question in the session waits for an answer, the session is not idle.
    #[must_use]
    pub fn with_session_idle(mut self, idle: impl Into<Option<Duration>>) -> Self {
        self.session_idle = idle.into();
        self
    }

    /// Sets whether the server sends a single response as JSON instead of an event stream, if the client accepts JSON.
    /// Default: yes.
    ///
    /// The setting `json_response` applies only to requests outside of a session.
    #[must_use]
    pub fn with_json_response(mut self, json_response: bool) -> Self {
        self.json_response = json_response;
        self
    }

    /// Sets the interval at which the server sends comments on an open event stream. The comments prevent proxies from
    /// closing the stream. Default: 15 seconds. `None` disables the comments.
    #[must_use]
    pub fn with_sse_keep_alive(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.sse_keep_alive = interval.into();
        self
    }

    /// Sets the maximum time for which a client can listen on one event stream. When a stream reaches this age, the
    /// server ends the stream. Default: 1 hour.
    ///
    /// The maximum age applies to streams that a client opened with GET, and to MCP 2026-07-28 subscriptions. When a
    /// stream ends, the client opens a new stream, possibly at another replica. Each stream ends at a random time in
    /// the last quarter of its maximum age, so that not all streams end at the same time. With `None`, streams stay
    /// open.
    #[must_use]
    pub fn with_max_stream_age(mut self, age: impl Into<Option<Duration>>) -> Self {
        self.max_stream_age = age.into();
        self
    }

    /// Sets how many events of one stream the backend stores. Any replica can resume a stream from its stored events
    /// after a disconnect. Default: 1000.
    ///
    /// If a stream has more events than this limit, the backend does not store further notifications of the stream. The
    /// client receives a notification that is not stored only if the client is connected when the server sends it.
    /// After a reconnect, the server informs the client that some notifications are missing. The backend always stores
    /// questions and responses.
    #[must_use]
    pub fn with_stream_events(mut self, events: usize) -> Self {
        self.stream_events = events;
        self
    }

    /// Sets how many bytes of one stream the backend stores. If a stream exceeds this limit, the backend does not store
    /// further notifications, as [`with_stream_events`](Self::with_stream_events) describes. Default: 1 MiB.
    #[must_use]
    pub fn with_stream_bytes(mut self, bytes: usize) -> Self {
        self.stream_bytes = bytes;
        self
    }

    /// Returns the path of the endpoint.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the limits of HTTP connections.
    pub fn serve(&self) -> &ServeConfig {
        &self.serve
    }

    /// Returns after how long the server closes an idle session, or `None` if idle sessions stay open.
    pub fn session_idle(&self) -> Option<Duration> {
        self.session_idle
    }
}
