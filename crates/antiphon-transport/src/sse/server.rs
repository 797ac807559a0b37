//! The server side of HTTP+SSE: one route for the event stream, and one route for posted messages.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts};
use rmcp::{
    RoleServer,
    model::{ClientRequest, ErrorCode, ErrorData, GetMeta as _, JsonRpcMessage, ProtocolVersion},
    service::RxJsonRpcMessage,
};
use tokio::{sync::Semaphore, time::timeout};

use super::session::{Session, Sessions, SseTransport};
use crate::{
    guard::{Caller, Guard, loopback_hosts, loopback_origins},
    inbox::{Refusal, Room, Verdict},
    revision::Revision,
    weight::{MAX_PARSED_BYTES, MemoryBudget, Share},
};

/// The settings of a server over HTTP+SSE.
#[derive(Clone, Debug)]
pub struct SseConfig {
    pub(super) path: String,
    pub(super) message_path: String,
    pub(super) public_message_path: Option<String>,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) max_message_bytes: usize,
    pub(super) max_parsed_bytes: usize,
    pub(super) bodies: MemoryBudget,
    pub(super) queue: usize,
    pub(super) max_open_requests: usize,
    pub(super) max_sessions: usize,
    pub(super) keep_alive: Option<Duration>,
    pub(super) send_timeout: Duration,
    pub(super) tasks: bool,
    pub(super) owner: Option<OwnerHook>,
}

/// A function that returns the caller that sent a request.
#[derive(Clone)]
pub(super) struct OwnerHook(Arc<Hook>);

type Hook = dyn Fn(&Parts) -> Option<String> + Send + Sync;

impl fmt::Debug for OwnerHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerHook")
    }
}

impl Default for SseConfig {
    fn default() -> Self {
        Self {
            path: "/sse".into(),
            message_path: "/message".into(),
            public_message_path: None,
            allowed_hosts: loopback_hosts(),
            allowed_origins: loopback_origins(),
            max_message_bytes: 4 * 1024 * 1024,
            max_parsed_bytes: MAX_PARSED_BYTES,
            bodies: MemoryBudget::default(),
            queue: 32,
            max_open_requests: 1024,
            max_sessions: 1024,
            keep_alive: Some(Duration::from_secs(15)),
            send_timeout: Duration::from_secs(30),
            tasks: false,
            owner: None,
        }
    }
}

impl SseConfig {
    /// Sets the path of the event stream, and the path to which clients post messages. Default: `/sse` and `/message`.
    #[must_use]
    pub fn with_paths(mut self, stream: impl Into<String>, messages: impl Into<String>) -> Self {
        self.path = stream.into();
        self.message_path = messages.into();
        self
    }

