//! The context of a tool. A tool uses the context for questions, steps and notifications.

mod ask;
mod branch;
mod elicit;
mod elicit_url;
mod fold;
mod groups;
mod notes;
mod roots;
mod sample;
mod sleep;
mod step;
mod timer;

use std::{fmt, future::Future, sync::Arc};

use antiphon_replay::Key;
use serde_json::{Value, json};

pub use self::{
    ask::Forward,
    branch::Branch,
    elicit::{Answer, Elicit, ElicitKey, ElicitValue, Elicited},
    elicit_url::{ElicitUrl, UrlElicited},
    notes::Progress,
    roots::{Root, Roots},
    sample::{
        CheckedSchema, Dynamic, GuaranteedSchema, GuaranteedTools, Mode, ParseError, Plain, PromptInput,
        Sample, SampleConfig, Sampled, SampledCalls, SampledParsed, SampledSchema, SampledTools,
        SampledValue, Schema, ToolCalls, Tools,
    },
    sleep::Sleep,
    step::Step,
};
use crate::{
    error::{Capability, Error, Result},
    run::{Mounts, Run, ask::SamplingPolicy},
};

/// The context of a run (one tool call). Through the context, a tool asks questions, runs steps and sends
/// notifications.
///
/// A tool receives the context by reference and cannot use the context after the run. The server records the result of
/// every question and step. So while the function waits for an answer, the server can drop it. Later, any replica can
/// resume the run: the replica calls the function again from the top with the recorded results.
///
/// The same function therefore works on both protocol revisions. On MCP 2025-11-25, a server can send a question and
/// wait for the answer. On MCP 2026-07-28, a server can only return the question as a result.
///
/// # Replay
///
/// The code between two calls on `Ctx` runs again each time the run resumes. This code must be deterministic and must
/// not have side effects. Put clocks, random numbers and side effects into [`step`](Self::step), which records the
/// result. Do not hold a lock, a transaction or a temporary file during a question, because the server can drop the
/// function while it waits for the answer.
///
/// ```
/// use antiphon::prelude::*;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Size {
///     /// Small, medium or large.
///     size: String,
/// }
///
/// async fn order(ctx: &Ctx, _: ()) -> Result<String> {
///     let size = ctx.elicit::<Size>("Which size?").await?.accepted()?;
///     let number = ctx.step("number", || async { Ok(next_order_number().await) }).await?;
///     Ok(format!("Order {number}: one {}", size.size))
/// }
/// # async fn next_order_number() -> u32 { 7 }
/// ```
///
/// The context cannot outlive the run. Run several branches concurrently with `tokio::join!` and
/// [`branch`](Self::branch), not with `tokio::spawn`:
///
/// ```compile_fail,E0521
/// # use antiphon::prelude::*;
/// # #[derive(Deserialize, JsonSchema)] struct Size { size: String }
/// async fn order(ctx: &Ctx, _: ()) -> Result<String> {
///     tokio::spawn(ctx.elicit::<Size>("Which size?"));
///     Ok("asked and forgotten".into())
/// }
/// ```
pub struct Ctx {
    pub(crate) run: Arc<Run>,
    scope: String,
    depth: u32,
    budget: Option<Arc<branch::Budget>>,
    /// The mounted servers that contain the function.
    mounts: Mounts,
}

impl Ctx {
    pub(crate) fn new(run: Arc<Run>, mounts: Mounts) -> Self {
        Self { run, scope: String::new(), depth: 0, budget: None, mounts }
    }

    /// Returns the ID of the run, which stays the same when the run resumes.
    pub fn run_id(&self) -> String {
        self.run.id()
    }

    /// Returns the ID of the current MCP request. If a run needs several requests, each request has a different ID.
    pub fn request_id(&self) -> String {
        self.run.client.request_id()
    }

    /// Returns the principal: the name of the authenticated caller. Returns `None` if the server does not authenticate
    /// callers. To authenticate callers, use [`ServerBuilder::with_principal`](crate::ServerBuilder::with_principal),
    /// or `with_auth` with the feature `auth`.
    pub fn principal(&self) -> Option<&str> {
        self.run.principal.as_deref()
    }

    /// Returns the identity of the caller: the principal and its scopes. The identity comes from the authentication of
    /// the current request (`with_auth` with the feature `auth`, or your own middleware). Returns `None` over stdio,
    /// and if callers are not authenticated.
    ///
    /// # Replay
    ///
    /// The identity belongs to the request, not to the run. In a later request of the run, the same caller can use a
    /// different token. A task has no identity. If the tool's control flow depends on the identity, read the identity
    /// in a [`step`](Self::step), or use [`principal`](Self::principal).
    pub fn identity(&self) -> Option<&antiphon_transport::identity::Identity> {
        self.run.client.extensions().get::<http::request::Parts>()?.extensions.get()
    }

    /// Returns the headers of the current HTTP request. Returns `None` if the request did not use HTTP. Returns `None`
    /// if a task runs and no request waits for this task.
    ///
    /// Over a WebSocket, this method returns the headers of the request that opened the connection. With the feature
    /// `auth`, the authentication layer removes credentials from the headers.
    ///
    /// # Replay
    ///
    /// The headers belong to the request, not to the run. Later requests of the same run can have other headers, and a
    /// task has no headers. If the tool's control flow depends on the headers, read the headers in a
    /// [`step`](Self::step).
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// async fn greet(ctx: &Ctx, _: ()) -> Result<String> {
    ///     let language = ctx.headers().and_then(|headers| headers.get("accept-language")?.to_str().ok());
    ///     Ok(if language.is_some_and(|it| it.starts_with("de")) { "Hallo" } else { "Hello" }.into())
    /// }
    /// ```
    pub fn headers(&self) -> Option<&http::HeaderMap> {
        Some(&self.run.client.extensions().get::<http::request::Parts>()?.headers)
    }

