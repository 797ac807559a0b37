//! Authentication and authorization over HTTP.
//!
//! With an [`Auth`], a server is an OAuth 2.1 resource server, as MCP requires. The server publishes a list of the
//! authorization servers that issue tokens for this server (RFC 9728). The server accepts only tokens that were issued
//! for this server. If a token does not have all scopes that a call needs, the error lists the scopes. The server never
//! issues tokens.
//!
//! ```no_run
//! use antiphon::{
//!     auth::{Auth, Issuer},
//!     prelude::*,
//! };
//!
//! async fn report(ctx: &Ctx, _: ()) -> Result<String> {
//!     Ok(format!("All is well, {}.", ctx.principal().unwrap_or("whoever you are")))
//! }
//!
//! # async fn example() -> Result<()> {
//! let auth = Auth::builder("https://mcp.example.com/mcp")
//!     .with_issuer(Issuer::new("https://login.example.com"))
//!     .with_scopes(["reports:read"])
//!     .build()?;
//! let server = Server::builder("reports", "1.0.0")
//!     .with_auth(auth)
//!     .tool(Tool::new("report", "Says how it is", report))
//!     .build()?;
//! server.serve_http("0.0.0.0:8000").await?;
//! # Ok(())
//! # }
//! ```
//!
//! Callers over HTTP can authenticate in four ways, which you can combine:
//!
//! - The caller sends a token that an [`Issuer`] signed.
//! - The caller sends an opaque token. [`Introspection`] checks the token.
//! - The caller sends an [`ApiKey`].
//! - The caller sends a client certificate. A [`Proxy`] checks the certificate.
//!
//! The result of each authentication is an [`Identity`]. Sealed states, sessions, tasks, result sets and links belong
//! to the [`principal`](Identity::principal) of the identity. Other principals cannot use the sealed states, sessions,
//! tasks, result sets and links of this principal.
//!
//! With [`OpenIdConnect`], users can sign in on the answer page
//! ([`AskPage::with_sign_in`](crate::elicitation::AskPage::with_sign_in)). A user who signs in has the same principal
//! as a caller with the user's token.
//!
//! Over stdio, the server does not authenticate callers. The caller is the user who started the process.
//!
//! The types of this module are from the crate `antiphon-http`. You can use that crate without an MCP server.

mod ask_sign_in;

use std::{any::Any, future::ready, sync::Arc};

use antiphon_http::Received;
#[doc(inline)]
pub use antiphon_http::auth::*;
use antiphon_transport::{
    identity::scope_problem,
    streamable::{METHOD, NAME},
};
use axum::{Router, response::Response, routing::MethodRouter};
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method};
use serde::Deserialize;

pub(super) use self::ask_sign_in::routes as sign_in_routes;
use super::{OperatorConfig, Server, Shared, operators};
use crate::{
    asking::AskPolicy,
    mcp::Authorize,
    registry::Registry,
    server::ServerBuilder,
    task::{Owner, Tasks},
    tool::Tool,
};

impl ServerBuilder {
    /// Authenticates all callers over HTTP, and checks their scopes. The [module](crate::auth) contains an example.
    /// Default: no authentication.
    ///
    /// The [`Auth`] also determines the principal of each request. So you do not need
    /// [`with_principal`](Self::with_principal) on a server with an `Auth`.
    pub fn with_auth(mut self, auth: Auth) -> Self {
        self.outer_settings.insert("with_auth");
        self.auth = Some(Arc::new(auth));
        self
    }
}

impl Shared {
    /// Returns the [`Auth`] of the server, if the server has an `Auth`.
    fn auth(&self) -> Option<&Auth> {
        auth_of(self.service.auth.as_ref())
    }
}

/// Returns the [`Auth`] if the server's authorization rules are an `Auth`.
fn auth_of(auth: Option<&Arc<dyn Authorize>>) -> Option<&Auth> {
    let auth: &dyn Any = &**auth?;
    auth.downcast_ref()
}

