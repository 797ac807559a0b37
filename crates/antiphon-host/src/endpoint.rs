//! Endpoints of servers, and how to connect to them.

use std::{fmt, sync::Arc, time::Duration};

use antiphon_transport::{legacy_tasks::Lines, revision::Revision};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, RoleClient,
    service::{ClientInitializeError, RunningService},
    transport::IntoTransport,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    answering::Answering,
    error::{Error, Result},
    form::BoxFuture,
    ordered::Ordered,
    stray::StrayOutput,
};

pub(crate) type Running = RunningService<RoleClient, Answering>;

/// The protocol revisions that a host uses for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifecycle {
    /// Uses the newest revision that both the host and the server support. With `Auto`, the host tries MCP 2026-07-28
    /// first.
    #[default]
    Auto,
    /// Uses MCP 2026-07-28, which has no sessions.
    Modern,
    /// Uses MCP 2025-11-25 or an older revision, with a session.
    Legacy,
}

/// The address of a server, and the transport that a host uses to connect to the server. A host can connect to an
/// endpoint several times.
#[derive(Clone)]
pub struct Endpoint {
    name: String,
    /// The URL, if the server is on a network.
    #[cfg(feature = "results")]
    url: Option<String>,
    connector: Arc<dyn Connector>,
    #[cfg(feature = "auth")]
    authority: Option<Arc<crate::auth::Authority>>,
}

trait Connector: Send + Sync {
    fn connect(
        &self,
        answering: Answering,
        mode: ClientLifecycleMode,
    ) -> BoxFuture<'_, Result<Running, Failed>>;
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a connector did not connect.
enum Failed {
    /// The transport could not be opened.
    Open(Cause),
    /// The server did not respond as expected. If `cause` is `Some`, `cause` describes the reason better than `error`.
    Handshake { error: Box<ClientInitializeError>, cause: Option<Cause> },
}

/// The cause of [`Error::Connect`] if the server did not respond in time.
#[derive(Debug, thiserror::Error)]
#[error("the server did not answer within {after:?}, the time limit to connect")]
struct NoAnswer {
    after: Duration,
    /// The last line on the program's standard output that is not an MCP message. The program may have printed the line
    /// instead of its response.
    #[source]
    stray: Option<StrayOutput>,
}

impl Endpoint {
    /// Creates an endpoint for a server over streamable HTTP.
    #[cfg(feature = "http")]
    pub fn http(url: impl Into<String>) -> Self {
        crate::http::HttpEndpoint::new(url).into()
    }

    /// Creates an endpoint for a program that serves MCP over its standard input and output. The host starts the
    /// program for each connection. The program ends when the connection closes.
    #[cfg(feature = "process")]
    pub fn command(
        program: impl Into<String>,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let program = program.into();
        let arguments: Vec<String> = arguments.into_iter().map(Into::into).collect();
        Self::child(program.clone(), move || {
            let mut command = tokio::process::Command::new(&program);
            command.args(&arguments);
            command
        })
    }

    /// Creates an endpoint for a program, like [`command`](Self::command), but with a specific environment, working
    /// directory or standard error. For each connection, the host calls `prepare` to get the command.
    ///
    /// The host reads the standard error of the command if the standard error is piped. The error of a failed
    /// connection then contains the last lines of the standard error, see [`ProgramExited`](crate::ProgramExited).
    #[cfg(feature = "process")]
    pub fn child(
        name: impl Into<String>,
        prepare: impl Fn() -> tokio::process::Command + Send + Sync + 'static,
    ) -> Self {
        Self::with_connector(name.into(), Program(Box::new(prepare)))
    }

    /// Creates an endpoint for a server over WebSocket, for example `wss://mcp.example.com/ws`.
    #[cfg(feature = "websocket")]
    pub fn websocket(url: impl Into<String>) -> Self {
        Self::websocket_at(url.into())
    }

