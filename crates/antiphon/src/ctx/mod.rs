//! What a tool may ask for.

mod ask;
mod branch;
mod elicit;
mod elicit_url;
mod fold;
mod notes;
mod roots;
mod sample;
mod sleep;
mod step;
mod timer;

use std::{fmt, future::Future, sync::Arc};

use antiphon_replay::Key;

pub use self::{
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
    error::{Error, Result},
    run::Run,
};

/// The conversation a tool is in: what it may ask, do and say.
///
/// A tool gets it by reference and cannot keep it: it ends with the run. Everything a tool does
/// through it is recorded, so that the tool can be dropped while it waits and brought back by running
/// it again from the top, on this replica or another. That is what makes the same function work on
/// 2025-11-25, where a server asks and waits, and on 2026-07-28, where it cannot.
///
/// # Replay
///
/// Code between two calls on `Ctx` runs once a round. Keep it free of side effects and of anything
/// that differs from one time to the next, and put the rest into [`step`](Self::step), which runs
/// once. Guards (a lock, a transaction, a temporary file) are dropped when the tool is; do not hold
/// one across a question.
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
/// What outlives the run cannot have it; run things at once with `tokio::join!` and
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
}

impl Ctx {
    pub(crate) fn new(run: Arc<Run>) -> Self {
        Self { run, scope: String::new(), depth: 0, budget: None }
    }

    /// The run's id: the same in every round.
    pub fn run_id(&self) -> String {
        self.run.id()
    }

    /// The id of the request that is being answered; another one in every round.
    pub fn request_id(&self) -> String {
        self.run.client.request_id()
    }

    /// Who is calling, as far as the server has been told
    /// ([`ServerBuilder::with_principal`](crate::ServerBuilder::with_principal), or `with_auth` with the feature `auth`).
    pub fn principal(&self) -> Option<&str> {
        self.run.principal.as_deref()
    }

    /// Who is calling and what they may do, as the server's [`Auth`](crate::auth::Auth) has found out for this very request.
    ///
    /// # Replay
    ///
    /// It is the request's and not the run's: a later round may come with another token of the same caller's, and a task
    /// has none. Take what decides the tool's way in a [`step`](Self::step), or go by [`principal`](Self::principal).
    #[cfg(feature = "auth")]
    pub fn identity(&self) -> Option<&antiphon_transport::identity::Identity> {
        self.run.client.extensions().get::<http::request::Parts>()?.extensions.get()
    }

    /// The headers of the HTTP request that is being answered. `None` if it did not come over HTTP, and in the legs of a
    /// task that no request waits for.
    ///
    /// Over a WebSocket they are the headers of the request that opened it. The layer of the feature `auth` removes
    /// credentials.
    ///
    /// # Replay
    ///
    /// They are the request's and not the run's: a later round may come with others, and a task has none. Take what
    /// decides the tool's way in a [`step`](Self::step).
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

    /// What a middleware of yours put into the extensions of the HTTP request that is being answered. `None` if it put
    /// nothing of this type there, and where there are no [`headers`](Self::headers).
    ///
    /// # Replay
    ///
    /// As [`headers`](Self::headers).
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
    /// // The layer that finds out the tenant of a request.
    /// server.router(Default::default()).layer(axum::Extension(Tenant("ada".into())))
    /// # }
    /// ```
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.run.client.extensions().get::<http::request::Parts>()?.extensions.get()
    }

    /// Something the server was given for its tools
    /// ([`ServerBuilder::with_state`](crate::ServerBuilder::with_state)).
    ///
    /// # Errors
    ///
    /// When the server was given nothing of this type.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T> {
        self.run.runtime.state::<T>().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            Error::misuse(format!(
                "this server has no state of type `{name}`; add it with `ServerBuilder::with_state`"
            ))
        })
    }

    /// Tells clients that something has changed: lists, or resources they subscribed to.
    pub fn changes(&self) -> &crate::Changes {
        &self.run.runtime.changes
    }

    /// Whether the caller has given up. The run is dropped at its next await, so only code that works
    /// for long without one needs to look.
    ///
    /// A task is not dropped: what it waits for, and whatever it asks from then on, fails with
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled), a step that is being taken goes on, and the tool may take
    /// further steps to clean up before it returns.
    pub fn is_cancelled(&self) -> bool {
        self.run.is_cancelled()
    }

    /// Whether the client can be asked what needs `capability`.
    ///
    /// # Replay
    ///
    /// A client may declare other capabilities in a later round. The answer is taken once and then
    /// kept, so that the tool goes the same way every time.
    pub fn supports(&self, capability: crate::Capability) -> impl Future<Output = Result<bool>> + Send + '_ {
        let supported = self.run.client.supports(capability);
        self.step(&format!("supports {}", capability.name()), move || std::future::ready(Ok(supported)))
    }

    /// Names the next call in this scope.
    fn take_key(&self, name: &str) -> Key {
        self.run.state().machine().take_key(&self.scope, name)
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("run", &self.run_id()).field("scope", &self.scope).finish_non_exhaustive()
    }
}
