//! The HTTP route for streamable HTTP, and the code that handles each request.

use std::{io, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, any},
};
use http::{HeaderMap, request::Parts};
use rmcp::{
    ServerHandler,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::SessionManager,
    },
};

use antiphon_transport::{
    drain::{Drain, Flight},
    jitter,
    revision::Revision,
    streamable::{LAST_EVENT, METHOD, RejectionSlot, SESSION, Streamable, VERSION},
};

use super::{
    Application, HttpConfig, SharedSessions,
    local::LocalSessions,
    request::{self, Bodies, Question},
    shared::Sessions,
};
use crate::serve::Held;

/// Creates an axum route that serves MCP over streamable HTTP.
///
/// The function `service` creates a handler. The endpoint calls `service` for each session, and for each request
/// outside of a session. If you pass `sessions`, replicas share the MCP 2025-11-25 sessions. Without `sessions`, all
/// requests of a session must arrive at the process that opened the session.
///
/// For a server of the crate `antiphon`, use `Server::router`, which contains this route. Use `endpoint` for a handler
/// that you wrote with the SDK:
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
    // Axum clones the route for every request. To make cloning cheap, the route contains only one handle.
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

/// The streamable HTTP endpoint. The endpoint keeps its sessions in this process, or shares its sessions with all
/// replicas.
///
/// The endpoint has two services of the SDK, because each service has a single cancellation token. When the token of a
/// service is cancelled, the service answers its requests in flight with an error.
struct Endpoint<S, M> {
    app: Arc<dyn Application>,
    drain: Drain,
    /// The service for requests that end when the server has sent the response. The service can complete these requests
    /// until the server stops.
    calls: StreamableHttpService<S, M>,
    /// The service for event streams that a client opens only to receive notifications. Streams on which the client
    /// only listens end when the server drains.
    streams: StreamableHttpService<S, M>,
    sessions: Arc<M>,
    bodies: Bodies,
    has_sessions: bool,
    /// Whether only the caller that opened a session can use the session.
    has_owners: bool,
    max_sessions: usize,
    stream_age: Option<Duration>,
}

/// The error for a request that the server does not accept, because the server is draining.
struct Ended;

/// The kind of response that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The response to a request. If the client resumes the stream of a response, the response consists of the
    /// remaining events.
    Call,
    /// The response to a subscription of an MCP 2026-07-28 client. The handler ends the subscription when the server
    /// drains.
    Subscription,
    /// A 2025-11-25 stream on which the client listens.
    Listen,
}

impl<S: ServerHandler, M: SessionManager> Endpoint<S, M> {
    fn new(
        app: Arc<dyn Application>,
        service: impl Fn() -> S + Clone + Send + Sync + 'static,
        config: &HttpConfig,
        settings: StreamableHttpServerConfig,
        sessions: Arc<M>,
    ) -> Self {
        let drain = app.drain().clone();
        drain.accept_requests();
        let handler = move || io::Result::Ok(service());
        let streams = settings.clone().with_cancellation_token(drain.draining.child_token());
        let calls = settings.with_cancellation_token(drain.stopped.child_token());
        Self {
            streams: StreamableHttpService::new(handler.clone(), Arc::clone(&sessions), streams),
            calls: StreamableHttpService::new(handler, Arc::clone(&sessions), calls),
            sessions,
            bodies: Bodies::new(config),
            has_sessions: config.sessions,
            has_owners: config.sessions && app.has_principals(),
            app,
            drain,
            max_sessions: config.max_sessions,
            stream_age: config.max_stream_age,
        }
    }

    /// Counts a request as in flight. Returns an error if the server no longer accepts requests of the kind `kind`.
    /// Only POST requests count as in flight. A request that resumes the stream of a call, or that listens for
    /// notifications, does not count as in flight.
    fn begin(&self, parts: &Parts, kind: Kind) -> Result<Option<Flight>, Ended> {
        let flight = (parts.method == Method::POST).then(|| self.drain.request());
        // The server counts the request before this check. So if the server stops in between, the request is already
        // counted.
        let over = if kind == Kind::Call { &self.drain.stopped } else { &self.drain.draining };
        if over.is_cancelled() { Err(Ended) } else { Ok(flight) }
    }

    /// Returns the kind of response that a request needs. If the client resumes the stream of a call, the function
    /// `holds` returns whether this process runs the call.
    fn kind(parts: &Parts, holds: impl Fn(&str) -> bool) -> Kind {
        if parts.method == Method::POST {
            let listens = parts.headers.get(&METHOD).is_some_and(|method| method == "subscriptions/listen");
            return if listens { Kind::Subscription } else { Kind::Call };
        }
        let last = parts.headers.get(&LAST_EVENT).and_then(|last| last.to_str().ok());
        if parts.method == Method::GET && last.is_none_or(|last| !holds(last)) {
            return Kind::Listen;
        }
        Kind::Call
    }

