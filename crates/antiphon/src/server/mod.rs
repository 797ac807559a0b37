//! Build a server, serve it.

mod changes;
#[cfg(feature = "http")]
mod http;
mod limits;
mod registry;
#[cfg(feature = "stdio")]
mod stdio;

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use rmcp::model::Extensions;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "http")]
pub use self::http::{HttpConfig, shutdown_signal};
pub(crate) use self::{changes::Change, registry::Registry};
pub use self::{changes::Changes, limits::Limits};
use crate::{
    error::Result,
    model::{Icon, ServerHandler},
    prompt::Prompt,
    resource::{Resource, ResourceTemplate},
    seal::SealConfig,
    tool::{Tool, ToolCall, ToolResult},
    wire::{DynHandler, Handler, Wrapped},
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

/// What all requests to a server share.
pub(crate) struct Shared {
    pub(crate) about: About,
    registry: RwLock<Arc<Registry>>,
    pub(crate) changes: Changes,
    pub(crate) limits: Limits,
    pub(crate) seal: SealConfig,
    pub(crate) in_flight: Semaphore,
    pub(crate) inner: Option<Arc<dyn DynHandler>>,
    pub(crate) shutdown: CancellationToken,
    principal: Option<PrincipalHook>,
    states: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

type PrincipalHook = Box<dyn Fn(&Extensions) -> Option<String> + Send + Sync>;

/// Who a server says it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) website: Option<String>,
    pub(crate) icons: Option<Vec<Icon>>,
    pub(crate) instructions: Option<String>,
}

impl Shared {
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn state<T: 'static>(&self) -> Option<&T> {
        self.states.get(&TypeId::of::<T>())?.downcast_ref()
    }

    pub(crate) fn audience(&self) -> &str {
        self.seal.audience.as_deref().unwrap_or(&self.about.name)
    }

    pub(crate) fn principal(&self, extensions: &Extensions) -> Option<String> {
        self.principal.as_ref().and_then(|hook| hook(extensions))
    }

    fn update<E>(
        &self,
        change: impl FnOnce(&mut Registry) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = registry.edition();
        change(&mut next)?;
        *registry = Arc::new(next);
        Ok(())
    }
}

