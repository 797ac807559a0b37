//! The server, its builder and its transports.

mod builder;
#[cfg(feature = "http")]
pub(crate) mod http;
pub(crate) mod replicas;
#[cfg(feature = "stdio")]
mod stdio;
mod update;

use std::{fmt, sync::Arc, time::Duration};

use antiphon_llm::BoxFuture;
use antiphon_transport::{
    boxed::BoxTransport,
    drain::{Counted, Drain},
    legacy_tasks::Lines,
};
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::{builder::ServerBuilder, update::Items};
use crate::{
    changes::Changes,
    error::Result,
    mcp::{Served, Service},
    run::client::Connection,
    task::Runs,
    tool::{ToolCall, ToolResult},
};

/// The replacement for the HTTP module if the feature `http` is off. The server then has no HTTP sessions and no answer
/// page.
#[cfg(not(feature = "http"))]
mod http {
    use std::sync::Arc;

    use antiphon_store::Backend;
    use antiphon_transport::drain::Drain;
    use tokio_util::sync::CancellationToken;

    use super::{Shared, replicas::Sessions};
    use crate::{asking::AskPolicy, mcp::Authorize};

    pub(super) fn shared_sessions(
        _: &Backend,
        _: &Drain,
        _: &CancellationToken,
    ) -> Option<Box<dyn Sessions>> {
        None
    }

    pub(super) fn sign_in_problem(_: &AskPolicy, _: Option<&Arc<dyn Authorize>>, _: bool) -> Option<String> {
        None
    }

    pub(super) fn begin_loopback(_: &Arc<Shared>) {}
}

/// An MCP server with tools, prompts and resources.
///
/// Each clone is a handle to the same server. You can serve one server over several transports at the same time.
///
/// ```
/// use antiphon::prelude::*;
///
/// async fn hello(_: &Ctx, _: ()) -> Result<String> {
///     Ok("hello".into())
/// }
///
/// let server = Server::builder("greeter", "1.0.0").tool(Tool::new("hello", "Says hello", hello)).build()?;
/// # let _ = server;
/// # Ok::<(), antiphon::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
}

/// The data that all transports and clones of a server share.
pub(crate) struct Shared {
    /// The service that answers requests.
    pub(crate) service: Arc<Service>,
    pub(crate) replicas: Option<Arc<replicas::Replicas>>,
    pub(crate) drain: Drain,
    /// How long requests in flight can continue after the start of a shutdown.
    drain_limit: Duration,
}

impl Shared {
    /// Starts the background work of the server.
    fn begin(&self) {
        if let Some(replicas) = &self.replicas {
            replicas.begin();
        }
        if let Some(tasks) = &self.service.tasks {
            tasks.begin();
        }
    }
}

