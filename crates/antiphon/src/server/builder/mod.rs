#[cfg(feature = "results")]
pub(super) mod results;
#[cfg(feature = "telemetry")]
mod telemetry;

use std::{any::TypeId, collections::BTreeSet, fmt, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use antiphon_llm::Model;
use antiphon_store::Backend;
use antiphon_transport::drain::Drain;

use super::{Server, Shared, replicas::Replicas};
use crate::{
    asking::{AskPolicy, Asking, Permit},
    base::random_id,
    changes::{Announce, Changes},
    error::{BuildError, Result},
    limits::{Limiter, Limits, Spend},
    mcp::{
        About, Authorize, DynHandler, PrincipalHook, Service, Wrapped,
        middleware::{Next, Request, Response},
        principal_of_identity,
    },
    model::{Icon, ServerHandler},
    prompt::Prompt,
    registry::{Catalog, Registry},
    resource::{Resource, ResourceTemplate},
    run::ask::{Models, SamplingPolicy},
    run::{Mount, Runtime, States, channels::Recent},
    seal::SealConfig,
    task::{TaskConfig, Tasks},
    telemetry::Recorder,
    tool::{Tool, is_tool_name},
};

/// The default time for which requests in flight can continue after a shutdown has begun.
const DRAIN: Duration = Duration::from_secs(30);

/// A builder for a [`Server`]. [`build`](Self::build) returns all configuration problems in one error.
#[must_use = "a builder does nothing until it is built"]
pub struct ServerBuilder {
    about: About,
    registry: Registry,
    limits: Limits,
    seal: SealConfig,
    models: Models,
    backend: Option<Backend>,
    tasks: Option<TaskConfig>,
    asking: Option<AskPolicy>,
    replica: Option<String>,
    traces: bool,
    drain: Duration,
    recorder: Recorder,
    inner: Option<Arc<dyn DynHandler>>,
    principal: Option<PrincipalHook>,
    pub(super) auth: Option<Arc<dyn Authorize>>,
    states: States,
    /// The prefix and the instructions of each mounted server.
    mounted_instructions: Vec<(String, String)>,
    /// The names of called builder methods that are allowed only on the outermost server.
    pub(super) outer_settings: BTreeSet<&'static str>,
    layers: Vec<BoxLayer>,
    problems: Vec<String>,
}

/// A function that wraps a service in a layer.
type BoxLayer = Box<dyn FnOnce(Next) -> Next + Send + Sync>;

/// The parts of a mounted server that the outer server uses.
pub(super) struct Mounted {
    pub(super) registry: Registry,
    pub(super) mount: Arc<Mount>,
    /// The prefix and the instructions of each server.
    pub(super) instructions: Vec<(String, String)>,
}

impl ServerBuilder {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            about: About { name, version, ..About::default() },
            registry: Registry::default(),
            limits: Limits::default(),
            seal: SealConfig::default(),
            models: Models::default(),
            backend: None,
            tasks: None,
            asking: None,
            replica: None,
            traces: false,
            drain: DRAIN,
            recorder: Recorder::default(),
            inner: None,
            principal: None,
            auth: None,
            states: States::new(),
            mounted_instructions: Vec::new(),
            outer_settings: BTreeSet::new(),
            layers: Vec::new(),
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

    /// Adds a resource template.
    pub fn resource_template(mut self, template: ResourceTemplate) -> Self {
        self.problems.extend(self.registry.add_template(template).err());
        self
    }

    /// Adds the tools, prompts, resources and completions of an existing `rmcp` handler. If the handler and this server
    /// both have an item with the same name, clients get the item of this server. If a condition hides this server's
    /// item from a request, the request gets the handler's item.
    pub fn handler(mut self, handler: impl ServerHandler) -> Self {
        self.outer_settings.insert("handler");
        self.inner = Some(Arc::new(Wrapped(handler)));
        self
    }

    /// Mounts another server in this server. After the mount, the outer server offers the tools, prompts and resources
    /// of the mounted server. The items of the mounted server still use the states of the mounted server.
    ///
    /// Clients get the tools and prompts of a mounted server as `prefix_name`, for example `notes_search`. Journals,
    /// tasks, limits and logs also contain the name with the prefix. A prefix has 1 to 128 characters: letters, digits,
    /// `_`, `-` or `.`. A tool's name, including the prefix, can also have at most 128 characters. The resources of a
    /// mounted server keep their URIs.
    ///
    /// | part of the mounted server | effect on this server |
    /// |---|---|
    /// | tools, prompts, resources, and their settings (scopes, quotas, timeouts, task and retry policies) | kept. The server checks scopes only if you call `with_auth` on this server |
    /// | groups of tools ([`Tool::in_group`]) | kept, separate from the groups of other servers. A tool of the mounted server enables a group as `group`. A tool of this server enables this group as `prefix/group` |
    /// | [`with_state`](Self::with_state) | kept. Items of the mounted server get the values of the mounted server. If the mounted server has no value of a type, items of the mounted server get the value of this server |
    /// | [`with_instructions`](Self::with_instructions) | the instructions of this server also contain the instructions of the mounted server, with the prefix |
    /// | [`mount`](Self::mount) | kept. The names of nested items have both prefixes |
    /// | name, version, title, description, website, icons | not used, because clients connect to one server |
    /// | all other settings, for example `with_limits`, `with_model`, `with_auth` or `with_results` | [`build`](Self::build) returns an error. Set the option on this server |
    ///
    /// [`build`](Self::build) returns an error in these cases:
    ///
    /// - Two servers have the same prefix, or a tool or prompt of two servers has the same name.
    /// - A resource of one server has the same URI as a resource of another server.
    /// - A resource of one server matches a template of another server.
    ///
    /// Templates of two servers can overlap: for example, `notes://{page}` and `notes://{page}.md` both match
    /// `notes://a.md`. If several templates match a requested URI, the server uses the template that was added first.
    ///
    /// # Examples
    ///
    /// ```
    /// use antiphon::prelude::*;
    ///
    /// async fn search(_: &Ctx, State(notes): State<Vec<String>>, _: ()) -> Result<String> {
    ///     Ok(notes.join(", "))
    /// }
    ///
    /// let notes = Server::builder("notes", "1.0.0")
    ///     .with_state(vec!["buy milk".to_owned()])
    ///     .tool(Tool::new("search", "Searches the notes", search));
    ///
    /// // Clients get the tool as `notes_search`.
    /// let server = Server::builder("office", "1.0.0").mount("notes", notes).build()?;
    /// # let _ = server;
    /// # Ok::<(), antiphon::BuildError>(())
    /// ```
    pub fn mount(mut self, prefix: impl Into<String>, server: Self) -> Self {
        let Some(mounted) = server.into_mounted(prefix.into(), &mut self.problems) else { return self };
        self.mounted_instructions.extend(mounted.instructions);
        self.problems.extend(self.registry.mount(mounted.registry, &mounted.mount));
        self
    }

    /// Returns the parts of this server that the outer server uses after a mount. Returns `None` if the prefix is not
    /// valid.
    pub(super) fn into_mounted(self, prefix: String, problems: &mut Vec<String>) -> Option<Mounted> {
        if !is_tool_name(&prefix) {
            problems.push(format!(
                "the mount prefix `{prefix}` is not valid; use 1 to 128 letters, digits, `_`, `-` or `.`"
            ));
            return None;
        }
        let of_mounted = |problem| format!("mounted server `{prefix}`: {problem}");
        problems.extend(self.problems.into_iter().map(of_mounted));
        problems.extend(self.outer_settings.into_iter().map(|setting| {
            of_mounted(format!(
                "`ServerBuilder::{setting}` has no effect on a mounted server; call it on the server that `build` is called on"
            ))
        }));
        let own = self.about.instructions.map(|text| (prefix.clone(), text));
        let nested = self.mounted_instructions.into_iter();
        let nested = nested.map(|(inner, text)| (format!("{prefix}_{inner}"), text));
        let instructions = own.into_iter().chain(nested).collect();
        Some(Mounted {
            registry: self.registry,
            instructions,
            mount: Arc::new(Mount { prefix, states: self.states }),
        })
    }

    /// Sets the title of the server that users see. Default: none.
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.about.title = Some(title.into());
        self
    }

    /// Sets the description of the server. Default: none.
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// Sets the URL of the server's website. Default: none.
    pub fn with_website(mut self, url: impl Into<String>) -> Self {
        self.about.website = Some(url.into());
        self
    }

    /// Sets the icons that clients can show for the server. Default: none.
    pub fn with_icons(mut self, icons: impl IntoIterator<Item = Icon>) -> Self {
        self.about.icons = Some(icons.into_iter().collect());
        self
    }

    /// Sets the instructions that tell models how to use the server. Default: none.
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.about.instructions = Some(instructions.into());
        self
    }

    /// Adds a value that all tools share, for example a pool, a client or a configuration. A tool takes the value as a
    /// parameter of type [`State<T>`](crate::State), or reads the value with [`Ctx::state`](crate::Ctx::state).
    ///
    /// A server can have only one value of each type. If you add a second value of the same type,
    /// [`build`](Self::build) returns an error. Wrap the second value in a new type.
    pub fn with_state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        if self.states.insert(TypeId::of::<T>(), Box::new(state)).is_some() {
            let name = std::any::type_name::<T>();
            self.problems
                .push(format!("the server has two states of type `{name}`; wrap one of them in a new type"));
        }
        self
    }

    /// Sets the limits of the server. Default: [`Limits::default`].
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.outer_settings.insert("with_limits");
        self.limits = limits;
        self
    }

    /// Sets how the server encrypts suspended runs. If you run several replicas, give the same
    /// [`KeyRing`](crate::seal::KeyRing) to all replicas. If suspended runs must survive a restart, use a fixed key
    /// ring even for a single server.
    pub fn with_seal(mut self, seal: SealConfig) -> Self {
        self.outer_settings.insert("with_seal");
        self.seal = seal;
        self
    }

    /// Sets the model that the server itself can call. The server's model can answer sampling requests instead of the
    /// client's model. [`with_sampling`](Self::with_sampling) sets when the server's model is used. Default: none.
    ///
    /// You can use any [`Model`]. The crate `antiphon-llm` has models for OpenAI, Anthropic, Gemini, Ollama, and
    /// servers with a compatible API.
    pub fn with_model(mut self, model: impl Model) -> Self {
        self.outer_settings.insert("with_model");
        self.models.model = Some(Arc::new(model));
        self
    }

    /// Sets in which order the client's model and the server's model answer sampling requests. Default:
    /// [`SamplingPolicy::ClientFirst`].
    pub fn with_sampling(mut self, policy: SamplingPolicy) -> Self {
        self.outer_settings.insert("with_sampling");
        self.models.policy = policy;
        self
    }

    /// Sets the backend: the store, queue and bus that the replicas share. Default: none. Without a backend, the server
    /// needs no other service. If you use a feature that needs a backend but you set no backend, [`build`](Self::build)
    /// returns an error.
    ///
    /// ```
    /// use antiphon::Server;
    /// use antiphon_store::{Backend, QueueConfig};
    ///
    /// # async fn example() -> antiphon::Result<()> {
    /// // In production, use `redis://…`, `postgres://…` or `nats://…`, with the crate feature of the same name.
    /// let backend = Backend::connect("memory:", "shop", QueueConfig::default()).await?;
    /// let server = Server::builder("shop", "1.0.0").with_backend(backend).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_backend(mut self, backend: Backend) -> Self {
        self.outer_settings.insert("with_backend");
        self.backend = Some(backend.retrying());
        self
    }

    /// Enables tasks: runs that outlive the request that started them. While a task waits for a user or for a point in
    /// time, the task uses no memory. After the wait, any worker can continue the task. Default: no tasks.
    ///
    /// If the server has a [backend](Self::with_backend), all replicas share the tasks. If the backend is persistent,
    /// the tasks are not lost when all replicas stop. Without a backend, tasks are lost when the process ends.
    pub fn with_tasks(mut self, tasks: TaskConfig) -> Self {
        self.outer_settings.insert("with_tasks");
        self.tasks = Some(tasks);
        self
    }

    /// Enables two features: questions to users in hosts that do not show forms, and long calls of clients without MCP
    /// tasks. Default: off.
    ///
    /// If the host does not show forms, or if a call takes a long time, the run becomes a task. The call then returns a
    /// result that describes the next step to the model. The user answers questions in a form, which is an MCP App. The
    /// model reads the result of the run with the tool `task_result`. The documentation of [`AskPolicy`] lists the
    /// tools that the server adds.
    ///
    /// This method also enables tasks, with [`TaskConfig::default`] unless you call [`with_tasks`](Self::with_tasks).
    /// If you run several replicas, all replicas need a [backend](Self::with_backend) and the same
    /// [`KeyRing`](crate::seal::KeyRing), because any replica can receive the user's answer. Without a backend, waiting
    /// runs are lost when the process ends.
    ///
    /// # Replay
    ///
    /// A run that waits for a form is suspended on both protocol revisions. So the rules of replay (see
    /// [`Ctx`](crate::Ctx)) apply even if the client uses MCP 2025-11-25.
    ///
    /// # Examples
    ///
    /// ```
    /// use antiphon::{elicitation::AskPolicy, prelude::*};
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Approval {
    ///     /// Which desk?
    ///     desk: String,
    /// }
    ///
    /// async fn onboard(ctx: &Ctx, _: ()) -> Result<String> {
    ///     let Approval { desk } = ctx.elicit("May they start?").await?.accepted()?;
    ///     Ok(format!("desk {desk}"))
    /// }
    ///
    /// let server = Server::builder("onboarding", "1.0.0")
    ///     .with_asking(AskPolicy::default())
    ///     .tool(Tool::new("onboard", "Takes on a colleague", onboard))
    ///     .build()?;
    /// # let _ = server;
    /// # Ok::<(), antiphon::BuildError>(())
    /// ```
    pub fn with_asking(mut self, policy: AskPolicy) -> Self {
        self.outer_settings.insert("with_asking");
        self.asking = Some(policy);
        self
    }

    /// Sets the name of this replica. Traces and the run reports for operators contain this name. Default: eight random
    /// hexadecimal digits.
    pub fn with_replica(mut self, name: impl Into<String>) -> Self {
        self.outer_settings.insert("with_replica");
        self.replica = Some(name.into());
        self
    }

    /// Sets whether responses contain a trace of the run, in `_meta["antiphon/trace"]`. Default: no.
    ///
    /// The trace contains the name of the replica, the replayed journal entries, the new entries, and the question at
    /// which the run was suspended. The trace contains the names of questions and steps, but not their results.
    /// `antiphon studio` displays the trace.
    pub fn with_traces(mut self, traces: bool) -> Self {
        self.outer_settings.insert("with_traces");
        self.traces = traces;
        self
    }

    /// Sets how long requests in flight can continue after [`Server::shut_down`]. When this time has passed, the server
    /// answers the remaining requests with an error. If the time is zero, the server does not wait for requests in
    /// flight. Default: 30 seconds.
    ///
    /// [`Server::serve_listener`] uses the shorter of two durations: the duration of `with_drain`, or the duration of
    /// [`ServeConfig::with_drain`](crate::http::ServeConfig::with_drain).
    pub fn with_drain(mut self, drain: Duration) -> Self {
        self.outer_settings.insert("with_drain");
        self.drain = drain;
        self
    }

    /// Sets a function that returns the principal of an HTTP request. A principal is the name of the authenticated
    /// caller. The function reads data that your authentication middleware has added to the request. A principal
    /// cannot resume a run that another principal started. Default: none.
    pub fn with_principal(
        mut self,
        principal: impl Fn(&http::request::Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.outer_settings.insert("with_principal");
        self.principal = Some(Box::new(principal));
        self
    }

    /// Builds the server.
    ///
    /// # Errors
    ///
    /// Returns a `BuildError` with all configuration problems, one per line. Configuration problems are, for example,
    /// duplicate names, missing descriptions and invalid schemas.
    pub fn build(mut self) -> Result<Server, BuildError> {
        self.add_mounted_instructions();
        let this = self;
        #[cfg(feature = "results")]
        let this = this.add_result_tools();
        let this = this.add_asking();
        #[cfg(feature = "telemetry")]
        let this = this.observe();
        this.put_together()
    }

    /// Adds the instructions of the mounted servers to the instructions of this server.
    fn add_mounted_instructions(&mut self) {
        let mounted = std::mem::take(&mut self.mounted_instructions).into_iter();
        let mounted = mounted.map(|(prefix, text)| format!("For tools named `{prefix}_…`: {text}"));
        let all: Vec<_> = self.about.instructions.take().into_iter().chain(mounted).collect();
        self.about.instructions = (!all.is_empty()).then(|| all.join("\n\n"));
    }

    /// Adds the tools and the form that `with_asking` enables. Call this method after all settings are known.
    fn add_asking(mut self) -> Self {
        let Some(policy) = self.asking.take() else { return self };
        self.problems.extend(policy.problems());
        let (auth, has_hook) = (self.auth.as_ref(), self.principal.is_some());
        self.problems.extend(policy.page_problems(auth.is_some() || has_hook));
        self.problems.extend(super::http::sign_in_problem(&policy, auth, has_hook));
        self.tasks = Some(self.tasks.take().unwrap_or_default());
        let permit = self.auth.clone().map(|auth| -> Permit {
            Box::new(move |registry, parts, tool| {
                let identity = parts.and_then(|parts| parts.extensions.get());
                auth.authorize(registry, identity, parts.is_some(), "tools/call", tool)
            })
        });
        let title = self.about.title.clone().unwrap_or_else(|| self.about.name.clone());
        let asking = Asking::new(policy, title, &self.seal, &self.audience(), permit);
        self = self.tools(asking.tools());
        if let Some(form) = asking.resource() {
            self = self.resource(form);
        }
        self.with_state(Arc::new(asking))
    }

    /// Returns the audience: a name that is part of all encrypted data of this server.
    fn audience(&self) -> String {
        self.seal.audience.clone().unwrap_or_else(|| self.about.name.clone())
    }

    /// Returns the shared state of type `T`.
    fn given<T: 'static>(&self) -> Option<&T> {
        self.states.get(&TypeId::of::<T>())?.downcast_ref()
    }

    fn put_together(self) -> Result<Server, BuildError> {
        let asking = self.given::<Arc<Asking>>().cloned();
        let audience = self.audience();
        let mut problems = self.problems;
        let policy = self.models.policy;
        if matches!(policy, SamplingPolicy::ProviderFirst | SamplingPolicy::ProviderOnly)
            && self.models.model.is_none()
        {
            problems.push(format!(
                "the sampling policy {policy:?} requires a model, but the server has none; add one with `ServerBuilder::with_model`"
            ));
        }
        problems.extend(self.limits.problems());
        problems.extend(self.seal.problems());
        problems.extend(self.tasks.iter().flat_map(TaskConfig::problems));
        problems.extend(self.registry.missing_states(|state| self.states.contains_key(&state.id)));
        match &self.backend {
            None => problems.extend(needs_backend(&self.registry, self.seal.single_use)),
            Some(backend) if backend.store.is_shared() && self.seal.keys.is_random() => problems.push(
                "the backend is shared, but the encryption key is random: other replicas, and this one after a restart, could not read the stored data; give all replicas one `KeyRing` with `with_seal(SealConfig::default().with_keys(..))`"
                    .into(),
            ),
            Some(_) => {}
        }
        if let Some(id) = self.seal.keys.duplicate() {
            problems
                .push(format!("the key ring has two keys numbered {id}; give one of them another number"));
        }
        if self.auth.is_some() && self.principal.is_some() {
            problems.push(
                "both `with_auth` and `with_principal` are set, and each identifies the caller; replace `with_principal` with `AuthBuilder::with_principal`"
                    .into(),
            );
        }
        if !problems.is_empty() {
            return Err(BuildError { problems });
        }
        let shutdown = CancellationToken::new();
        let drain = Drain::new(shutdown.clone());
        // `stop` is a separate token, so that the server can still finish sending responses after the server is
        // dropped.
        let stop = drain.stopped.child_token();
        let mut changes = Changes::default();
        let replicas = self.backend.as_ref().map(|backend| {
            let told = Changes::channel();
            let sessions = super::http::shared_sessions(backend, &drain, &stop);
            let replicas = Replicas::new(backend, &audience, told.clone(), stop.clone(), sessions);
            changes = Changes::shared(told, Arc::clone(&replicas) as Arc<dyn Announce>);
            replicas
        });
        let store = self.backend.as_ref().map(|backend| Arc::clone(&backend.store));
        let catalog = Catalog::new(self.registry);
        let groups = Arc::clone(&catalog);
        let runtime = Arc::new(Runtime {
            limiter: Limiter::new(&self.limits),
            spend: Spend::new(self.limits.model, &audience, store),
            audience,
            replica: self.replica.unwrap_or_else(|| random_id()[..8].to_owned()),
            limits: self.limits,
            seal: self.seal,
            models: self.models,
            backend: self.backend,
            changes,
            traces: self.traces,
            recorder: self.recorder,
            shutdown,
            _replicas_stop: stop.drop_guard(),
            states: self.states,
            is_group: Box::new(move |group| groups.registry().has_group(group)),
            relays: asking.as_ref().is_some_and(|asking| asking.policy.relay),
            unresponsive: Recent::default(),
            asked: Recent::default(),
        });
        let tasks = self.tasks.map(|config| Tasks::new(config, Arc::clone(&runtime), Arc::clone(&catalog)));
        if let (Some(asking), Some(tasks)) = (&asking, &tasks) {
            asking.begin(tasks, &catalog);
        }
        let service = Service {
            about: self.about,
            runtime,
            catalog,
            inner: self.inner,
            tasks,
            asking,
            principal: self.principal.or_else(|| self.auth.as_ref().map(|_| principal_of_identity())),
            auth: self.auth,
            layers: (!self.layers.is_empty())
                .then(|| self.layers.into_iter().rfold(Next::innermost(), |next, layer| layer(next))),
        };
        let shared = Shared { service: Arc::new(service), replicas, drain, drain_limit: self.drain };
        let shared = Arc::new(shared);
        super::http::begin_loopback(&shared);
        Ok(Server { shared })
    }
}

