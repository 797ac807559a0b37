//! The server's side: an upgrade, then one transport a connection.

use std::{future::Future, sync::Arc, time::Duration};

use axum::{
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use rmcp::{
    RoleServer,
    model::JsonRpcMessage,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::{handshake::derive_accept_key, protocol::Role};

use super::{
    SUBPROTOCOL,
    connection::{Connection, Farewell, Limits},
    metered::{Meter, Metered},
};
use crate::{
    Error,
    guard::{Guard, Lease, loopback_hosts, loopback_origins},
    inbox::{Inbox, Refusal, Room, Verdict, answered, write},
    weight::{MAX_PARSED_BYTES, MemoryBudget},
};

/// How a server is served over WebSocket.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WebSocketConfig {
    /// Where the endpoint is. Default: `/ws`.
    pub path: String,
    /// The `Host` headers that are answered; an empty list answers all. Default: loopback. A public
    /// server names its own.
    pub allowed_hosts: Vec<String>,
    /// The `Origin` headers that are answered, as `https://example.com:443` or with `:*` for any port;
    /// requests without one always are. Default: loopback, any port.
    pub allowed_origins: Vec<String>,
    /// Whether a client that offers no subprotocol at all is served. One that offers others, but not
    /// `mcp`, never is. Default: no.
    pub subprotocol_optional: bool,
    /// The longest message, in bytes, both ways. Default: 4 MiB.
    pub max_message_bytes: usize,
    /// The most memory that parsing one message takes, in bytes, estimated from the number of JSON values in it. A
    /// message can always take 8 times its own length. One that needs more is answered with -32600. Default: 8 MiB.
    pub max_parsed_bytes: usize,
    /// The memory that messages can take together, while they come, are parsed and worked on, and until their answers
    /// are sent. A message beyond it is answered with an error, or ends its connection with 1013. Default: 64 MiB, shared
    /// by all endpoints of the process that are not given another budget.
    pub bodies: MemoryBudget,
    /// How many messages wait to be written. Whoever sends more waits. Default: 32.
    pub queue: usize,
    /// How many requests of a client may be unanswered at a time; more are answered with an error.
    /// Default: 1024.
    pub max_open_requests: usize,
    /// How many connections there may be at a time; more are answered with 503. Default: 1024.
    pub max_connections: usize,
    /// How often a client is pinged. Default: 15 seconds.
    pub ping_interval: Option<Duration>,
    /// How long a client may be silent, pongs included, before it counts as gone. It is looked at with
    /// each ping. Default: 45 seconds.
    pub idle_limit: Option<Duration>,
    /// How long a client may take to read one message before it counts as gone. Default: 30 seconds.
    pub send_timeout: Duration,
    /// Whether requests reach the service by the names of [`legacy_tasks`](crate::legacy_tasks), so that tasks of
    /// 2025-11-25 are not lost on the way. For an `antiphon::Server`; another handler would not know
    /// `tools/list` by its new name. Default: no.
    pub tasks: bool,
}

impl Default for WebSocketConfig {
    fn default() -> Self {
        Self {
            path: "/ws".into(),
            allowed_hosts: loopback_hosts(),
            allowed_origins: loopback_origins(),
            subprotocol_optional: false,
            max_message_bytes: 4 * 1024 * 1024,
            max_parsed_bytes: MAX_PARSED_BYTES,
            bodies: MemoryBudget::default(),
            queue: 32,
            max_open_requests: 1024,
            max_connections: 1024,
            ping_interval: Some(Duration::from_secs(15)),
            idle_limit: Some(Duration::from_secs(45)),
            send_timeout: Duration::from_secs(30),
            tasks: false,
        }
    }
}

impl WebSocketConfig {
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

    /// Sets whether a client that offers no subprotocol is served.
    #[must_use]
    pub fn with_subprotocol_optional(mut self, optional: bool) -> Self {
        self.subprotocol_optional = optional;
        self
    }

    /// Sets the longest message, in bytes.
    #[must_use]
    pub fn with_max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets the most memory that parsing one message takes, in bytes. Default: 8 MiB.
    #[must_use]
    pub fn with_max_parsed_bytes(mut self, bytes: usize) -> Self {
        self.max_parsed_bytes = bytes;
        self
    }

    /// Sets the budget of memory that this endpoint shares with others. Default: one of 64 MiB for the process.
    #[must_use]
    pub fn with_body_budget(mut self, budget: MemoryBudget) -> Self {
        self.bodies = budget;
        self
    }

    /// Sets how many messages wait to be written.
    #[must_use]
    pub fn with_queue(mut self, messages: usize) -> Self {
        self.queue = messages;
        self
    }

    /// Sets how many requests may be unanswered at a time.
    #[must_use]
    pub fn with_max_open_requests(mut self, requests: usize) -> Self {
        self.max_open_requests = requests;
        self
    }

    /// Sets how many connections there may be at a time.
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets how often a client is pinged, and how long it may be silent.
    #[must_use]
    pub fn with_ping(
        mut self,
        interval: impl Into<Option<Duration>>,
        idle: impl Into<Option<Duration>>,
    ) -> Self {
        self.ping_interval = interval.into();
        self.idle_limit = idle.into();
        self
    }

    /// Sets how long a client may take to read one message.
    #[must_use]
    pub fn with_send_timeout(mut self, timeout: Duration) -> Self {
        self.send_timeout = timeout;
        self
    }

    /// Sets whether tasks of 2025-11-25 reach the service, which must be an `antiphon::Server`.
    #[must_use]
    pub fn with_tasks(mut self, tasks: bool) -> Self {
        self.tasks = tasks;
        self
    }

    fn limits(&self) -> Limits {
        Limits {
            message_bytes: self.max_message_bytes,
            queue: self.queue,
            ping: self.ping_interval,
            idle: self.idle_limit,
            stall: self.send_timeout,
        }
    }
}

/// An axum router with the endpoint; `serve` gets each connection and keeps it for as long as it runs.
///
/// The future that `serve` returns is spawned. Give the listener `TCP_NODELAY`, as
/// `axum::serve::ListenerExt::tap_io` can: messages are small, and without it each may wait 40 ms.
///
/// # Examples
///
/// ```no_run
/// # async fn run(handler: impl rmcp::ServerHandler + Clone, listener: tokio::net::TcpListener) -> std::io::Result<()> {
/// use antiphon_transport::websocket::{self, WebSocketConfig, WebSocketTransport};
///
/// let app = websocket::router(WebSocketConfig::default(), move |connection: WebSocketTransport| {
///     let handler = handler.clone();
///     async move {
///         if let Ok(running) = rmcp::serve_server(handler, connection).await {
///             let _ = running.waiting().await;
///         }
///     }
/// });
/// axum::serve(listener, app).await
/// # }
/// ```
pub fn router<F, Fut>(config: WebSocketConfig, serve: F) -> axum::Router
where
    F: Fn(WebSocketTransport) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let path = config.path.clone();
    let door = Arc::new(Door {
        guard: Guard::new(&config.allowed_hosts, &config.allowed_origins),
        places: Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS))),
        config,
    });
    let endpoint = axum::routing::any(move |request: Request| {
        let (door, serve) = (Arc::clone(&door), serve.clone());
        async move { door.open(request, serve) }
    });
    axum::Router::new().route(&path, endpoint)
}

