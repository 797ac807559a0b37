//! Authenticates callers over HTTP, and checks their scopes.
//!
//! With an [`Auth`], an application is an OAuth 2.1 resource server, as MCP requires. The application publishes a list
//! of the authorization servers that issue tokens for the application (RFC 9728). The application accepts only tokens
//! that were issued for this application. If a token does not have all scopes that a call needs, the error lists the
//! needed scopes. The application never issues tokens.
//!
//! [`Auth::layer`] works with any axum router. The layer rejects requests without valid credentials, and adds an
//! [`Identity`] to the extensions of all other requests:
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
//! For a server of the crate `antiphon`, use `ServerBuilder::with_auth`. `ServerBuilder::with_auth` also checks the
//! scopes of tools.
//!
//! Callers can authenticate in four ways, which you can combine:
//!
//! - The caller sends a token that an [`Issuer`] signed.
//! - The caller sends an opaque token. [`Introspection`] checks the token.
//! - The caller sends an [`ApiKey`].
//! - The caller sends a client certificate. A [`Proxy`] checks the certificate.
//!
//! In all four ways, authentication returns an [`Identity`]. Sealed states, sessions, tasks, result sets and links
//! belong to the [`principal`](Identity::principal) of the identity. Callers with another principal cannot use these
//! sealed states, sessions, tasks, result sets and links.
//!
//! With [`OpenIdConnect`], users can sign in on a web page of your application. A user who signs in has the same
//! principal as if the user had sent a token.
//!
//! Over stdio, the server does not authenticate callers. The caller over stdio is the user who started the process.

mod api_key;
mod builder;
mod fetch;
mod introspection;
mod issuer;
mod jwks;
mod layer;
mod lease;
mod metadata;
mod open_id;
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
    open_id::{OpenIdClient, OpenIdConnect, SignInAttempt, SignInError},
    proxy::Proxy,
};
use self::{
    introspection::Inquirer,
    issuer::Judge,
    metadata::Metadata,
    refusal::{Challenge, NOT_VALID},
};
pub use antiphon_transport::identity::{Identity, Refusal};

/// The configuration with which an HTTP application authenticates its callers. Each clone of an `Auth` is a handle to
/// the same configuration.
///
/// The [module documentation](self) contains an example with an `Auth`.
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
    /// The scopes that every request needs.
    scopes: Vec<String>,
    /// The additional scopes for each MCP method.
    operations: BTreeMap<String, Vec<String>>,
    challenge: Challenge,
    metadata: Option<Metadata>,
    /// The interval at which the server checks the credentials of an open connection again.
    recheck: Duration,
    /// The maximum time for which a connection can stay open.
    max_connection: Option<Duration>,
}

/// The authentication result of an outer layer. Inner layers need the result of the outer layer, because the outer
/// layer removes the credentials from the request.
#[derive(Clone)]
struct Admitted {
    by: Arc<Inner>,
    identity: Identity,
}

type PrincipalHook = Box<dyn Fn(&Identity) -> Option<String> + Send + Sync>;

impl Auth {
    /// Creates a builder for an [`Auth`]. `resource` is the public URL of the MCP endpoint. Clients request tokens
    /// that are valid for the URL `resource` (RFC 8707).
    pub fn builder(resource: impl Into<String>) -> AuthBuilder {
        AuthBuilder::new(resource.into())
    }

    /// Returns the public URL of the resource. Tokens must be issued for this URL.
    pub fn resource(&self) -> &str {
        &self.inner.resource
    }

    /// Returns a tower layer that rejects unauthenticated requests. Add the layer to your own routes.
    ///
    /// `Server::router` of the crate `antiphon` already contains this layer. You must add the layer to the WebSocket
    /// and HTTP+SSE endpoints of the crate `antiphon-transport`.
    pub fn layer(&self) -> AuthLayer {
        AuthLayer::new(self.clone())
    }

    /// Returns the routes that serve the metadata of the resource (RFC 9728). Merge the metadata routes into your
    /// application. `Server::router` of the crate `antiphon` already contains the metadata routes. The returned router
    /// is empty if the [`Auth`] has no authorization server.
    pub fn router(&self) -> Router {
        self.metadata(None)
    }

    /// Returns the metadata routes of [`router`](Self::router), and one more route for an endpoint that is mounted at
    /// `path`.
    pub fn router_at(&self, path: &str) -> Router {
        self.metadata(Some(path))
    }