/// Methods for middleware.
impl ServerBuilder {
    /// Adds a tower layer around all MCP requests of all transports. The first layer that you add is the outermost
    /// layer, which receives requests first.
    ///
    /// A layer can log, measure and reject requests. A layer can also change the parameters and the results of
    /// requests. A layer can also add values that [`Ctx::extension`](crate::Ctx::extension) returns. See
    /// [`middleware`](crate::middleware) for the types, and [`middleware::from_fn`](crate::middleware::from_fn) for a
    /// layer that is an async function.
    ///
    /// If the layer's service returns an [`ErrorData`](crate::middleware::ErrorData) as its error, the client receives
    /// this `ErrorData`. If the layer's service returns an error of another type, the server logs the error, and the
    /// client receives an internal error.
    ///
    /// Layers run after the authentication of HTTP requests, and before the checks of scopes, limits and arguments.
    /// Layers do not receive notifications from clients. Layers also do not receive executions of tasks in the
    /// background, or calls of [`Server::call_tool`].
    ///
    /// # Replay
    ///
    /// On MCP 2026-07-28, each round of a run is a separate request. So if a tool asks one question, a layer receives
    /// two requests.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: tower_layer::Layer<Next> + Send + Sync + 'static,
        L::Service: tower_service::Service<Request, Response = Response> + Clone + Send + Sync + 'static,
        <L::Service as tower_service::Service<Request>>::Error:
            Into<Box<dyn std::error::Error + Send + Sync>>,
        <L::Service as tower_service::Service<Request>>::Future: Send + 'static,
    {
        self.outer_settings.insert("layer");
        self.layers.push(Box::new(move |next| Next::new(layer.layer(next))));
        self
    }
}

/// Returns one problem for each feature in use that needs a backend. Call this function only if the server has no
/// backend. `single_use` is `true` if the server accepts each sealed state only once.
pub(super) fn needs_backend(registry: &Registry, single_use: bool) -> impl Iterator<Item = String> {
    let tools = registry.tools().iter().filter(|tool| tool.needs_backend);
    let tools =
        tools.map(|tool| format!("the tool `{}` needs a backend (`Tool::needs_backend`)", tool.name()));
    let seals = single_use.then(|| "`SealConfig::with_single_use` needs a backend".to_owned());
    tools
        .chain(seals)
        .map(|what| format!("{what}, but the server has none; add one with `ServerBuilder::with_backend`"))
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("about", &self.about)
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}