    /// Sets the path for messages that the server sends to clients. Use `with_public_message_path` if a proxy or a
    /// nested router changes the path. Default: the path to which clients post messages.
    #[must_use]
    pub fn with_public_message_path(mut self, path: impl Into<String>) -> Self {
        self.public_message_path = Some(path.into());
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
    /// responds with status 400 and the error -32600.
    #[must_use]
    pub fn with_max_parsed_bytes(mut self, bytes: usize) -> Self {
        self.max_parsed_bytes = bytes;
        self
    }

    /// Sets a memory budget for messages. Several endpoints can share one memory budget. Default: one budget of 64 MiB
    /// for the whole process.
    ///
    /// The memory of a message counts from the arrival of the message until the server has sent the response. If a
    /// message would exceed the budget, the server responds with status 503, or sends an error on the event stream.
    #[must_use]
    pub fn with_body_budget(mut self, budget: MemoryBudget) -> Self {
        self.bodies = budget;
        self
    }

    /// Sets the maximum number of messages that a session queues in each direction. If a queue is full, senders of
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

    /// Sets the maximum number of sessions. If the maximum number of sessions is open, the server rejects further
    /// sessions with status 503. Default: 1024.
    #[must_use]
    pub fn with_max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Sets the interval at which the server sends comments on an event stream, so that proxies keep the stream open.
    /// `None` disables the comments. Default: 15 seconds.
    #[must_use]
    pub fn with_keep_alive(mut self, period: impl Into<Option<Duration>>) -> Self {
        self.keep_alive = period.into();
        self
    }

    /// Sets how long a client can take to read an event, or to post a message. Default: 30 seconds.
    ///
    /// If a client takes longer than `timeout` to read an event, the session ends. If a client takes longer than
    /// `timeout` to post a message, the server rejects the message.
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

    /// Sets a function that returns the caller that sent a request. Default: the [`Caller`] that a middleware has
    /// added to the request, such as the layer of `antiphon::auth::Auth`.
    ///
    /// A session accepts messages only from the caller that opened the session. For other callers, the server responds
    /// as if the session did not exist. If the function returns `None` for a request, the server checks only the
    /// session ID.
    #[must_use]
    pub fn with_owner(mut self, owner: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.owner = Some(OwnerHook(Arc::new(owner)));
        self
    }

    pub(super) fn owner_of(&self, parts: &Parts) -> Option<String> {
        match &self.owner {
            Some(OwnerHook(owner)) => owner(parts),
            None => parts.extensions.get::<Caller>().map(|Caller(name)| name.as_ref().to_owned()),
        }
    }

    pub(super) fn endpoint(&self) -> &str {
        self.public_message_path.as_deref().unwrap_or(&self.message_path)
    }
}

/// Creates an axum router with the routes for the event stream and for messages. The router passes each new session to
/// `serve`.
///
/// The router runs the future that `serve` returns as a Tokio task. Set `TCP_NODELAY` on the listener, for example
/// with `axum::serve::ListenerExt::tap_io`. Without `TCP_NODELAY`, the operating system can delay small events by 40
/// ms.
///
/// # Examples
///
/// ```no_run
/// # async fn run(handler: impl rmcp::ServerHandler + Clone, listener: tokio::net::TcpListener) -> std::io::Result<()> {
/// use antiphon_transport::sse::{self, SseConfig, SseTransport};
///
/// let app = sse::router(SseConfig::default(), move |session: SseTransport| {
///     let handler = handler.clone();
///     async move {
///         if let Ok(running) = rmcp::serve_server(handler, session).await {
///             let _ = running.waiting().await;
///         }
///     }
/// });
/// axum::serve(listener, app).await
/// # }
/// ```
pub fn router<F, Fut>(config: SseConfig, serve: F) -> axum::Router
where
    F: Fn(SseTransport) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (path, message_path) = (config.path.clone(), config.message_path.clone());
    let table = Arc::new(SessionTable {
        guard: Guard::new(&config.allowed_hosts, &config.allowed_origins),
        places: Arc::new(Semaphore::new(config.max_sessions.min(Semaphore::MAX_PERMITS))),
        sessions: Sessions::default(),
        config,
    });
    let posts = Arc::clone(&table);
    let stream = axum::routing::any(move |request: Request| {
        let (table, serve) = (Arc::clone(&table), serve.clone());
        async move { table.open(request, serve) }
    });
    let messages = axum::routing::any(move |request: Request| {
        let table = Arc::clone(&posts);
        async move { table.post(request).await.unwrap_or_else(|refused| refused) }
    });
    axum::Router::new().route(&path, stream).route(&message_path, messages)
}

struct SessionTable {
    guard: Guard,
    places: Arc<Semaphore>,
    sessions: Sessions,
    config: SseConfig,
}