    /// Creates the endpoint for [`websocket`](Self::websocket). Like `sse_at`, `websocket_at` is not generic. If
    /// `websocket_at` were generic, each program with a host would compile the transport and the connection again.
    #[cfg(feature = "websocket")]
    fn websocket_at(url: String) -> Self {
        use antiphon_transport::websocket::{WebSocketClient, WebSocketClientConfig};

        Self::new(url.clone(), move || {
            let url = url.clone();
            // The transport must not reconnect, because only the host can decide which requests to repeat.
            async move {
                WebSocketClient::connect(&url, WebSocketClientConfig::default().with_reconnect(None)).await
            }
        })
        .at_its_name()
    }

    /// Creates an endpoint for a server over the HTTP+SSE transport of MCP 2024-11-05, for example
    /// `https://mcp.example.com/sse`.
    #[cfg(feature = "sse")]
    pub fn sse(url: impl Into<String>) -> Self {
        Self::sse_at(url.into())
    }

    #[cfg(feature = "sse")]
    fn sse_at(url: String) -> Self {
        use antiphon_transport::sse::{SseClient, SseClientConfig};

        Self::new(url.clone(), move || {
            let url = url.clone();
            async move { SseClient::connect(&url, SseClientConfig::default().with_reconnect(None)).await }
        })
        .at_its_name()
    }

    /// Creates an endpoint for a server over a byte stream, such as a socket or a pipe. The host calls `open` for each
    /// connection.
    pub fn stream<F, Fut, S, O>(name: impl Into<String>, open: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<S, O>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        O: fmt::Display + Send + 'static,
    {
        Self::new(name, move || {
            let opening = open();
            async move { opening.await.map(Lines::client) }
        })
    }

    /// Creates an endpoint for a server over any transport of the SDK. The host calls `open` for each connection.
    ///
    /// When the SDK reads and writes messages, the SDK discards the fields for tasks of MCP 2025-11-25. The endpoints
    /// that the other functions of `Endpoint` create, and the transports of the crate `antiphon-transport`, preserve
    /// the fields for tasks. `Endpoint::new` uses your transport without changes.
    pub fn new<F, Fut, T, E, O, A>(name: impl Into<String>, open: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, O>> + Send + 'static,
        T: IntoTransport<RoleClient, E, A> + Send + 'static,
        E: std::error::Error + Send + Sync + 'static,
        O: fmt::Display + Send + 'static,
        A: 'static,
    {
        struct Opening<F, X>(F, std::marker::PhantomData<fn() -> X>);

        impl<F, Fut, T, E, O, A> Connector for Opening<F, (T, E, A)>
        where
            F: Fn() -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<T, O>> + Send + 'static,
            T: IntoTransport<RoleClient, E, A> + Send + 'static,
            E: std::error::Error + Send + Sync + 'static,
            O: fmt::Display + Send + 'static,
            A: 'static,
        {
            fn connect(
                &self,
                answering: Answering,
                mode: ClientLifecycleMode,
            ) -> BoxFuture<'_, Result<Running, Failed>> {
                let opening = (self.0)();
                Box::pin(async move {
                    let transport = opening.await.map_err(|error| Failed::Open(error.to_string().into()))?;
                    let transport =
                        Ordered { inner: transport.into_transport(), events: answering.events.clone() };
                    let served = answering.serve_with_lifecycle(transport, mode).await;
                    served.map_err(|error| Failed::Handshake { error: Box::new(error), cause: None })
                })
            }
        }

        Self::with_connector(name.into(), Opening(open, std::marker::PhantomData))
    }

    fn with_connector(name: String, connector: impl Connector + 'static) -> Self {
        Self {
            name,
            #[cfg(feature = "results")]
            url: None,
            connector: Arc::new(connector),
            #[cfg(feature = "auth")]
            authority: None,
        }
    }

    /// Uses the name of the endpoint as the URL of the endpoint.
    #[cfg(any(feature = "http", feature = "websocket", feature = "sse"))]
    #[cfg_attr(not(feature = "results"), expect(unused_mut, reason = "nobody asks where it is"))]
    pub(crate) fn at_its_name(mut self) -> Self {
        #[cfg(feature = "results")]
        {
            self.url = Some(self.name.clone());
        }
        self
    }

    /// Returns the URL, if the server is on a network.
    #[cfg(feature = "results")]
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    #[cfg(feature = "auth")]
    pub(crate) fn with_authority(mut self, authority: Arc<crate::auth::Authority>) -> Self {
        self.authority = Some(authority);
        self
    }

    /// Starts an attempt to connect or to send a request. The server can reject the attempt until the host is
    /// authorized.
    #[cfg_attr(
        not(feature = "auth"),
        expect(clippy::unused_self, reason = "without the feature nobody authorizes")
    )]
    pub(crate) fn attempt(&self) -> Attempt {
        Attempt {
            #[cfg(feature = "auth")]
            with: self.authority.as_ref().map(crate::auth::Authority::attempt),
        }
    }