    /// Returns a value that your middleware added to the current request. The middleware is a layer of the server
    /// ([`middleware`](crate::middleware)) or a layer of the HTTP router. Returns `None` if the request has no value
    /// of this type. Returns `None` if a task runs and no request waits for this task.
    ///
    /// # Replay
    ///
    /// The extensions belong to the request, not to the run. If the tool's control flow depends on the extensions, read
    /// the extensions in a [`step`](Self::step).
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// #[derive(Clone)]
    /// struct Tenant(String);
    ///
    /// async fn whose(ctx: &Ctx, _: ()) -> Result<String> {
    ///     let Tenant(tenant) = ctx.extension().ok_or_else(|| Error::tool("the request names no tenant"))?;
    ///     Ok(format!("this is {tenant}'s"))
    /// }
    ///
    /// # fn example(server: &Server) -> axum::Router {
    /// // This layer finds out which tenant sent a request.
    /// server.router(Default::default()).layer(axum::Extension(Tenant("ada".into())))
    /// # }
    /// ```
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        crate::visibility::added(self.run.client.extensions())
    }

    /// Returns the value of type `T` that you added to the server with
    /// [`ServerBuilder::with_state`](crate::ServerBuilder::with_state). A tool of a
    /// [mounted](crate::ServerBuilder::mount) server gets the value of the mounted server. If the mounted server has
    /// no value of this type, the tool gets the value of the outer server.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if the server has no value of this type.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T> {
        self.mounts.state::<T>().or_else(|| self.run.runtime.state::<T>()).ok_or_else(|| {
            let name = std::any::type_name::<T>();
            Error::misuse(format!(
                "this server has no state of type `{name}`; add it with `ServerBuilder::with_state`"
            ))
        })
    }

    /// Returns a handle that notifies clients of changes: changed lists of tools, prompts and resources, and changed
    /// resources.
    pub fn changes(&self) -> &crate::Changes {
        &self.run.runtime.changes
    }

    /// Returns whether the caller has cancelled the call. Outside of a task, the server drops the tool's function at
    /// the next `.await` after the cancellation. So you need this method only in code that works for a long time
    /// without an `.await`.
    ///
    /// The server does not drop the function of a cancelled task. All pending and later questions and waits of this
    /// task fail with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled). A step in progress continues. The tool
    /// can run further steps to clean up before it returns.
    pub fn is_cancelled(&self) -> bool {
        self.run.is_cancelled()
    }

    /// Returns whether the client supports `capability`.
    ///
    /// # Replay
    ///
    /// A client can declare different capabilities in a later request of the run. The journal contains the first
    /// result of this method. So the method returns the same result on every replay.
    pub fn supports(&self, capability: Capability) -> impl Future<Output = Result<bool>> + Send + '_ {
        let supported = self.run.client.supports(capability);
        self.step(&format!("supports {}", capability.name()), move || std::future::ready(Ok(supported)))
    }

    /// Returns the client capabilities that the questions of this run can use, in the JSON format of MCP.
    ///
    /// The result contains the capabilities that the client declared. The result also contains the capabilities that
    /// the server provides instead of the client: [`ServerBuilder::with_model`](crate::ServerBuilder::with_model)
    /// answers sampling requests, and [`ServerBuilder::with_asking`](crate::ServerBuilder::with_asking) shows forms.
    /// Use this method if your tool connects to another MCP server and sends that server's questions to the client
    /// with [`forward`](Self::forward). Your tool can then declare these capabilities to the other server.
    ///
    /// # Replay
    ///
    /// The capabilities belong to the request, not to the run. If the tool's control flow depends on the capabilities,
    /// use [`supports`](Self::supports).
    pub fn question_capabilities(&self) -> Value {
        let (client, models) = (&self.run.client, &self.run.runtime.models);
        let can = |request: Value| client.lacks(&request).is_none() || self.run.channels().carry(&request);
        let mut capabilities = json!({});
        let mode = |mode: &str| json!({"method": "elicitation/create", "params": {"mode": mode, "url": "https://example.com/"}});
        for name in ["form", "url"] {
            if can(mode(name)) {
                capabilities["elicitation"][name] = json!({});
            }
        }
        let asks_client = models.policy != SamplingPolicy::ProviderOnly;
        let sampling = json!({"method": "sampling/createMessage", "params": {}});
        if models.has_provider() || (asks_client && client.lacks(&sampling).is_none()) {
            // If a client or a model does not support tools, Antiphon describes the tools in the prompt.
            capabilities["sampling"] = json!({"tools": {}});
            if asks_client && client.supports(Capability::SamplingContext) {
                capabilities["sampling"]["context"] = json!({});
            }
        }
        if can(json!({"method": "roots/list"})) {
            capabilities["roots"] = json!({});
        }
        capabilities
    }

    /// Returns the key of the next question or step with the name `name` in this branch.
    fn take_key(&self, name: &str) -> Key {
        self.run.state().machine().take_key(&self.scope, name)
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("run", &self.run_id()).field("scope", &self.scope).finish_non_exhaustive()
    }
}