    /// Reads a request, and checks whether the caller is allowed to send the request. Returns the request in the form
    /// that the SDK requires. If the request is rejected, returns the HTTP response as the error.
    async fn prepare(&self, request: Request, said: Said) -> Result<Question, Response> {
        let read = request::read(request, &self.bodies).await?;
        // The server checks the caller before it translates the request, because the check needs the client's original
        // message.
        let challenge = self.app.challenge(&read, said.is_legacy);
        if let Some(challenge) = challenge
            && let Some(response) = challenge.await
        {
            return Err(response);
        }
        Ok(read.question(said))
    }

    async fn answer(&self, question: Question, kind: Kind, flight: Option<Flight>) -> Response {
        // The server begins its background work here, because the router may have been created outside of a runtime.
        self.app.begin();
        let Question { mut request, asks, begins, room } = question;
        if begins && self.drain.draining.is_cancelled() {
            return shutting_down();
        }
        let streamable = Streamable { room, ..Streamable::default() };
        request.extensions_mut().insert(streamable.clone());
        let is_end = request.method() == Method::DELETE;
        let response = match kind {
            Kind::Call | Kind::Subscription => Box::pin(self.calls.handle(request)).await,
            Kind::Listen => Box::pin(self.streams.handle(request)).await,
        }
        .into_response();
        let response = if asks { request::answer(response).await } else { response };
        let age = self.stream_age.filter(|_| kind != Kind::Call);
        let age = age.map(|age| jitter::between(age * 3 / 4, age));
        let response = advised(ended(response, is_end), &streamable.shed);
        response.map(|body| Body::new(Held::new(body, flight, age)))
    }
}

impl<S: ServerHandler> Endpoint<S, LocalSessions> {
    /// Creates an endpoint whose sessions are in the memory of this process.
    fn alone(
        app: Arc<dyn Application>,
        service: impl Fn() -> S + Clone + Send + Sync + 'static,
        config: &HttpConfig,
    ) -> Self {
        let sessions = Arc::new(LocalSessions::new(Arc::clone(&app), config));
        Self::new(app, service, config, settings(config), sessions)
    }

    async fn serve(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let kind = Self::kind(&parts, LocalSessions::holds);
        let flight = match self.begin(&parts, kind) {
            Ok(flight) => flight,
            Err(Ended) => return shutting_down(),
        };
        let said = Said::of(&parts.headers, self.has_sessions);
        let (parts, session) = session_of(parts, said);
        if let Some(id) = session.filter(|_| self.has_owners)
            && !self.sessions.admits(&id, &parts)
        {
            return NO_SESSION.into_response();
        }
        let question = match self.prepare(Request::from_parts(parts, body), said).await {
            Ok(question) => question,
            Err(refused) => return refused,
        };
        if question.begins && self.sessions.count().await >= self.max_sessions {
            return too_many_sessions();
        }
        self.answer(question, kind, flight).await
    }
}

impl<S: ServerHandler> Endpoint<S, Sessions> {
    /// Creates an endpoint whose sessions are shared by all replicas.
    fn replicated(
        app: Arc<dyn Application>,
        service: impl Fn() -> S + Clone + Send + Sync + 'static,
        config: &HttpConfig,
        sessions: Arc<Sessions>,
    ) -> Self {
        let mut settings = settings(config);
        settings.session_store = Some(Arc::clone(&sessions) as _);
        Self::new(app, service, config, settings, sessions)
    }

    async fn serve(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let kind = Self::kind(&parts, |last| self.sessions.holds(last));
        let flight = match self.begin(&parts, kind) {
            Ok(flight) => flight,
            Err(Ended) => return shutting_down(),
        };
        let said = Said::of(&parts.headers, self.has_sessions);
        let (parts, session) = match self.admit(parts, said).await {
            Ok(admitted) => admitted,
            Err(refused) => return refused.into_response(),
        };
        let question = match self.prepare(Request::from_parts(parts, body), said).await {
            Ok(question) => question,
            Err(refused) => return refused,
        };
        if question.begins && self.sessions.count() >= self.max_sessions {
            return too_many_sessions();
        }
        let _first = match &session {
            Some(session) => self.sessions.restoring(session).await,
            None => None,
        };
        self.answer(question, kind, flight).await
    }