    /// Returns the name of the endpoint, which appears in errors and logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects with the newest allowed revision that both sides support, and gets a token if the server requires
    /// authorization. Each attempt can take up to `limit`.
    pub(crate) async fn connect(
        &self,
        answering: &Answering,
        lifecycle: Lifecycle,
        limit: Option<Duration>,
    ) -> Result<Running> {
        #[cfg(feature = "auth")]
        if let Some(authority) = &self.authority {
            // Read the credential store now, so that its errors are not reported as connection errors.
            authority.client().await?;
        }
        let mut attempt = self.attempt();
        loop {
            match self.connect_once(answering, lifecycle, limit).await {
                Err(error) => attempt.overcome(error).await?,
                connected => return connected,
            }
        }
    }

    async fn connect_once(
        &self,
        answering: &Answering,
        lifecycle: Lifecycle,
        limit: Option<Duration>,
    ) -> Result<Running> {
        let mut mode = match lifecycle {
            Lifecycle::Legacy => ClientLifecycleMode::Initialize,
            Lifecycle::Modern => modern(),
            Lifecycle::Auto => ClientLifecycleMode::Auto {
                preferred_versions: Revision::Rounds.protocol_versions(),
                legacy_version: Some(Revision::Session.protocol_version()),
            },
        };
        loop {
            let connecting = self.connector.connect(answering.clone(), mode.clone());
            let connected = match limit {
                Some(after) => tokio::time::timeout(after, connecting).await.unwrap_or_else(|_| {
                    let stray = answering.events.strays().first();
                    Err(Failed::Open(Box::new(NoAnswer { after, stray })))
                }),
                None => connecting.await,
            };
            let (error, cause) = match connected {
                Ok(running) => return Ok(running),
                Err(Failed::Open(source)) => {
                    return Err(Error::Connect { endpoint: self.name.clone(), source });
                }
                Err(Failed::Handshake { error, cause }) => (*error, cause),
            };
            match another_way(&mode, &error).filter(|_| lifecycle == Lifecycle::Auto) {
                Some(other) => {
                    tracing::debug!(endpoint = self.name, %error, ?mode, ?other, "the connection attempt failed; trying another mode");
                    mode = other;
                }
                None => return Err(self.failed(error, cause)),
            }
        }
    }

    fn failed(&self, error: ClientInitializeError, cause: Option<Cause>) -> Error {
        let endpoint = self.name.clone();
        #[cfg(feature = "http")]
        if let Some(challenge) = error.auth_challenge() {
            return Error::Unauthorized { endpoint, challenge: challenge.to_owned() };
        }
        Error::Connect { endpoint, source: cause.unwrap_or_else(|| root_cause(error)) }
    }

    /// Returns an authorization error if the server rejected a request because the server requires authorization.
    #[cfg(feature = "http")]
    pub(crate) fn refused(&self, error: &(dyn std::error::Error + 'static)) -> Option<Error> {
        use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};

        let mut cause = Some(error);
        while let Some(error) = cause {
            let challenge = error.downcast_ref::<AuthRequiredError>().map(|it| &it.www_authenticate_header);
            let challenge = challenge.or_else(|| {
                error.downcast_ref::<InsufficientScopeError>().map(|it| &it.www_authenticate_header)
            });
            if let Some(challenge) = challenge {
                return Some(Error::Unauthorized {
                    endpoint: self.name.clone(),
                    challenge: challenge.clone(),
                });
            }
            cause = error.source();
        }
        None
    }
}

/// An attempt to connect or to send a request. The server can reject the attempt until the host is authorized.
pub(crate) struct Attempt {
    #[cfg(feature = "auth")]
    with: Option<crate::auth::Attempt>,
}