impl SessionTable {
    fn open<F, Fut>(&self, request: Request, serve: F) -> Response
    where
        F: FnOnce(SseTransport) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (parts, _) = request.into_parts();
        if let Err(refused) = self.guard.admit(&parts) {
            return refused.into_response();
        }
        if parts.method != Method::GET {
            // Clients of newer revisions try POST first. The status 405 indicates to these clients that the server uses
            // HTTP+SSE.
            return not_allowed("GET");
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let busy = (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], "too many sessions");
            return busy.into_response();
        };
        let Some(id) = session_id() else {
            return (StatusCode::INTERNAL_SERVER_ERROR, "the server could not create a session")
                .into_response();
        };
        let (body, transport) = self.sessions.open(&id, parts, &self.config, place);
        tokio::spawn(serve(transport));
        let headers = [
            (header::CONTENT_TYPE.as_str(), "text/event-stream"),
            (header::CACHE_CONTROL.as_str(), "no-cache, no-transform"),
            // Without this header, a buffering proxy would delay the events.
            ("x-accel-buffering", "no"),
        ];
        (headers, body).into_response()
    }

    async fn post(&self, request: Request) -> Result<Response, Response> {
        let (parts, body) = request.into_parts();
        self.guard.admit(&parts).map_err(axum::response::IntoResponse::into_response)?;
        if parts.method != Method::POST {
            return Err(not_allowed("POST"));
        }
        let refuse = |status: StatusCode, why: &'static str| (status, why).into_response();
        let Some(id) = query(&parts.uri) else {
            return Err(refuse(
                StatusCode::BAD_REQUEST,
                "the URL needs exactly one sessionId: use the URL of the `endpoint` event",
            ));
        };
        let owner = self.config.owner_of(&parts);
        let Some(session) = self.sessions.get(id).filter(|session| session.owner == owner) else {
            return Err(refuse(StatusCode::NOT_FOUND, "there is no such session: open a new stream"));
        };
        if !is_json(&parts.headers) {
            return Err(refuse(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the Content-Type must be application/json",
            ));
        }
        let read = async {
            let post = session.posts.acquire().await;
            (self.read(body).await, post)
        };
        let (bytes, _post) = match timeout(self.config.send_timeout, read).await {
            Ok((bytes, post)) => (bytes?, post),
            Err(_) => return Err(refuse(StatusCode::REQUEST_TIMEOUT, "the message took too long to arrive")),
        };
        let room = Room { max_parsed: self.config.max_parsed_bytes, budget: self.config.bodies.clone() };
        let taken = match session.inbox.judge_within(&bytes, &room) {
            (Verdict::Deliver(message), share) => take(&session, message, parts, share).await,
            // The client expects the error response on the event stream.
            (Verdict::Answer(refusal), _) if refusal.error.code.0 == crate::TRANSPORT_ERROR => {
                session.say(refusal.to_json()).await
            }
            (Verdict::Answer(refusal), _) => {
                let json = [(header::CONTENT_TYPE, "application/json")];
                return Err((StatusCode::BAD_REQUEST, json, refusal.to_json()).into_response());
            }
            (Verdict::Ignore, _) => Ok(()),
        };
        match taken {
            Ok(()) => Ok((StatusCode::ACCEPTED, "Accepted").into_response()),
            Err(crate::Error::Closed) => {
                Err(refuse(StatusCode::NOT_FOUND, "the session is over: open a new stream"))
            }
            Err(_) => Err(refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "the session is busy: read its events, then try again",
            )),
        }
    }

    /// Reads the body of a POST, up to the maximum length of a message.
    async fn read(&self, body: Body) -> Result<Vec<u8>, Response> {
        let mut chunks = body.into_data_stream();
        let mut bytes = Vec::new();
        let mut share = self.config.bodies.take(0);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk
                .map_err(|_| (StatusCode::BAD_REQUEST, "the request body is incomplete").into_response())?;
            if bytes.len() + chunk.len() > self.config.max_message_bytes {
                return Err((StatusCode::PAYLOAD_TOO_LARGE, "the message is too large").into_response());
            }
            if !share.as_mut().is_some_and(|share| share.grow(bytes.len() + chunk.len())) {
                let after = [(header::RETRY_AFTER, "1")];
                let busy = (StatusCode::SERVICE_UNAVAILABLE, after, "messages take too much memory at once");
                return Err(busy.into_response());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

async fn take(
    session: &Session,
    mut message: RxJsonRpcMessage<RoleServer>,
    parts: Parts,
    share: Option<Share>,
) -> crate::Result<()> {
    if let JsonRpcMessage::Request(request) = &message
        && let Some(error) = too_new(&request.request)
    {
        session.inbox.settle(&request.id);
        return session.say(Refusal { id: Some(request.id.clone()), error }.to_json()).await;
    }
    message.insert_extension(parts);
    // The request uses its share of the memory budget until the request is processed.
    message.insert_extension(Arc::new(share));
    session.deliver(message).await
}

/// Returns the error for requests of MCP 2026-07-28 and later, which this transport does not support. An old server
/// would return the same error, so a client falls back to `initialize`.
fn too_new(request: &ClientRequest) -> Option<ErrorData> {
    if matches!(request, ClientRequest::DiscoverRequest(_)) {
        return Some(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "server/discover", None));
    }
    let asked = request.get_meta().protocol_version()?;
    match Revision::of(Some(asked.as_str())) {
        Revision::Session => None,
        Revision::Rounds => {
            let carried = ProtocolVersion::known_up_to(&Revision::Session.protocol_version());
            Some(ErrorData::unsupported_protocol_version(asked, carried))
        }
    }
}

/// Returns 128 random bits as text.
fn session_id() -> Option<String> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(format!("{:032x}", u128::from_ne_bytes(bits)))
}

fn query(uri: &Uri) -> Option<&str> {
    let mut ids = uri.query()?.split('&').filter_map(|pair| pair.strip_prefix("sessionId="));
    let id = ids.next().filter(|id| !id.is_empty())?;
    ids.next().is_none().then_some(id)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn not_allowed(allow: &'static str) -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allow)]).into_response()
}