impl Server {
    /// Begins a server with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ServerBuilder {
        ServerBuilder {
            about: About { name: name.into(), version: version.into(), ..About::default() },
            registry: Registry::default(),
            limits: Limits::default(),
            seal: SealConfig::default(),
            inner: None,
            principal: None,
            states: HashMap::new(),
            problems: Vec::new(),
        }
    }

    /// Tells clients that something has changed.
    pub fn changes(&self) -> &Changes {
        &self.shared.changes
    }

    /// Adds a tool while the server runs, and tells clients.
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::build`].
    pub fn add_tool(&self, tool: Tool) -> Result<(), BuildError> {
        self.shared.update(|registry| registry.add_tool(tool)).map_err(|problems| BuildError { problems })?;
        self.shared.changes.tools();
        Ok(())
    }

    /// Takes a tool away while the server runs, and tells clients. Says whether there was one.
    pub fn remove_tool(&self, name: &str) -> bool {
        let removed =
            self.shared.update(|registry| if registry.remove_tool(name) { Ok(()) } else { Err(()) }).is_ok();
        if removed {
            self.shared.changes.tools();
        }
        removed
    }

    /// Runs a tool in this process, without a client: the same tool a client would call, for a
    /// program that has a use for it itself. There is nobody to ask, so what it asks is refused.
    ///
    /// What goes wrong is in the result, as it would be for a model.
    pub async fn execute(&self, call: ToolCall) -> ToolResult {
        crate::wire::execute(&self.shared, call).await
    }

    /// Serves one client over a stream of bytes: a socket, a pipe, a duplex. Ends when the client
    /// goes.
    ///
    /// # Errors
    ///
    /// When the client speaks something else than MCP, or the stream fails.
    pub async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), ServeError> {
        self.serve_transport(stream).await
    }

    async fn serve_transport<T, E, A>(&self, transport: T) -> Result<(), ServeError>
    where
        T: rmcp::transport::IntoTransport<rmcp::RoleServer, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let shutdown = self.shared.shutdown.child_token();
        let running =
            rmcp::service::serve_server_with_ct(Handler::new(Arc::clone(&self.shared)), transport, shutdown)
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

    /// Ends every connection and stream. The server cannot be served again.
    pub fn shut_down(&self) {
        self.shared.shutdown.cancel();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("about", &self.shared.about)
            .field("registry", &*self.shared.registry())
            .finish_non_exhaustive()
    }
}

/// A server being put together. [`build`](Self::build) reports all that is wrong with it.
#[must_use = "a builder does nothing until it is built"]
pub struct ServerBuilder {
    about: About,
    registry: Registry,
    limits: Limits,
    seal: SealConfig,
    inner: Option<Arc<dyn DynHandler>>,
    principal: Option<PrincipalHook>,
    states: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    problems: Vec<String>,
}

impl ServerBuilder {
    /// Adds a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.problems.extend(self.registry.add_tool(tool).err().into_iter().flatten());
        self
    }

    /// Adds several tools.
    pub fn tools(self, tools: impl IntoIterator<Item = Tool>) -> Self {
        tools.into_iter().fold(self, Self::tool)
    }

    /// Adds a prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.problems.extend(self.registry.add_prompt(prompt).err());
        self
    }

    /// Adds a resource.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.problems.extend(self.registry.add_resource(resource).err());
        self
    }

    /// Adds a family of resources.
    pub fn resource_template(mut self, template: ResourceTemplate) -> Self {
        self.registry.add_template(template);
        self
    }

    /// Serves what an existing `rmcp` handler serves, too: its tools, prompts, resources and
    /// completions, beside those added here. Where both have the same name, Antiphon's is served.
    pub fn handler(mut self, handler: impl ServerHandler) -> Self {
        self.inner = Some(Arc::new(Wrapped(handler)));
        self
    }

    /// Sets the name people see.
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.about.title = Some(title.into());
        self
    }

    /// Says what the server is for.
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// Says where to read about it.
    pub fn with_website(mut self, url: impl Into<String>) -> Self {
        self.about.website = Some(url.into());
        self
    }

    /// Sets its icons.
    pub fn with_icons(mut self, icons: impl IntoIterator<Item = Icon>) -> Self {
        self.about.icons = Some(icons.into_iter().collect());
        self
    }

    /// Tells the model how to use the server.
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.about.instructions = Some(instructions.into());
        self
    }

    /// Gives tools something to share: a pool, a client, a configuration. They read it with
    /// [`Ctx::state`](crate::Ctx::state), by its type.
    pub fn with_state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.states.insert(TypeId::of::<T>(), Box::new(state));
        self
    }

    /// Sets what bounds the server's work.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how suspended runs are sealed. More than one replica needs a shared
    /// [`KeyRing`](crate::KeyRing); so does one that should survive a restart.
    pub fn with_seal(mut self, seal: SealConfig) -> Self {
        self.seal = seal;
        self
    }

    /// Says who is calling, from what a middleware has put into the HTTP request. A run that one
    /// caller has begun opens for no other.
    #[cfg(feature = "http")]
    pub fn with_principal(
        mut self,
        principal: impl Fn(&::http::request::Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.principal =
            Some(Box::new(move |extensions| principal(extensions.get::<::http::request::Parts>()?)));
        self
    }

    /// Puts the server together.
    ///
    /// # Errors
    ///
    /// All that is wrong with it, one line each: names taken twice, descriptions missing, schemas
    /// that are none.
    pub fn build(self) -> Result<Server, BuildError> {
        if !self.problems.is_empty() {
            return Err(BuildError { problems: self.problems });
        }
        let shared = Shared {
            in_flight: Semaphore::new(self.limits.in_flight.min(Semaphore::MAX_PERMITS)),
            about: self.about,
            registry: RwLock::new(Arc::new(self.registry)),
            changes: Changes::default(),
            limits: self.limits,
            seal: self.seal,
            inner: self.inner,
            shutdown: CancellationToken::new(),
            principal: self.principal,
            states: self.states,
        };
        Ok(Server { shared: Arc::new(shared) })
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("about", &self.about)
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

/// Why a server could not be put together.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    problems: Vec<String>,
}

impl BuildError {
    /// All that is wrong, one line each.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server cannot be built")?;
        for problem in &self.problems {
            write!(f, "\n  - {problem}")?;
        }
        Ok(())
    }
}

/// `main` shows this to people.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}

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
