use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, RwLock},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use antiphon_llm::Model;
use antiphon_store::{Backend, QueueConfig};

#[cfg(feature = "http")]
use super::PrincipalHook;
use super::{About, Changes, Drain, Gate, Limits, Registry, Server, Shared, Spend, replicas::Replicas};
use crate::{
    error::Result,
    ladder::{Ladder, SamplingPolicy},
    model::{Icon, ServerHandler},
    prompt::Prompt,
    resource::{Resource, ResourceTemplate},
    run::random_id,
    seal::SealConfig,
    task::{TaskConfig, Tasks},
    telemetry::Recorder,
    tool::Tool,
    wire::{DynHandler, Wrapped},
};

/// How long requests in flight have to finish when the server ends.
const DRAIN: Duration = Duration::from_secs(30);

/// A server being put together. [`build`](Self::build) reports all that is wrong with it.
#[must_use = "a builder does nothing until it is built"]
pub struct ServerBuilder {
    about: About,
    registry: Registry,
    limits: Limits,
    seal: SealConfig,
    pub(crate) ladder: Ladder,
    backend: Option<Backend>,
    tasks: Option<TaskConfig>,
    replica: Option<String>,
    traces: bool,
    drain: Duration,
    pub(crate) recorder: Recorder,
    inner: Option<Arc<dyn DynHandler>>,
    #[cfg(feature = "http")]
    principal: Option<PrincipalHook>,
    #[cfg(feature = "auth")]
    auth: Option<super::auth::Auth>,
    states: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    problems: Vec<String>,
}