struct Door {
    guard: Guard,
    places: Arc<Semaphore>,
    config: WebSocketConfig,
}

impl Door {
    fn open<F, Fut>(&self, request: Request, serve: F) -> Response
    where
        F: FnOnce(WebSocketTransport) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (mut parts, _) = request.into_parts();
        if let Err(refused) = self.guard.admit(&parts) {
            return refused.into_response();
        }
        let (accept, chosen) = match self.handshake(&parts) {
            Ok(handshake) => handshake,
            Err(refused) => return refused.into_response(),
        };
        let Some(upgrade) = parts.extensions.remove::<OnUpgrade>() else {
            return (StatusCode::UPGRADE_REQUIRED, "this connection cannot be upgraded").into_response();
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let busy =
                (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], "too many connections");
            return busy.into_response();
        };
        let limits = self.config.limits();
        let inbox = Inbox::new(self.config.max_open_requests, self.config.tasks);
        let room = Room { max_parsed: self.config.max_parsed_bytes, budget: self.config.bodies.clone() };
        tokio::spawn(async move {
            let _place = place;
            match upgrade.await {
                Ok(upgraded) => {
                    serve(WebSocketTransport::new(upgraded, parts, limits, inbox, room).await).await;
                }
                Err(error) => tracing::debug!(%error, "an upgrade to WebSocket fails"),
            }
        });
        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        if chosen {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
        }
        response
    }

    /// The answer to the client's key, and whether it offers the subprotocol.
    fn handshake(&self, parts: &Parts) -> Result<(HeaderValue, bool), (StatusCode, HeaderMap, &'static str)> {
        let refuse = |status, why| Err((status, HeaderMap::new(), why));
        if parts.method != Method::GET {
            let allow = HeaderMap::from_iter([(header::ALLOW, HeaderValue::from_static("GET"))]);
            return Err((StatusCode::METHOD_NOT_ALLOWED, allow, "open a WebSocket with GET"));
        }
        if !lists(&parts.headers, &header::CONNECTION, "upgrade")
            || !lists(&parts.headers, &header::UPGRADE, "websocket")
        {
            let upgrade = HeaderMap::from_iter([(header::UPGRADE, HeaderValue::from_static("websocket"))]);
            return Err((StatusCode::UPGRADE_REQUIRED, upgrade, "this is a WebSocket"));
        }
        if parts.headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            let version =
                HeaderMap::from_iter([(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"))]);
            return Err((StatusCode::UPGRADE_REQUIRED, version, "this is WebSocket version 13"));
        }
        let Some(accept) = parts
            .headers
            .get(header::SEC_WEBSOCKET_KEY)
            .and_then(|key| HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok())
        else {
            return refuse(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is needed");
        };
        let offers = parts.headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL);
        let chosen = lists(&parts.headers, &header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
        if chosen || (!offers && self.config.subprotocol_optional) {
            Ok((accept, chosen))
        } else {
            refuse(StatusCode::BAD_REQUEST, "offer the subprotocol `mcp`")
        }
    }
}

fn lists(headers: &HeaderMap, name: &header::HeaderName, wanted: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|item| item.trim().eq_ignore_ascii_case(wanted))
}

/// A connection to one client, for [`rmcp::serve_server`].
///
/// Dropped without being served to its end, it closes with 1008.
#[derive(Debug)]
pub struct WebSocketTransport {
    connection: Connection<Metered<TokioIo<Upgraded>>>,
    inbox: Inbox,
    max_message_bytes: usize,
    parts: Parts,
    /// What the client must be told before anything else is read.
    refusal: Option<Refusal>,
    room: Room,
    meter: Meter,
    /// How long the caller's credentials are good.
    lease: Option<Lease>,
}

impl WebSocketTransport {
    async fn new(upgraded: Upgraded, parts: Parts, limits: Limits, inbox: Inbox, room: Room) -> Self {
        let meter = Meter::new(&room.budget);
        let stream = Metered::new(TokioIo::new(upgraded), meter.clone());
        Self {
            connection: Connection::new(stream, Role::Server, limits).await.within(&room.budget, &meter),
            inbox,
            max_message_bytes: limits.message_bytes,
            lease: parts.extensions.get().cloned(),
            parts,
            refusal: None,
            room,
            meter,
        }
    }

    /// The request that became this connection: its address, its headers, what middleware left in its
    /// extensions. Each message to the service carries a copy, as over streamable HTTP.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }
}

impl Transport<RoleServer> for WebSocketTransport {
    type Error = Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let (outbox, inbox, limit) = (self.connection.outbox(), self.inbox.clone(), self.max_message_bytes);
        async move {
            let sent = outbox.send(|| write::<RoleServer>(&message, limit)).await;
            // Only now: until it is queued, it takes up memory.
            if let Some(id) = answered::<RoleServer>(&message) {
                inbox.settle(id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            // A client that reads no answers is not read either.
            if let Some(refusal) = &self.refusal {
                self.connection.outbox().send(|| Ok(refusal.to_json())).await.ok()?;
                self.refusal = None;
            }
            let text = match &self.lease {
                Some(lease) => tokio::select! {
                    biased;
                    () = lease.ended() => {
                        self.connection.end(Some(Farewell::EXPIRED));
                        return None;
                    }
                    text = self.connection.next() => text?,
                },
                None => self.connection.next().await?,
            };
            // From here on the message takes what it weighs.
            self.meter.reset();
            match self.inbox.judge_within(&text, &self.room) {
                (Verdict::Deliver(mut message), share) => {
                    if matches!(message, JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_)) {
                        message.insert_extension(self.parts.clone());
                        // Whoever works on the message has it for as long as it takes.
                        message.insert_extension(Arc::new(share));
                    }
                    return Some(message);
                }
                (Verdict::Answer(refusal), _) => self.refusal = Some(refusal),
                (Verdict::Ignore, _) => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Error> {
        self.connection.close(Farewell::AWAY).await;
        Ok(())
    }
}
