//! The context of a tool. Through the context, a tool asks questions, runs steps and sends notifications.

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
/// every question and step. So the server can drop the tool's function while the function waits for an answer. Later,
/// any replica can resume the run. To resume the run, the replica calls the function again from the top with the
/// recorded results.
///
/// The same function therefore works on both protocol revisions. On MCP 2025-11-25, a server can send a question to the
/// client and wait for the answer. On MCP 2026-07-28, a server cannot send questions while a call is in progress. The
/// server returns the question as the result of the call instead.
///
/// # Replay
///
/// The code between two calls on `Ctx` runs again each time the run resumes. So this code must be deterministic and
/// must not have side effects. Put random numbers, side effects and reads of the clock into a [`step`](Self::step),
/// because a step records its result. While a question waits for its answer, the server can drop the function. So do
/// not hold a lock, a transaction or a temporary file during a question.
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
    /// The mounted servers to which the tool belongs.
    mounts: Mounts,
}

impl Ctx {
    pub(crate) fn new(run: Arc<Run>, mounts: Mounts) -> Self {
        Self { run, scope: String::new(), depth: 0, budget: None, mounts }
    }

    /// Returns the ID of the run. When the run resumes, the ID stays the same.
    pub fn run_id(&self) -> String {
        self.run.id()
    }

    /// Returns the ID of the current MCP request. If a run needs several requests, each of these requests has a
    /// different ID.
    pub fn request_id(&self) -> String {
        self.run.client.request_id()
    }

    /// Returns the principal: the name of the authenticated caller. Returns `None` if the server does not authenticate
    /// callers. To authenticate callers, use [`ServerBuilder::with_principal`](crate::ServerBuilder::with_principal),
    /// or `with_auth` with the feature `auth`.
    pub fn principal(&self) -> Option<&str> {
        self.run.principal.as_deref()
    }

    /// Returns the identity of the caller, which consists of the principal and its scopes. The identity comes from the
    /// layer that authenticated the current request: `with_auth` (feature `auth`) or your own middleware. Returns
    /// `None` over stdio, and if the server does not authenticate callers.
    ///
    /// # Replay
    ///
    /// The identity belongs to the request, not to the run. In a later request of the run, the same caller can use a
    /// different token. A task has no identity. If the tool's control flow depends on the identity, read the identity
    /// in a [`step`](Self::step), or use [`principal`](Self::principal).
    pub fn identity(&self) -> Option<&antiphon_transport::identity::Identity> {
        self.run.client.extensions().get::<http::request::Parts>()?.extensions.get()
    }

    /// Returns the headers of the current HTTP request. Returns `None` if the client did not send the request over
    /// HTTP. Returns `None` in a task if no request currently waits for this task.
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

    /// Returns a value that your middleware added to the current request. Your middleware is a layer of the server
    /// ([`middleware`](crate::middleware)) or a layer of the HTTP router. Returns `None` if your middleware added no
    /// value of type `T`. Returns `None` in a task if no request currently waits for this task.
    ///
    /// # Replay
    ///
    /// The values that your middleware adds belong to the request, not to the run. If the tool's control flow depends
    /// on such a value, read the value in a [`step`](Self::step).
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
    /// [mounted](crate::ServerBuilder::mount) server receives the value that you added to the mounted server. If you
    /// added no value of type `T` to the mounted server, the tool receives the value of the outer server.
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

    /// Returns a handle. Tools use this handle to notify clients of changes. A tool can report that a resource has
    /// changed, or that the list of tools, prompts or resources has changed.
    pub fn changes(&self) -> &crate::Changes {
        &self.run.runtime.changes
    }

    /// Returns `true` if the caller has cancelled the call. Outside of a task, the server drops the tool's function at
    /// the first `.await` after the cancellation. So you need `is_cancelled` only in code that works for a long time
    /// without an `.await`.
    ///
    /// If a task is cancelled, the server does not drop the tool's function. All pending and later questions and waits
    /// of the task fail with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled). A step in progress continues, and
    /// the tool can run further steps to clean up before the tool returns.
    pub fn is_cancelled(&self) -> bool {
        self.run.is_cancelled()
    }

    /// Returns `true` if the client supports `capability`.
    ///
    /// # Replay
    ///
    /// A client can declare different capabilities in a later request of the run. The journal contains the value that
    /// `supports` returned first. So `supports` returns the same value on every replay.
    pub fn supports(&self, capability: Capability) -> impl Future<Output = Result<bool>> + Send + '_ {
        let supported = self.run.client.supports(capability);
        self.step(&format!("supports {}", capability.name()), move || std::future::ready(Ok(supported)))
    }

    /// Returns the client capabilities that the questions of this run can use, in the JSON format of MCP.
    ///
    /// The returned value contains the capabilities that the client declared. The returned value also contains
    /// capabilities that the server provides instead of the client. With
    /// [`ServerBuilder::with_model`](crate::ServerBuilder::with_model), the server answers sampling requests, and with
    /// [`ServerBuilder::with_asking`](crate::ServerBuilder::with_asking), the server shows forms. Use this method if
    /// your tool connects to another MCP server and sends the questions of the other server to the client with
    /// [`forward`](Self::forward). Your tool can then declare the returned capabilities to the other server.
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
            // If a client or a model does not support tools, Antiphon describes the tools in the text of the prompt.
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

    /// Returns the key of the next question or step that has the name `name` in this branch.
    fn take_key(&self, name: &str) -> Key {
        self.run.state().machine().take_key(&self.scope, name)
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("run", &self.run_id()).field("scope", &self.scope).finish_non_exhaustive()
    }
}