impl ServerBuilder {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            about: About { name, version, ..About::default() },
            registry: Registry::default(),
            limits: Limits::default(),
            seal: SealConfig::default(),
            ladder: Ladder::default(),
            backend: None,
            tasks: None,
            replica: None,
            traces: false,
            drain: DRAIN,
            recorder: Recorder::default(),
            inner: None,
            #[cfg(feature = "http")]
            principal: None,
            #[cfg(feature = "auth")]
            auth: None,
            states: HashMap::new(),
            problems: Vec::new(),
        }
    }

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

    /// Gives the server a model of its own to sample with, where the client's will not do. When that
    /// is, [`with_sampling`](Self::with_sampling) says.
    ///
    /// Any [`Model`] will do; the crate `antiphon-llm` has those of the large providers and of every
    /// server that speaks like one of them.
    pub fn with_model(mut self, model: impl Model) -> Self {
        self.ladder.model = Some(Arc::new(model));
        self
    }

    /// Says which model is asked first. Default: [`SamplingPolicy::ClientFirst`].
    pub fn with_sampling(mut self, policy: SamplingPolicy) -> Self {
        self.ladder.policy = policy;
        self
    }

    /// Gives the server a store, a queue and a bus to share with its replicas. Without it nothing has to be
    /// run beside the server; what needs it says so when the server is built.
    ///
    /// ```
    /// use antiphon::Server;
    /// use antiphon_store::{Backend, QueueConfig};
    ///
    /// # async fn example() -> antiphon::Result<()> {
    /// // In production `redis://…`, `postgres://…` or `nats://…`, with the crate's feature of that name.
    /// let backend = Backend::connect("memory:", "shop", QueueConfig::default()).await?;
    /// let server = Server::builder("shop", "1.0.0").with_backend(backend).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend.steady());
        self
    }

    /// Lets runs become tasks: they outlive the request that began them, wait for people and for time without
    /// anything in memory, and go on wherever there is a worker.
    ///
    /// With a [backend](Self::with_backend) tasks are its replicas' together and survive all of them. Without one they live
    /// and die with this process.
    pub fn with_tasks(mut self, tasks: TaskConfig) -> Self {
        self.tasks = Some(tasks);
        self
    }

    /// Names this replica in traces and in what is shown to operators. Default: eight random letters.
    pub fn with_replica(mut self, name: impl Into<String>) -> Self {
        self.replica = Some(name.into());
        self
    }

    /// Tells callers what their runs did, in `_meta["antiphon/trace"]` of each answer: which replica ran the leg, which entries
    /// were replayed and which are new, where it suspended. It names questions and steps, and has none of their
    /// values. `antiphon studio` draws it. Default: no.
    pub fn with_traces(mut self, traces: bool) -> Self {
        self.traces = traces;
        self
    }

    /// Sets how long requests in flight have to finish after [`Server::shut_down`]. Then the server answers them with an
    /// error. [`Server::serve_listener`] uses the shorter of this and
    /// [`ServeConfig::drain`](crate::ServeConfig::drain). Default: 30 seconds. With zero, nothing is waited for.
    pub fn with_drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Says who is calling, from what a middleware has put into the HTTP request. A run that one
    /// caller has begun opens for no other.
    #[cfg(feature = "http")]
    pub fn with_principal(
        mut self,
        principal: impl Fn(&::http::request::Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.principal = Some(Box::new(principal));
        self
    }

    /// Has callers over HTTP show who they are, and holds them to scopes: the [tour](crate::auth) shows it.
    ///
    /// It is also who is calling: there is no need for [`with_principal`](Self::with_principal).
    #[cfg(feature = "auth")]
    pub fn with_auth(mut self, auth: crate::auth::Auth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Puts the server together.
    ///
    /// # Errors
    ///
    /// All that is wrong with it, one line each: names taken twice, descriptions missing, schemas
    /// that are none.
    pub fn build(self) -> Result<Server, BuildError> {
        #[cfg(feature = "results")]
        let this = crate::results::finish(self);
        #[cfg(not(feature = "results"))]
        let this = self;
        crate::telemetry::finish(this).put_together()
    }

    fn put_together(self) -> Result<Server, BuildError> {
        let mut problems = self.problems;
        let policy = self.ladder.policy;
        if matches!(policy, SamplingPolicy::ProviderFirst | SamplingPolicy::ProviderOnly)
            && self.ladder.model.is_none()
        {
            problems.push(format!(
                "the sampling policy is {policy:?} and there is no model; give one with `with_model`"
            ));
        }
        match &self.backend {
            None => problems.extend(needs_backend(&self.registry, &self.seal)),
            Some(backend) if backend.store.is_shared() && self.seal.keys.is_random() => problems.push(
                "the backend is shared and the encryption key is random, so no other replica, and not this one after a restart, could read what it stores; give all replicas one `KeyRing` with `with_seal(SealConfig::default().with_keys(..))`"
                    .into(),
            ),
            Some(_) => {}
        }
        if let Some(id) = self.seal.keys.duplicate() {
            problems
                .push(format!("the key ring has two keys numbered {id}; give one of them another number"));
        }
        #[cfg(feature = "auth")]
        if self.auth.is_some() && self.principal.is_some() {
            problems.push(
                "both `with_auth` and `with_principal` say who is calling; name callers with `AuthBuilder::with_principal`"
                    .into(),
            );
        }
        if !problems.is_empty() {
            return Err(BuildError { problems });
        }
        let shutdown = CancellationToken::new();
        let drain = Drain::new(shutdown.clone());
        // Of its own: when the server is dropped, answers that are being sent still go out.
        let stop = drain.stopped.child_token();
        let mut changes = Changes::default();
        let replicas = self.backend.clone().map(|backend| {
            let audience = self.seal.audience.as_deref().unwrap_or(&self.about.name);
            let told = Changes::channel();
            let replicas = Replicas::new(backend, audience, told.clone(), &drain, stop.clone());
            changes = Changes::shared(told, Arc::clone(&replicas));
            replicas
        });
        let replica = self.replica.unwrap_or_else(|| random_id()[..8].to_owned());
        let tasks = self.tasks.map(|config| {
            let alone = || antiphon_store::Memory::default().backend(QueueConfig::default());
            let audience = self.seal.audience.as_deref().unwrap_or(&self.about.name);
            Tasks::new(
                config,
                self.backend.clone().unwrap_or_else(alone),
                audience,
                &replica,
                shutdown.clone(),
            )
        });
        let shared = Shared {
            gate: Gate::new(&self.limits),
            spend: Spend::default(),
            about: self.about,
            registry: RwLock::new(Arc::new(self.registry)),
            changes,
            limits: self.limits,
            seal: self.seal,
            ladder: self.ladder,
            backend: self.backend,
            inner: self.inner,
            replicas,
            replica,
            traces: self.traces,
            recorder: self.recorder,
            tasks,
            shutdown,
            _replicas_stop: stop.drop_guard(),
            drain,
            drain_limit: self.drain,
            #[cfg(all(feature = "http", not(feature = "auth")))]
            principal: self.principal,
            #[cfg(feature = "auth")]
            principal: self.principal.or_else(|| self.auth.as_ref().map(|_| super::auth::principal_hook())),
            #[cfg(feature = "auth")]
            auth: self.auth,
            states: self.states,
        };
        Ok(Server { shared: Arc::new(shared) })
    }
}

/// What ready tools need to know before they are added.
#[cfg(feature = "results")]
impl ServerBuilder {
    /// Something that tools were given to share.
    pub(crate) fn given<T: 'static>(&self) -> Option<&T> {
        self.states.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// The names of the tools so far of which something is true.
    pub(crate) fn tool_names(&self, is: impl Fn(&Tool) -> bool) -> Vec<String> {
        let tools = self.registry.tools().iter().filter(|tool| is(tool));
        tools.map(|tool| tool.name().to_owned()).collect()
    }

    /// Notes something that is wrong.
    pub(crate) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }
}

/// What cannot be kept without a store.
fn needs_backend(registry: &Registry, seal: &SealConfig) -> impl Iterator<Item = String> {
    let tools = registry.tools().iter().filter(|tool| tool.needs_backend);
    let tools = tools.map(|tool| format!("the tool `{}` takes steps at most once", tool.name()));
    let seals = seal.single_use.then(|| "a `requestState` is to be good for one use".to_owned());
    tools.chain(seals).map(|what| format!("{what}, and there is no store; give one with `with_backend`"))
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
    pub(super) problems: Vec<String>,
}

impl BuildError {
    /// One thing is wrong.
    #[cfg(feature = "prometheus")]
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { problems: vec![problem.into()] }
    }

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