    fn metadata(&self, mounted: Option<&str>) -> Router {
        self.inner.metadata.as_ref().map_or_else(Router::new, |metadata| metadata.router(mounted))
    }

    /// Authenticates the caller of a request, and returns the caller's identity. `authenticate` does not check scopes.
    ///
    /// # Errors
    ///
    /// Returns a [`Refusal`] if the caller cannot be authenticated.
    pub async fn authenticate(&self, parts: &Parts) -> Result<Identity, Refusal> {
        if let Some(admitted) = self.admitted(parts) {
            return Ok(admitted.identity.clone());
        }
        let proxy = self.inner.proxy.as_ref();
        let identity = match self.credential(&parts.headers)? {
            Some(token) => self.judge(token, peer(parts)).await?,
            None => proxy.and_then(|proxy| proxy.identify(parts)).ok_or(Refusal::Missing)?,
        };
        self.map_principal(identity)
    }

    /// Returns `identity` with the principal that the function of [`AuthBuilder::with_principal`] returns. If you did
    /// not set a function with `with_principal`, the identity stays the same.
    ///
    /// Use `map_principal` for users who sign in on a web page, for example with [`OpenIdConnect`]. Users who sign in
    /// then have the same principal as users who send a token.
    ///
    /// # Errors
    ///
    /// Returns [`Refusal::Invalid`] if the function of `with_principal` returns `None`.
    pub fn map_principal(&self, identity: Identity) -> Result<Identity, Refusal> {
        let Some(rename) = &self.inner.principal else { return Ok(identity) };
        let principal = rename(&identity)
            .ok_or(Refusal::Invalid("the token is valid, but its subject is not a known principal"))?;
        Ok(identity.with_principal(principal))
    }

    /// Returns whether callers can authenticate with tokens from the issuer `issuer`.
    pub fn accepts_issuer(&self, issuer: &str) -> bool {
        let Inner { judges, inquirer, .. } = &*self.inner;
        let is_asked = inquirer.as_ref().is_some_and(|inquirer| inquirer.issuer() == issuer);
        is_asked || judges.iter().any(|judge| judge.issuer() == issuer)
    }

    /// Returns the authentication result of an outer layer that uses the same [`Auth`].
    fn admitted<'a>(&self, parts: &'a Parts) -> Option<&'a Admitted> {
        let admitted = parts.extensions.get::<Admitted>()?;
        Arc::ptr_eq(&admitted.by, &self.inner).then_some(admitted)
    }

    fn has_admitted(&self, parts: &Parts) -> bool {
        self.admitted(parts).is_some()
    }

    /// Returns the identity of the caller. The caller must have the scopes that every request needs, and the scopes in
    /// `more`.
    async fn admit(&self, parts: &Parts, more: &[String]) -> Result<Identity, Refusal> {
        let identity = self.authenticate(parts).await?;
        scopes::hold(&identity, self.inner.scopes.iter().chain(more), &[])?;
        Ok(identity)
    }

    /// Converts a rejection into an HTTP response.
    pub fn respond(&self, refusal: &Refusal) -> Response {
        self.inner.challenge.respond(refusal)
    }

    /// Returns the token or the API key of a request.
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
            return Err(Refusal::Malformed("the access token or API key is too long"));
        }
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Refusal::Malformed("the access token or API key is empty or has invalid characters"));
        }
        Ok(Some(token))
    }

    /// Returns the identity of the caller that sent a token or an API key.
    async fn judge(&self, token: &str, peer: Option<IpAddr>) -> Result<Identity, Refusal> {
        let Inner { judges, inquirer, keys, .. } = &*self.inner;
        if let Some(identity) = api_key::find(keys, token) {
            return Ok(identity);
        }
        // At this point, the issuer that the token names is not verified. The server uses this issuer only to choose
        // the validator.
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

    /// Removes the credentials from a request, so that handlers cannot read or forward the credentials. Then adds the
    /// identity to the request.
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

/// Returns the network address from which a request comes.
fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip().to_canonical())
}

/// Returns the value of a header, if the request has this header. A duplicate header is rejected, because its value is
/// ambiguous.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::Malformed("the request has a credential header more than once"));
    }
    value
        .to_str()
        .map(Some)
        .map_err(|_| Refusal::Malformed("the access token or API key has invalid characters"))
}

/// Returns the token after `Bearer`. Returns `None` for other authentication schemes.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("resource", &self.inner.resource).finish_non_exhaustive()
    }
}