/// Returns a problem in the configuration of the sign-in on the answer page. With this problem, a visitor who signs in
/// would never have the same principal as a caller. `auth` is the authentication of the server. `has_hook` is true if a
/// function of the application returns the principals of callers.
pub(in crate::server) fn sign_in_problem(
    policy: &AskPolicy,
    auth: Option<&Arc<dyn Authorize>>,
    has_hook: bool,
) -> Option<String> {
    let client = policy.sign_in().filter(|client| !client.has_principal())?;
    let issuer = client.issuer();
    match auth_of(auth) {
        Some(auth) if !auth.accepts_issuer(issuer) => Some(format!(
            "`AskPage::with_sign_in` has the issuer `{issuer}`, but the server accepts no tokens of this issuer, so a visitor who signs in can never match the caller of a run; add `AuthBuilder::with_issuer` or `OpenIdConnect::with_principal`"
        )),
        None if has_hook => Some(
            "`ServerBuilder::with_principal` names the callers, but `AskPage::with_sign_in` does not use these names; add `OpenIdConnect::with_principal`"
                .to_owned(),
        ),
        _ => None,
    }
}

impl From<BuildError> for crate::BuildError {
    fn from(error: BuildError) -> Self {
        Self { problems: error.problems().to_vec() }
    }
}

/// If the server has an [`Auth`], adds the authentication layer to `endpoint`, and adds the metadata routes to
/// `others`.
pub(super) fn protect(
    shared: &Shared,
    path: &str,
    endpoint: MethodRouter,
    others: Router,
) -> (MethodRouter, Router) {
    let Some(auth) = shared.auth() else {
        warn_of_scopes(&shared.service.registry());
        return (endpoint, others);
    };
    (endpoint.layer(auth.layer()), others.merge(auth.router_at(path)))
}

/// Logs a warning if tools have scopes but the server has no [`Auth`], because a server without an `Auth` does not
/// check scopes.
fn warn_of_scopes(registry: &Registry) {
    let scoped = registry.tools().iter().filter(|tool| !tool.scopes.is_empty());
    let scoped: Vec<_> = scoped.map(|tool| tool.name()).collect();
    if !scoped.is_empty() {
        tracing::warn!(
            tools = scoped.join(", "),
            "the scopes of these tools are not checked, because the server does not authenticate callers; configure authentication with `ServerBuilder::with_auth`"
        );
    }
}

impl OperatorConfig {
    /// Creates a configuration that allows callers with the OAuth scope `scope`. The server's [`Auth`] authenticates
    /// the callers of the operator routes. The operator routes accept only requests to loopback hosts, unless you set
    /// other hosts with [`with_allowed_hosts`](Self::with_allowed_hosts).
    pub fn scope(scope: impl Into<String>) -> Self {
        let scope = scope.into();
        Self::protected(move |server, routes| with_scope(server, routes, &scope))
    }
}

fn with_scope(server: &Server, routes: Router, scope: &str) -> Result<Router, crate::BuildError> {
    let auth = server.shared.auth().ok_or_else(|| {
        operators::refuse(format!(
            "the operator routes require the scope `{scope}`, but the server does not authenticate callers; configure authentication with `ServerBuilder::with_auth`"
        ))
    })?;
    if let Some(problem) = scope_problem(scope) {
        return Err(operators::refuse(problem));
    }
    Ok(routes.layer(auth.layer().with_scopes([scope])))
}

impl Authorize for Auth {
    fn authorize(
        &self,
        registry: &Registry,
        identity: Option<&Identity>,
        over_http: bool,
        method: &str,
        tool: Option<&Tool>,
    ) -> Result<(), Refusal> {
        let identity = match identity {
            Some(identity) => identity,
            None if over_http => return Err(Refusal::Missing),
            None => return Ok(()),
        };
        let scopes = tool.map(|tool| tool.scopes.as_slice()).unwrap_or_default();
        let known = || registry.tools().iter().flat_map(|tool| &tool.scopes).map(String::as_str).collect();
        Self::authorize(self, identity, method, scopes, known)
    }
}

/// Returns the authentication challenge for a request that the caller is not allowed to send. Returns `None` if the
/// caller is allowed to send the request, or if the request needs no check.
///
/// Every transport checks the permission again when the transport processes the request. Only this function can respond
/// with a challenge, because this function runs before the transport.
pub(super) fn challenge(
    shared: &Shared,
    request: &Received,
    is_legacy: bool,
) -> Option<BoxFuture<'static, Option<Response>>> {
    if let Some(challenge) = step_up(shared, request, is_legacy) {
        return Some(Box::pin(ready(Some(challenge))));
    }
    step_up_task(shared, request)
}