    /// Rejects a request that uses a session of another caller.
    async fn admit(&self, parts: Parts, said: Said) -> Result<(Parts, Option<String>), Refused> {
        let failed = |error: antiphon_store::Error| {
            tracing::error!(%error, "the backend that replicas share cannot be reached");
            (StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable: try again later")
        };
        let (parts, session) = session_of(parts, said);
        if !said.may_have_session {
            // A request without a session needs the connection to the other replicas only if the request is a
            // subscription. A subscription must not miss a change that happens after the server has acknowledged the
            // subscription.
            if parts.headers.get(&METHOD).is_some_and(|method| method == "subscriptions/listen") {
                self.app.hear_changes().await.map_err(failed)?;
            }
            return Ok((parts, None));
        }
        self.sessions.ready().await.map_err(failed)?;
        if let Some(id) = session.as_ref().filter(|_| self.has_owners)
            && !self.sessions.admits(id, &parts).await.map_err(failed)?
        {
            return Err(NO_SESSION);
        }
        Ok((parts, session))
    }
}

/// Returns the settings for the services of the SDK. `Endpoint::new` sets the cancellation tokens of the services.
fn settings(config: &HttpConfig) -> StreamableHttpServerConfig {
    let mut settings = StreamableHttpServerConfig::default()
        .with_allowed_hosts(config.allowed_hosts.clone())
        .with_allowed_origins(config.allowed_origins.clone())
        .enforce_origin_validation()
        .with_sse_keep_alive(config.sse_keep_alive);
    // The session decides whether a stream begins with an empty event, and with which retry time. The SDK would begin
    // all streams in the same way.
    settings.sse_retry = None;
    settings.legacy_session_mode = config.sessions;
    settings.json_response = config.json_response;
    settings.max_request_body_bytes = config.max_body_bytes;
    settings
}

/// Changes the status of the response for an ended session from 202 to 200. Servers of other SDKs return 200 for an
/// ended session. Some clients treat the SDK's 202 as an error.
fn ended(mut response: Response, is_end: bool) -> Response {
    if is_end && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::OK;
    }
    response
}

/// Adds the status and the `Retry-After` header to the response of a rejected request. If the response is a stream,
/// the status can no longer change, and only the error in the stream contains the retry time.
fn advised(mut response: Response, shed: &RejectionSlot) -> Response {
    let Some((own, seconds)) = shed.get() else { return response };
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        *response.status_mut() =
            if own { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::SERVICE_UNAVAILABLE };
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Returns the response of a process that has too many sessions. Clients can retry, because the server closes idle
/// sessions after some time.
fn too_many_sessions() -> Response {
    let after = [(header::RETRY_AFTER, "30")];
    (StatusCode::SERVICE_UNAVAILABLE, after, "Service Unavailable: there are too many sessions")
        .into_response()
}

/// Returns the response of a server that is shutting down. Clients can retry, because another replica, or the next
/// process, accepts requests.
fn shutting_down() -> Response {
    let headers = [(header::RETRY_AFTER, "1"), (header::CONNECTION, "close")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, "Service Unavailable: the server is shutting down")
        .into_response()
}

type Refused = (StatusCode, &'static str);

/// The response that the SDK sends for an unknown session.
const NO_SESSION: Refused = (StatusCode::NOT_FOUND, "Not Found: Session not found");

/// Returns the session that a request belongs to, and the request.
///
/// Invariant: a session ID reaches the SDK only in a request from a caller that can use this session. MCP 2026-07-28
/// has no sessions, and requires servers to ignore the session header. So `session_of` removes the session header from
/// MCP 2026-07-28 requests. `session_of` also removes the session header if the endpoint has no sessions. If the
/// endpoint has no sessions but keeps the header, the server would store settings in a session that ends with the
/// request.
fn session_of(mut parts: Parts, said: Said) -> (Parts, Option<String>) {
    if !said.may_have_session {
        parts.headers.remove(&SESSION);
        return (parts, None);
    }
    let session = parts.headers.get(&SESSION).and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
    (parts, session)
}

/// Information from the headers of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// Whether the protocol revision of the request is older than 2026-07-28.
    pub(super) is_legacy: bool,
    /// Whether the request can belong to a session, or begin a session. MCP 2026-07-28 has no sessions. But the SDK
    /// treats an `initialize` request with the revision 2026-07-28 as a 2025-11-25 request. An `initialize` request
    /// has the method header `initialize`, or no method header. All other MCP 2026-07-28 requests must have the method
    /// header.
    pub(super) may_have_session: bool,
}

impl Said {
    fn of(headers: &HeaderMap, has_sessions: bool) -> Self {
        let version = headers.get(&VERSION).and_then(|version| version.to_str().ok());
        let is_legacy = match Revision::of(version) {
            Revision::Session => true,
            Revision::Rounds => false,
        };
        let may_have_session =
            has_sessions && (is_legacy || headers.get(&METHOD).is_none_or(|method| method == "initialize"));
        Self { is_legacy, may_have_session }
    }
}
