//! Authentication over HTTP, and scopes.
//!
//! With an [`Auth`], an application is an OAuth 2.1 resource server, as MCP has it: it says where tokens for it are to be had
//! (RFC 9728), takes those that were made for it and no others, and says which scopes a call lacks. It never makes a token.
//!
//! [`Auth::layer`] works before any axum router. It answers requests without valid credentials, and puts an [`Identity`]
//! into the extensions of all others:
//!
//! ```no_run
//! use antiphon_http::{
//!     ServeConfig,
//!     auth::{Auth, Identity, Issuer},
//!     serve, shutdown_signal,
//! };
//! use axum::{Extension, Router, routing::get};
//!
//! async fn report(Extension(caller): Extension<Identity>) -> String {
//!     format!("All is well, {}.", caller.principal())
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let auth = Auth::builder("https://api.example.com/")
//!     .with_issuer(Issuer::new("https://login.example.com"))
//!     .with_scopes(["reports:read"])
//!     .build()?;
//! let app = Router::new().route("/report", get(report)).layer(auth.layer()).merge(auth.router());
//! let listener = tokio::net::TcpListener::bind("0.0.0.0:8000").await?;
//! serve(listener, app, ServeConfig::default(), shutdown_signal()).await;
//! # Ok(())
//! # }
//! ```
//!
//! A server of `antiphon` takes it with `ServerBuilder::with_auth`, which also checks the scopes of tools.
//!
//! Four things show who is calling, in any mixture: the signed tokens of an [`Issuer`], tokens that are asked about by
//! [`Introspection`], an [`ApiKey`], and the word of a [`Proxy`] that has checked a certificate. They come to one
//! [`Identity`], and its [`principal`](Identity::principal) is the name that seals, sessions, tasks, result sets and links
//! are bound to.
//!
//! Over standard input and output nobody is asked: whoever started the process is its user.

mod api_key;
mod builder;
mod fetch;
mod introspection;
mod issuer;
mod jwks;
mod layer;
mod lease;
mod metadata;
mod proxy;
mod refusal;
#[cfg(feature = "results")]
mod results;
mod scopes;

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use antiphon_transport::guard::Caller;
use axum::{Router, extract::ConnectInfo, response::Response};
use http::{HeaderMap, HeaderName, header, request::Parts};

pub use self::{
    api_key::ApiKey,
    builder::{AuthBuilder, BuildError},
    introspection::Introspection,
    issuer::Issuer,
    layer::{AuthLayer, AuthService},
    proxy::Proxy,
};
use self::{
    introspection::Inquirer,
    issuer::Judge,
    metadata::Metadata,
    refusal::{Challenge, NOT_VALID},
};
pub use antiphon_transport::identity::{Identity, Refusal};

/// Finds out who is calling. Cloning it clones the handle.
///
/// The [module](self) has the tour.
#[derive(Clone)]
pub struct Auth {
    inner: Arc<Inner>,
}

struct Inner {
    resource: String,
    judges: Vec<Judge>,
    inquirer: Option<Inquirer>,
    keys: Vec<ApiKey>,
    key_header: Option<HeaderName>,
    proxy: Option<Proxy>,
    max_token_bytes: usize,
    principal: Option<PrincipalHook>,
    /// What every request needs.
    scopes: Vec<String>,
    /// What requests of a method need beside that.
    operations: BTreeMap<String, Vec<String>>,
    challenge: Challenge,
    metadata: Option<Metadata>,
    /// How often the credentials of an open connection are checked again, and how long it stays open at most.
    recheck: Duration,
    max_connection: Option<Duration>,
}

/// What a layer has found out, for those behind it: the credentials themselves do not come that far.
#[derive(Clone)]
struct Admitted {
    by: Arc<Inner>,
    identity: Identity,
}

type PrincipalHook = Box<dyn Fn(&Identity) -> Option<String> + Send + Sync>;

impl Auth {
    /// Begins with the resource: the address under which clients know the MCP endpoint, and for which they ask for tokens
    /// (RFC 8707).
    pub fn builder(resource: impl Into<String>) -> AuthBuilder {
        AuthBuilder::new(resource.into())
    }

    /// The resource that tokens must be for.
    pub fn resource(&self) -> &str {
        &self.inner.resource
    }

    /// The same for routes of your own: a tower layer that lets nobody pass who does not show who they are.
    ///
    /// `Server::router` of `antiphon` has it already. WebSocket and HTTP+SSE endpoints of `antiphon-transport` need it.
    pub fn layer(&self) -> AuthLayer {
        AuthLayer::new(self.clone())
    }

    /// The resource's metadata (RFC 9728), for an application of your own. `Server::router` of `antiphon` has them already.
    /// Empty where no authorization server is named.
    pub fn router(&self) -> Router {
        self.metadata(None)
    }