impl Server {
    /// Creates a builder for a server with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ServerBuilder {
        ServerBuilder::new(name.into(), version.into())
    }

    /// Returns a handle with which you notify clients that a list of tools, prompts or resources has changed, or that a
    /// resource has changed.
    pub fn changes(&self) -> &Changes {
        &self.shared.service.runtime.changes
    }

    /// Notifies the client that the user has finished on the web page of a URL elicitation. Call this method, for
    /// example, in the handler of an OAuth callback or of a payment page.
    ///
    /// `id` is the elicitation ID: [`ElicitUrl::id`](crate::elicitation::ElicitUrl::id), or the ID that you passed to
    /// [`UrlElicitation::new`](crate::elicitation::UrlElicitation::new). The server sends
    /// `notifications/elicitation/complete` to the MCP 2025-11-25 session that received this elicitation. The
    /// elicitation can come from a call, a `-32042` error, or a task. If the server has a
    /// [backend](crate::ServerBuilder::with_backend), you can call this method on any replica. If no session received
    /// the elicitation ID, or if the session has ended, the server ignores the call.
    ///
    /// For each session, the server stores the 64 most recent elicitation IDs, of up to 1,024 bytes each. MCP
    /// 2026-07-28 has no notification for a completed elicitation, so MCP 2026-07-28 clients receive no notification.
    /// For MCP 2026-07-28 clients, the tool itself must check whether the user has finished on the web page.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::Server;
    /// async fn callback(server: Server, elicitation: String) {
    ///     // Store the token first, because the client calls the tool again after the notification.
    ///     server.elicitation_complete(elicitation);
    /// }
    /// ```
    pub fn elicitation_complete(&self, id: impl Into<String>) {
        self.shared.service.runtime.changes.elicitation_complete(id);
    }

    /// Runs a tool in this process, without a client. Use this method if your own program must call a tool.
    ///
    /// If the tool asks a model and the server has a model, the server's model answers. All other questions of the tool
    /// fail.
    ///
    /// If the tool fails, the returned result contains the error text that a model would receive.
    pub async fn call_tool(&self, call: ToolCall) -> ToolResult {
        crate::mcp::local::call(&self.shared.service, call).await
    }

    /// Serves one client over a byte stream, such as a socket or a pipe. Returns when the client disconnects.
    ///
    /// If you serve several streams, the server treats unauthenticated callers of different streams as different users.
    ///
    /// # Errors
    ///
    /// Returns an error if the client does not use MCP, or if the stream fails.
    pub async fn serve_stream(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), ServeError> {
        self.serve_transport(Lines::server(stream)).await
    }

    /// Serves one client over a transport of the SDK. Use this method if your transport is not a byte stream and not
    /// HTTP. Returns when the client disconnects.
    ///
    /// The SDK drops the task fields of MCP 2025-11-25 messages when it parses these messages. To support the tasks of
    /// MCP 2025-11-25, a transport must rewrite messages before the SDK parses them. The transports in the crate
    /// `antiphon-transport` rewrite messages if you set `with_tasks(true)`. If a transport does not rewrite messages,
    /// the server treats a call that requests a task as a normal call.
    ///
    /// # Errors
    ///
    /// Returns an error if the client does not use MCP, or if the transport fails.
    pub async fn serve_transport<T, E, A>(&self, transport: T) -> Result<(), ServeError>
    where
        T: rmcp::transport::IntoTransport<rmcp::RoleServer, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        self.serve_connection::<T, E, A>(transport, Connection::one_of_many()).await
    }

    /// Serves one client over a transport. `connection` distinguishes the user of this connection from the users of
    /// other connections.
    pub(crate) fn serve_connection<T, E, A>(
        &self,
        transport: T,
        connection: Connection,
    ) -> BoxFuture<'_, Result<(), ServeError>>
    where
        T: rmcp::transport::IntoTransport<rmcp::RoleServer, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        self.serve_boxed(BoxTransport::new(transport.into_transport()), connection)
    }

    /// Serves one client, as [`serve_connection`](Self::serve_connection) does, but returns a boxed future. This
    /// function is not generic and not `async`, so that only this crate compiles the service loop of the SDK.
    fn serve_boxed(
        &self,
        transport: BoxTransport,
        connection: Connection,
    ) -> BoxFuture<'_, Result<(), ServeError>> {
        Box::pin(self.serve_until_closed(transport, connection))
    }

    async fn serve_until_closed(
        &self,
        transport: BoxTransport,
        connection: Connection,
    ) -> Result<(), ServeError> {
        self.shared.begin();
        let drain = &self.shared.drain;
        let _open = drain.connection();
        let transport = Counted::connection(transport, drain);
        let stopped = drain.stopped.child_token();
        let running = rmcp::service::serve_server_with_ct(
            Served::new(Arc::clone(&self.shared.service), None).with_connection(connection),
            transport,
            stopped,
        )
        .await;
        match running {
            Ok(running) => {
                running.waiting().await.map_err(ServeError::new("the connection failed"))?;
                Ok(())
            }
            // A client that disconnects before its first message is not a failure of the server.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(ServeError::new("the MCP handshake with the client failed")(error)),
        }
    }

    /// Returns a handle for operators. With the returned handle, operators can list, inspect, retry, cancel and purge
    /// the runs of all callers. Returns `None` if the server has no tasks.
    ///
    /// ```
    /// # async fn example(server: &antiphon::Server) -> antiphon::Result<()> {
    /// use antiphon::task::TaskStatus;
    ///
    /// if let Some(runs) = server.runs() {
    ///     for run in runs.list(Some(TaskStatus::Failed), None, 100).await?.runs {
    ///         runs.retry(&run.run).await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn runs(&self) -> Option<Runs> {
        self.shared.service.tasks.clone().map(Runs::new)
    }

    /// Runs the tasks of this server without serving clients, until `shutdown` completes. When `shutdown` completes,
    /// the server shuts down gracefully, as with [`drain`](Self::drain).
    ///
    /// A server that serves clients also runs tasks, unless
    /// [`TaskConfig::with_workers`](crate::task::TaskConfig::with_workers) is 0.
    ///
    /// ```no_run
    /// # async fn example(server: antiphon::Server, stop: tokio::sync::oneshot::Receiver<()>) {
    /// server.run_workers(async { drop(stop.await) }).await;
    /// # }
    /// ```
    pub async fn run_workers(&self, shutdown: impl Future<Output = ()>) {
        self.shared.begin();
        tokio::select! {
            () = shutdown => {}
            () = self.shared.service.runtime.shutdown.cancelled() => {}
        }
        self.drain().await;
    }

    /// Begins a graceful shutdown and returns immediately. After the shutdown has begun, you cannot serve this server
    /// again.
    ///
    /// During the shutdown, the server rejects new sessions and requests, and closes streams that have no request in
    /// flight. Workers do not start to execute further tasks. Requests in flight can continue for the duration of
    /// [`with_drain`](ServerBuilder::with_drain). After the duration of `with_drain`, the server answers unfinished
    /// requests with an error, and closes its sessions and connections. To wait until the shutdown is complete, use
    /// [`drain`](Self::drain).
    pub fn shut_down(&self) {
        self.shared.drain.begin(self.shared.drain_limit);
    }

    /// Shuts down gracefully, and returns when the server has stopped. When this method returns, all requests in flight
    /// are answered and all connections are closed. Each task that a worker was executing has stored its result, or is
    /// queued again for another replica.
    ///
    /// If you serve with [`serve_listener`](Self::serve_listener), [`serve_router`](Self::serve_router),
    /// [`serve_http`](Self::serve_http) or [`run_workers`](Self::run_workers), the server drains automatically. If
    /// your program serves in another way, call `drain` at the end of the program. If the process exits before the
    /// drain is complete, requests in flight are lost.
    ///
    /// ```no_run
    /// # async fn example(server: antiphon::Server) -> std::io::Result<()> {
    /// let app = server.router(antiphon::http::HttpConfig::default());
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
    /// let ending = server.clone();
    /// let ends = async move {
    ///     antiphon::http::shutdown_signal().await;
    ///     ending.shut_down();
    /// };
    /// axum::serve(listener, app).with_graceful_shutdown(ends).await?;
    /// server.drain().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drain(&self) {
        self.shut_down();
        self.drained().await;
    }

    /// Waits until the shutdown is complete. [`shut_down`](Self::shut_down) must have begun the shutdown.
    async fn drained(&self) {
        let legs = async {
            if let Some(tasks) = &self.shared.service.tasks {
                tasks.drained().await;
            }
        };
        let sessions = async {
            self.shared.drain.ended().await;
            if let Some(sessions) = self.shared.replicas.as_ref().and_then(|replicas| replicas.sessions()) {
                sessions.ended().await;
            }
        };
        tokio::join!(legs, sessions);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("about", &self.shared.service.about)
            .field("registry", &*self.shared.service.registry())
            .finish_non_exhaustive()
    }
}

/// The error that a server returns if serving a client or listening on an address fails.
#[derive(Debug)]
pub struct ServeError {
    what: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl ServeError {
    fn new<E: std::error::Error + Send + Sync + 'static>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self { what, source: Box::new(source) }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}