fn step_up(shared: &Shared, request: &Received, is_legacy: bool) -> Option<Response> {
    let auth = shared.auth()?;
    if request.method() != Method::POST {
        return None;
    }
    let registry = shared.service.registry();
    if !auth.has_operation_scopes() && registry.tools().iter().all(|tool| tool.scopes.is_empty()) {
        return None;
    }
    let said = if is_legacy { None } else { Called::of_headers(request.headers()) };
    let Called { method, name } = said.or_else(|| Called::of_body(request.message()?.1))?;
    let name = name.filter(|_| method == "tools/call");
    // A challenge for a hidden tool would reveal that the tool exists. So for a tool that can be hidden, the handler
    // first checks whether the caller can see the tool, and then checks the scopes.
    let tool = name.and_then(|name| registry.tool(&name)).filter(|tool| !tool.is_conditional());
    let tool = tool.map(|tool| &**tool);
    let identity = request.extensions().get::<Identity>();
    let refusal = Authorize::authorize(auth, &registry, identity, true, &method, tool).err()?;
    Some(auth.respond(&refusal))
}

/// Checks a request about a task, which needs the scopes of the task's tool. The returned future reads from the store
/// and cannot borrow the request body, so the future owns the data.
fn step_up_task(shared: &Shared, request: &Received) -> Option<BoxFuture<'static, Option<Response>>> {
    let auth = shared.auth()?.clone();
    let service = Arc::clone(&shared.service);
    let TaskAsked { method, id, owner, identity } =
        service.has_scoped_tools().then(|| TaskAsked::of(shared, request)).flatten()?;
    Some(Box::pin(async move {
        // If the store fails here, the handler of the request returns the error.
        let view = service.tasks.as_ref()?.get(&owner, &id).await.ok()??;
        let registry = service.registry();
        let tool = registry.tool(&view.tool).filter(|tool| !tool.is_conditional()).map(|tool| &**tool);
        let refusal = Authorize::authorize(&auth, &registry, identity.as_ref(), true, &method, tool).err()?;
        Some(auth.respond(&refusal))
    }))
}

/// The task that a request refers to, and the caller who sent the request.
struct TaskAsked {
    method: String,
    id: String,
    owner: Owner,
    identity: Option<Identity>,
}

impl TaskAsked {
    fn of(shared: &Shared, request: &Received) -> Option<Self> {
        let (parts, bytes) = request.message()?;
        let OfTask { method, params } = serde_json::from_slice(bytes).ok()?;
        let id = params.task_id.filter(|_| method.starts_with("tasks/"))?;
        let owner = Tasks::owner(shared.service.principal_of(parts).as_deref());
        Some(Self { method, id, owner, identity: parts.extensions.get().cloned() })
    }
}

/// The part of a JSON-RPC message that contains the ID of a task.
#[derive(Deserialize)]
struct OfTask {
    method: String,
    params: TaskId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskId {
    #[serde(default)]
    task_id: Option<String>,
}

/// The parts of a message that determine which scopes the message needs.
#[derive(Debug, PartialEq, Eq)]
struct Called {
    method: String,
    name: Option<String>,
}

impl Called {
    /// Reads the method and the name from the headers of a 2026-07-28 request. If the body differs from the headers,
    /// the SDK rejects the request.
    fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned);
        Some(Self { method: text(&METHOD)?, name: text(&NAME) })
    }

    /// Reads the method and the name from the body of a message. Returns `None` if the message has no method.
    fn of_body(bytes: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Message {
            method: String,
            #[serde(default)]
            params: Option<Params>,
        }
        #[derive(Deserialize)]
        struct Params {
            #[serde(default)]
            name: Option<String>,
        }
        let Message { method, params } = serde_json::from_slice(bytes).ok()?;
        Some(Self { method, name: params.and_then(|params| params.name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_says_what_it_calls() {
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"name":"b"}}}"#;
        assert_eq!(
            Called::of_body(call),
            Some(Called { method: "tools/call".into(), name: Some("a".into()) })
        );
        let ping = br#"{"jsonrpc":"2.0","id":1,"method":"pi\u006eg"}"#;
        assert_eq!(Called::of_body(ping), Some(Called { method: "ping".into(), name: None }));
        for other in [&br#"{"jsonrpc":"2.0","id":1,"result":{}}"#[..], b"", b"[]", b"{", br#"{"method":7}"#] {
            assert_eq!(Called::of_body(other), None);
        }
    }
}
