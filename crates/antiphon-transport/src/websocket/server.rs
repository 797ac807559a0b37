//! The server side of WebSocket: the upgrade of an HTTP request, and then one transport per connection.

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

/// The settings of a server over WebSocket.
#[derive(Clone, Debug)]
pub struct WebSocketConfig {
    path: String,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    subprotocol_optional: bool,
    max_message_bytes: usize,
    max_parsed_bytes: usize,
    bodies: MemoryBudget,
    queue: usize,
    max_open_requests: usize,
    max_connections: usize,
    ping_interval: Option<Duration>,
    idle_limit: Option<Duration>,
    send_timeout: Duration,
    tasks: bool,
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
    /// Sets the path of the WebSocket endpoint. Default: `/ws`.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets the accepted `Host` headers. An empty list accepts all hosts. For a public server, list the host names of
    /// the server. Default: the loopback hosts.
    #[must_use]
    pub fn with_allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the accepted `Origin` headers, for example `https://example.com:443`, or with `:*` for any port. Requests
    /// without an `Origin` header are always accepted. Default: loopback origins with any port.
    #[must_use]
    pub fn with_allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_origins = origins.into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether the server accepts clients that offer no subprotocol. A client that offers subprotocols, but not
    /// `mcp`, is always rejected. Default: no.
    #[must_use]
    pub fn with_subprotocol_optional(mut self, optional: bool) -> Self {
        self.subprotocol_optional = optional;
        self
    }

    /// Sets the maximum length of a message in both directions, in bytes. Default: 4 MiB.
    #[must_use]
    pub fn with_max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets the maximum memory for parsing one message, in bytes. Default: 8 MiB.
    ///
    /// The memory is estimated from the number of JSON values. A message can always use 8 times its own length, even if
    /// 8 times the length is more than the maximum memory. If a message needs more memory than the maximum, the server
    /// returns the error -32600.
    #[must_use]
    pub fn with_max_parsed_bytes(mut self, bytes: usize) -> Self {
        self.max_parsed_bytes = bytes;
        self
    }

    /// Sets a memory budget for messages. Several endpoints can share one memory budget. Default: one budget of 64 MiB
    /// for the whole process.
    ///
    /// The memory of a message counts from the arrival of the message until the server has sent the response. If a
    /// message would exceed the budget, the server returns an error, or closes the connection with the code 1013.
    #[must_use]
    pub fn with_body_budget(mut self, budget: MemoryBudget) -> Self {
        self.bodies = budget;
        self
    }

    /// Sets the maximum number of outgoing messages that a connection queues. If the queue is full, senders of
    /// messages wait. Default: 32.
    #[must_use]
    pub fn with_queue(mut self, messages: usize) -> Self {
        self.queue = messages;
        self
    }

    /// Sets the maximum number of unanswered requests of a client. If a client has the maximum number of unanswered
    /// requests, the server returns an error for further requests. Default: 1024.
    #[must_use]
    pub fn with_max_open_requests(mut self, requests: usize) -> Self {
        self.max_open_requests = requests;
        self
    }

    /// Sets the maximum number of connections. If the maximum number of connections is open, the server rejects further
    /// connections with status 503. Default: 1024.
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets the interval at which the server sends pings to a client, and the maximum time without data from the
    /// client. A pong also counts as data. If no data arrives for the maximum time, the server closes the connection.
    /// The server checks at each ping whether the maximum time has passed. Default: 15 and 45 seconds.
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

    /// Sets how long a client can take to read one message before the server closes the connection. Default: 30
    /// seconds.
    #[must_use]
    pub fn with_send_timeout(mut self, timeout: Duration) -> Self {
        self.send_timeout = timeout;
        self
    }

    /// Sets whether the service supports the tasks of MCP 2025-11-25. Default: no.
    ///
    /// If `tasks` is true, the service receives requests with the method names of
    /// [`legacy_tasks`](crate::legacy_tasks). Set `tasks` to true only if the service is an `antiphon::Server`,
    /// because other handlers do not support these method names.
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

/// Creates an axum router with a WebSocket endpoint. The router passes each new connection to `serve`.
///
/// The router runs the future that `serve` returns as a Tokio task. Set `TCP_NODELAY` on the listener, for example
/// with `axum::serve::ListenerExt::tap_io`. Without `TCP_NODELAY`, the operating system can delay small messages by 40
/// ms.
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
                Err(error) => tracing::debug!(%error, "an upgrade to WebSocket failed"),
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

    /// Returns the value of the response header `Sec-WebSocket-Accept`, and whether the client offers the subprotocol
    /// `mcp`.
    fn handshake(&self, parts: &Parts) -> Result<(HeaderValue, bool), (StatusCode, HeaderMap, &'static str)> {
        let refuse = |status, why| Err((status, HeaderMap::new(), why));
        if parts.method != Method::GET {
            let allow = HeaderMap::from_iter([(header::ALLOW, HeaderValue::from_static("GET"))]);
            return Err((StatusCode::METHOD_NOT_ALLOWED, allow, "a WebSocket handshake must use GET"));
        }
        if !lists(&parts.headers, &header::CONNECTION, "upgrade")
            || !lists(&parts.headers, &header::UPGRADE, "websocket")
        {
            let upgrade = HeaderMap::from_iter([(header::UPGRADE, HeaderValue::from_static("websocket"))]);
            return Err((
                StatusCode::UPGRADE_REQUIRED,
                upgrade,
                "this URL accepts only WebSocket connections",
            ));
        }
        if parts.headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            let version =
                HeaderMap::from_iter([(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"))]);
            return Err((
                StatusCode::UPGRADE_REQUIRED,
                version,
                "the header Sec-WebSocket-Version must be 13",
            ));
        }
        let Some(accept) = parts
            .headers
            .get(header::SEC_WEBSOCKET_KEY)
            .and_then(|key| HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok())
        else {
            return refuse(StatusCode::BAD_REQUEST, "the header Sec-WebSocket-Key is missing");
        };
        let offers = parts.headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL);
        let chosen = lists(&parts.headers, &header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
        if chosen || (!offers && self.config.subprotocol_optional) {
            Ok((accept, chosen))
        } else {
            refuse(
                StatusCode::BAD_REQUEST,
                "the header Sec-WebSocket-Protocol must offer the subprotocol `mcp`",
            )
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

/// A WebSocket connection to one client, for [`rmcp::serve_server`].
///
/// If you drop the transport before the service has ended the connection, the WebSocket closes with the code 1008.
#[derive(Debug)]
pub struct WebSocketTransport {
    connection: Connection<Metered<TokioIo<Upgraded>>>,
    inbox: Inbox,
    max_message_bytes: usize,
    parts: Parts,
    /// An error that the server must send to the client before the server reads the next message.
    refusal: Option<Refusal>,
    room: Room,
    meter: Meter,
    /// The lease that ends when the caller's credentials expire.
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

    /// Returns the HTTP request that opened this WebSocket: its URL, its headers, and the extensions that middleware
    /// has added. As over streamable HTTP, each message to the service contains a copy of this request.
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
            // Mark the request as answered only now, because the response uses memory until it is queued.
            if let Some(id) = answered::<RoleServer>(&message) {
                inbox.settle(id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            // Do not read further messages while the client does not read its responses.
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
            // From here on, the server counts the weight of the message instead of the received bytes.
            self.meter.reset();
            match self.inbox.judge_within(&text, &self.room) {
                (Verdict::Deliver(mut message), share) => {
                    if matches!(message, JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_)) {
                        message.insert_extension(self.parts.clone());
                        // The request uses its share of the memory budget until the request is processed.
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
