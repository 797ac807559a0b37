//! Build a server, serve it.

#[cfg(feature = "auth")]
pub mod auth;
mod builder;
#[cfg(feature = "http")]
mod health;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod operators;
pub(crate) mod replicas;
#[cfg(feature = "stdio")]
mod stdio;

use std::{fmt, sync::Arc, time::Duration};

use antiphon_transport::{
    drain::{Counted, Drain},
    legacy_tasks::Lines,
};
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::builder::ServerBuilder;
#[cfg(feature = "http")]
pub use self::{
    health::Health,
    http::{HttpConfig, MemoryBudget, ServeConfig, serve, shutdown_signal},
    operators::OperatorConfig,
};
use crate::{
    changes::Changes,
    error::{BuildError, Result},
    mcp::{Served, Service},
    task::Runs,
    tool::{Tool, ToolCall, ToolResult},
};

/// A server: tools, prompts and resources, and how they are served.
///
/// Cloning it clones the handle. The same server may be served over several transports at once.
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

/// What the transports of a server share.
pub(crate) struct Shared {
    /// What answers requests.
    pub(crate) service: Arc<Service>,
    pub(crate) replicas: Option<Arc<replicas::Replicas>>,
    pub(crate) drain: Drain,
    /// How long requests in flight have to finish when the server ends.
    drain_limit: Duration,
}

impl Shared {
    /// Begins what goes on beside the requests.
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
    /// Begins a server with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ServerBuilder {
        ServerBuilder::new(name.into(), version.into())
    }

    /// Tells clients that something has changed.
    pub fn changes(&self) -> &Changes {
        &self.shared.service.runtime.changes
    }

    /// Tells the client that the user is done with the web page of a URL elicitation. Call it where that happens: in
    /// the handler of an OAuth callback or of a payment page.
    ///
    /// `id` is the elicitation's ID: [`ElicitUrl::id`](crate::elicitation::ElicitUrl::id), or the one that you gave to
    /// [`UrlElicitation::new`](crate::elicitation::UrlElicitation::new). The notification
    /// (`notifications/elicitation/complete`) goes to the 2025-11-25 session that was sent this elicitation, during a
    /// call, in a `-32042` error or for a task. With a [backend](crate::ServerBuilder::with_backend) the session can be
    /// at any replica. An ID that no session was sent is ignored, and so is one of a session that has ended.
    ///
    /// A session keeps its 64 most recent elicitation IDs of up to 1,024 bytes each. The 2026-07-28 revision has no such
    /// notification, and its clients are not told: the tool finds out for itself whether the page was completed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::Server;
    /// async fn callback(server: Server, elicitation: String) {
    ///     // Store the token first: the client calls the tool again as soon as it is told.
    ///     server.elicitation_complete(elicitation);
    /// }
    /// ```
    pub fn elicitation_complete(&self, id: impl Into<String>) {
        self.shared.service.runtime.changes.elicitation_complete(id);
    }

    /// Adds a tool while the server runs, and tells clients.
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::build`].
    pub fn add_tool(&self, tool: Tool) -> Result<(), BuildError> {
        self.shared
            .service
            .catalog
            .update(|registry| {
                registry.add_tool(tool)?;
                let states = &self.shared.service.runtime.states;
                let missing = registry.missing_states(|state| states.contains_key(&state.id));
                if missing.is_empty() { Ok(()) } else { Err(missing) }
            })
            .map_err(|problems| BuildError { problems })?;
        self.shared.service.runtime.changes.tools();
        Ok(())
    }

    /// Takes a tool away while the server runs, and tells clients. Says whether there was one.
    pub fn remove_tool(&self, name: &str) -> bool {
        let removed = self
            .shared
            .service
            .catalog
            .update(|registry| if registry.remove_tool(name) { Ok(()) } else { Err(()) })
            .is_ok();
        if removed {
            self.shared.service.runtime.changes.tools();
        }
        removed
    }

    /// Runs a tool in this process, without a client: the same tool a client would call, for a
    /// program that has a use for it itself. There is nobody to ask, so what it asks is refused.
    ///
    /// What goes wrong is in the result, as it would be for a model.
    pub async fn call_tool(&self, call: ToolCall) -> ToolResult {
        crate::mcp::execute(&self.shared.service, call).await
    }

    /// Serves one client over a stream of bytes: a socket, a pipe, a duplex. Ends when the client
    /// goes.
    ///
    /// # Errors
    ///
    /// When the client speaks something else than MCP, or the stream fails.
    pub async fn serve_stream(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), ServeError> {
        self.serve_transport(Lines::server(stream)).await
    }

    /// Serves one client over a transport of the SDK's kind: for those that are neither a stream of
    /// bytes nor HTTP. Ends when the client goes.
    ///
    /// Such a transport hands over messages that the SDK has read, and the SDK drops the tasks of
    /// 2025-11-25 when it reads them. They are carried if the transport revises messages before that, as
    /// those of the crate `antiphon-transport` do when their configuration says `with_tasks(true)`;
    /// otherwise a call with a task is a plain call.
    ///
    /// # Errors
    ///
    /// When the client speaks something else than MCP, or the transport fails.
    pub async fn serve_transport<T, E, A>(&self, transport: T) -> Result<(), ServeError>
    where
        T: rmcp::transport::IntoTransport<rmcp::RoleServer, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        self.shared.begin();
        let drain = &self.shared.drain;
        let _connection = drain.connection();
        let transport = Counted::connection(transport.into_transport(), drain);
        let stopped = drain.stopped.child_token();
        let running = rmcp::service::serve_server_with_ct(
            Served::new(Arc::clone(&self.shared.service), None),
            transport,
            stopped,
        )
        .await;
        match running {
            Ok(running) => {
                running.waiting().await.map_err(ServeError::new("the connection ended badly"))?;
                Ok(())
            }
            // A client that leaves before it has said anything is not a failure of the server's.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(ServeError::new("the client does not speak MCP")(error)),
        }
    }

    /// The runs of all callers, for whoever operates the server; `None` where it has no tasks.
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

    /// Works on the tasks of this server's replicas without serving clients, until `shutdown` ends; then
    /// [drains](Self::drain).
    ///
    /// A server that is served works on tasks by itself, unless its [`TaskConfig::with_workers`](crate::task::TaskConfig::with_workers)
    /// is 0.
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

    /// Begins to shut down, and returns at once. The server cannot be served again.
    ///
    /// From now on the server rejects new sessions and requests, takes no more jobs of tasks, and ends streams that
    /// have no request in flight. Requests in flight have the time of
    /// [`with_drain`](ServerBuilder::with_drain) to finish; then the server answers them with an error and closes its
    /// sessions and connections. [`drain`](Self::drain) waits until that is done.
    pub fn shut_down(&self) {
        self.shared.drain.begin(self.shared.drain_limit);
    }

    /// Shuts down, and returns when the server has ended: the requests in flight are answered, connections are
    /// closed, and the legs of tasks have finished or are back in the queue for another replica.
    ///
    /// [`serve_listener`](Self::serve_listener), [`serve_router`](Self::serve_router), [`serve_http`](Self::serve_http)
    /// and [`run_workers`](Self::run_workers) drain by themselves. Call it at the end of a program that serves by other means: a
    /// process that exits earlier loses what is in flight.
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

    /// Waits for what [`shut_down`](Self::shut_down) began.
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

/// Why serving ended before it should.
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