    /// As [`router`](Self::router), for a resource that is mounted at `path`: the metadata are also found there.
    pub fn router_at(&self, path: &str) -> Router {
        self.metadata(Some(path))
    }

    fn metadata(&self, mounted: Option<&str>) -> Router {
        self.inner.metadata.as_ref().map_or_else(Router::new, |metadata| metadata.router(mounted))
    }

    /// Who sends a request, whatever they may do.
    ///
    /// # Errors
    ///
    /// Why nobody knows.
    pub async fn authenticate(&self, parts: &Parts) -> Result<Identity, Refusal> {
        if let Some(admitted) = self.admitted(parts) {
            return Ok(admitted.identity.clone());
        }
        let Inner { proxy, principal, .. } = &*self.inner;
        let identity = match self.credential(&parts.headers)? {
            Some(token) => self.judge(token, peer(parts)).await?,
            None => proxy.as_ref().and_then(|proxy| proxy.identify(parts)).ok_or(Refusal::Missing)?,
        };
        let Some(rename) = principal else { return Ok(identity) };
        let principal = rename(&identity).ok_or(Refusal::Invalid("nobody here knows whose this is"))?;
        Ok(identity.with_principal(principal))
    }

    /// What a layer of the same auth has found out before.
    fn admitted<'a>(&self, parts: &'a Parts) -> Option<&'a Admitted> {
        let admitted = parts.extensions.get::<Admitted>()?;
        Arc::ptr_eq(&admitted.by, &self.inner).then_some(admitted)
    }

    fn has_admitted(&self, parts: &Parts) -> bool {
        self.admitted(parts).is_some()
    }

    /// Who sends a request, if they may do what every request does, and what needs `more`.
    async fn admit(&self, parts: &Parts, more: &[String]) -> Result<Identity, Refusal> {
        let identity = self.authenticate(parts).await?;
        scopes::hold(&identity, self.inner.scopes.iter().chain(more), &[])?;
        Ok(identity)
    }

    /// The answer to a request that is turned away.
    pub fn respond(&self, refusal: &Refusal) -> Response {
        self.inner.challenge.respond(refusal)
    }

    /// What a request brings to show who sends it.
    fn credential<'a>(&self, headers: &'a HeaderMap) -> Result<Option<&'a str>, Refusal> {
        let key = match &self.inner.key_header {
            Some(name) => single(headers, name)?,
            None => None,
        };
        let bearer = match single(headers, &header::AUTHORIZATION)? {
            Some(value) => bearer(value),
            None => None,
        };
        let Some(token) = bearer.or(key) else { return Ok(None) };
        if token.len() > self.inner.max_token_bytes {
            return Err(Refusal::Malformed("the credential is too long"));
        }
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Refusal::Malformed("the credential has characters that none has"));
        }
        Ok(Some(token))
    }

    /// Whose credential it is.
    async fn judge(&self, token: &str, peer: Option<IpAddr>) -> Result<Identity, Refusal> {
        let Inner { judges, inquirer, keys, .. } = &*self.inner;
        if let Some(identity) = api_key::find(keys, token) {
            return Ok(identity);
        }
        // What a token says of itself decides who judges it, and nothing else.
        let issuer = issuer::named(token);
        if let Some(judge) = judges.iter().find(|judge| issuer.as_deref() == Some(judge.issuer())) {
            return judge.judge(token).await;
        }
        match inquirer {
            Some(inquirer) if issuer.is_none_or(|issuer| issuer == inquirer.issuer()) => {
                inquirer.judge(token, peer).await
            }
            _ => Err(NOT_VALID),
        }
    }

    /// Replaces the credentials of a request by what they have shown: no handler can read them and pass them on.
    fn accept(&self, parts: &mut Parts, identity: &Identity) {
        let proxy = self.inner.proxy.iter().flat_map(Proxy::headers);
        for name in self.inner.key_header.iter().chain([&header::AUTHORIZATION]).chain(proxy) {
            parts.headers.remove(name);
        }
        parts.extensions.insert(Admitted { by: Arc::clone(&self.inner), identity: identity.clone() });
        parts.extensions.insert(Caller(identity.principal().into()));
        parts.extensions.insert(identity.clone());
    }
}

/// The address that a request comes from.
fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip().to_canonical())
}

/// The value of a header, if it is there. Of two, nobody knows which is meant.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::Malformed("there is more than one credential"));
    }
    value.to_str().map(Some).map_err(|_| Refusal::Malformed("the credential has characters that none has"))
}

/// What comes after `Bearer`. Another scheme shows nothing here.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("resource", &self.inner.resource).finish_non_exhaustive()
    }
}