impl Attempt {
    /// Gets a new token after an authorization error, so that the caller can retry. Returns an error if `error` is
    /// not an authorization error, or if the host cannot get a token.
    #[cfg_attr(
        not(feature = "auth"),
        expect(clippy::unused_async, reason = "without the feature nobody authorizes")
    )]
    pub(crate) async fn overcome(&mut self, error: Error) -> Result<()> {
        #[cfg(feature = "auth")]
        if let Some(attempt) = &mut self.with {
            return attempt.overcome(error).await;
        }
        Err(error)
    }
}

/// Returns the cause of a failed connection. The error messages of the SDK contain internal type names and hide the
/// cause.
fn root_cause(error: ClientInitializeError) -> Cause {
    match error {
        // Both revisions failed, nearly always with the same cause.
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => root_cause(*fallback),
        #[cfg(feature = "http")]
        ClientInitializeError::TransportError { error, .. } => crate::http::root_cause(error.error),
        #[cfg(not(feature = "http"))]
        ClientInitializeError::TransportError { error, .. } => error.error,
        error => Box::new(error),
    }
}

fn modern() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: Revision::Rounds.protocol_versions() }
}

/// Returns the next mode for a connection attempt to a server whose revision is unknown. The host tries each mode only
/// once.
fn another_way(tried: &ClientLifecycleMode, error: &ClientInitializeError) -> Option<ClientLifecycleMode> {
    use ClientInitializeError as Failed;

    #[cfg(feature = "http")]
    if error.is_authorization_required() {
        return None;
    }
    match (tried, error) {
        (ClientLifecycleMode::Initialize, _) => None,
        // The SDK waits ten seconds for the response to `server/discover`. Then the SDK sends `initialize`, and fails
        // if the response to `server/discover` arrives after that. A program that is compiled before it starts can be
        // that slow. The late response shows the revision of the server, so connect again with this revision.
        (ClientLifecycleMode::Auto { .. }, Failed::ConflictInitResponseId(..)) => Some(modern()),
        (ClientLifecycleMode::Auto { .. }, Failed::UncorrelatedErrorResponse { .. }) => {
            Some(ClientLifecycleMode::Initialize)
        }
        // The SDK falls back if the server does not support `server/discover`. Some servers respond differently: with
        // an empty result, or with another error.
        (
            _,
            Failed::ExpectedInitResponse(_)
            | Failed::ExpectedInitResult(_)
            | Failed::JsonRpcError(_)
            | Failed::NoCompatibleProtocolVersion { .. },
        ) => Some(ClientLifecycleMode::Initialize),
        _ => None,
    }
}

/// Returns whether the connection was lost. If the connection was not lost, the server responded, and its response is
/// the cause of the error.
#[cfg(feature = "process")]
fn is_lost(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => true,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_lost(fallback),
        _ => false,
    }
}

/// A connector that starts a program for each connection.
#[cfg(feature = "process")]
struct Program(Box<dyn Fn() -> tokio::process::Command + Send + Sync>);

#[cfg(feature = "process")]
impl Connector for Program {
    fn connect(
        &self,
        answering: Answering,
        mode: ClientLifecycleMode,
    ) -> BoxFuture<'_, Result<Running, Failed>> {
        Box::pin(async move {
            let strays = answering.events.strays().clone();
            let process = crate::process::Process::start(
                (self.0)(),
                strays.clone(),
                answering.events.taps().stderr.clone(),
            );
            let process = process.map_err(|error| Failed::Open(error.into()))?;
            let ending = process.ending();
            let transport = Ordered { inner: process, events: answering.events.clone() };
            match answering.serve_with_lifecycle(transport, mode).await {
                Ok(running) => Ok(running),
                Err(error) => {
                    let cause: Option<Cause> = match strays.not_a_server() {
                        Some(not_a_server) => Some(not_a_server.into()),
                        None if is_lost(&error) => ending.exited().await.map(Into::into),
                        None => None,
                    };
                    Err(Failed::Handshake { error: Box::new(error), cause })
                }
            }
        })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).finish_non_exhaustive()
    }
}
