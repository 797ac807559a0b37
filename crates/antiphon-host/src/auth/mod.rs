//! OAuth for servers over streamable HTTP. The configuration determines who authorizes (a user, or the host itself) and
//! which OAuth client the host uses.

mod authority;
#[cfg(feature = "auth-enterprise")]
mod enterprise;
mod store;

use std::{error::Error as StdError, fmt, future::Future, sync::Arc};

use rmcp::transport::auth::InMemoryCredentialStore;
pub use rmcp::transport::auth::{
    AuthError as CredentialError, CredentialRefreshGuard, CredentialStore, StoredCredentials,
};

pub(crate) use self::authority::{Attempt, Authority};
#[cfg(feature = "auth-enterprise")]
pub use self::enterprise::{Enterprise, IdToken};
use crate::form::BoxFuture;

/// An error of a handler that the application provides.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// The configuration with which a host gets OAuth tokens for a server.
///
/// The host requests no token until the server requires authorization. When the server requires authorization, the
/// host finds the authorization server (RFC 9728, RFC 8414) and requests a token as an OAuth client. With
/// [`person`](Self::person), a user authorizes the host on a web page. With [`client_secret`](Self::client_secret),
/// the host authorizes itself. If possible, the host refreshes tokens without asking the user. If a call needs further
/// scopes, the host requests these scopes and retries the call.
///
/// ```no_run
/// use antiphon_host::{AuthConfig, Host, HttpEndpoint};
///
/// # async fn example(show: fn(&str), sent_back: fn() -> String) -> antiphon_host::Result<()> {
/// let auth = AuthConfig::person("http://127.0.0.1:8976/callback", move |url: String| async move {
///     show(&url);
///     Ok::<_, std::io::Error>(sent_back())
/// })
/// .with_client_name("My chat");
/// let host = Host::builder("my-chat", "1.0.0").build();
/// let server = host.connect(HttpEndpoint::new("https://mcp.example.com/mcp").with_auth(auth)).await?;
/// # Ok(())
/// # }
/// ```
///
/// The `Debug` output of `AuthConfig` contains no secrets.
#[derive(Clone)]
pub struct AuthConfig {
    pub(crate) grant: Grant,
    pub(crate) scopes: Vec<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) step_ups: u32,
    pub(crate) private_addresses: bool,
    pub(crate) store: Arc<dyn CredentialStore>,
}

/// The way in which the host is authorized.
#[derive(Clone)]
pub(crate) enum Grant {
    Person(Person),
    Client(ClientKey),
    #[cfg(feature = "auth-enterprise")]
    Enterprise(Enterprise),
}

/// Authorization by a user on a web page.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) redirect_uri: String,
    pub(crate) authorize: Arc<dyn Authorize>,
    pub(crate) client_name: String,
    pub(crate) client_metadata_url: Option<String>,
    pub(crate) registered: Option<Registered>,
}

/// A client that is already registered at the authorization server.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
}

/// The key or secret with which a client authorizes itself.
#[derive(Clone)]
pub(crate) enum ClientKey {
    Secret {
        id: String,
        secret: String,
    },
    #[cfg(feature = "auth-key")]
    Private {
        id: String,
        pem: Vec<u8>,
        algorithm: SigningAlgorithm,
    },
}

/// The algorithm with which a host signs its requests to the authorization server.
#[cfg(feature = "auth-key")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SigningAlgorithm {
    /// Signs with RSA and SHA-256.
    Rs256,
    /// Signs with RSA and SHA-384.
    Rs384,
    /// Signs with RSA and SHA-512.
    Rs512,
    /// Signs with ECDSA on P-256.
    Es256,
    /// Signs with ECDSA on P-384.
    Es384,
}

impl AuthConfig {
    /// Creates a configuration for users who authorize the host on a web page. The handler `authorize` opens the
    /// authorization page, and returns the URL to which this page redirects the user. The returned URL starts with
    /// `redirect_uri`.
    ///
    /// The host uses the [registered client](Self::with_client) as its OAuth client, if you set one. Without a
    /// registered client, the host uses its [client metadata](Self::with_client_metadata), if the authorization
    /// server can fetch this document. If the host has no registered client and cannot use client metadata, the host
    /// registers a new client.
    pub fn person(redirect_uri: impl Into<String>, authorize: impl Authorize) -> Self {
        Self::new(Grant::Person(Person {
            redirect_uri: redirect_uri.into(),
            authorize: Arc::new(authorize),
            client_name: "Antiphon".into(),
            client_metadata_url: None,
            registered: None,
        }))
    }

    /// Creates a configuration for a host that authorizes itself with a client secret. Use `client_secret` for programs
    /// without a user.
    pub fn client_secret(id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self::new(Grant::Client(ClientKey::Secret { id: id.into(), secret: secret.into() }))
    }

    /// Creates a configuration for a host that authorizes itself with a private key in PEM format. Use `client_key` for
    /// programs without a user.
    #[cfg(feature = "auth-key")]
    pub fn client_key(id: impl Into<String>, pem: impl Into<Vec<u8>>, algorithm: SigningAlgorithm) -> Self {
        Self::new(Grant::Client(ClientKey::Private { id: id.into(), pem: pem.into(), algorithm }))
    }

    /// Creates a configuration in which the identity provider of an enterprise authorizes users. The host shows no
    /// authorization page to the user.
    #[cfg(feature = "auth-enterprise")]
    pub fn enterprise(enterprise: Enterprise) -> Self {
        Self::new(Grant::Enterprise(enterprise))
    }

    fn new(grant: Grant) -> Self {
        Self {
            grant,
            scopes: Vec::new(),
            issuer: None,
            step_ups: 2,
            private_addresses: false,
            store: Arc::new(InMemoryCredentialStore::new()),
        }
    }

    /// Sets the name with which the host registers itself as an OAuth client. Users can see the client name. Default:
    /// `Antiphon`. The client name applies only to [`person`](Self::person).
    #[must_use]
    pub fn with_client_name(mut self, name: impl Into<String>) -> Self {
        if let Grant::Person(person) = &mut self.grant {
            person.client_name = name.into();
        }
        self
    }

    /// Sets the URL of the host's client metadata document. The URL must start with `https`. Authorization servers that
    /// fetch client metadata documents use the URL as the client ID. Default: none. The client metadata document
    /// applies only to [`person`](Self::person).
    #[must_use]
    pub fn with_client_metadata(mut self, url: impl Into<String>) -> Self {
        if let Grant::Person(person) = &mut self.grant {
            person.client_metadata_url = Some(url.into());
        }
        self
    }

    /// Sets the ID and the secret of a client that is already registered at the authorization server. Default: none.
    /// The registered client applies only to [`person`](Self::person).
    ///
    /// A registered client belongs to one authorization server. Set the authorization server of the client with
    /// [`with_issuer`](Self::with_issuer). Without `with_issuer`, the host accepts only the first authorization server
    /// that the MCP server names.
    #[must_use]
    pub fn with_client(mut self, id: impl Into<String>, secret: impl Into<Option<String>>) -> Self {
        if let Grant::Person(person) = &mut self.grant {
            person.registered = Some(Registered { id: id.into(), secret: secret.into() });
        }
        self
    }

    /// Accepts only the authorization server with the issuer `issuer`. Default: the authorization server that the MCP
    /// server names. If the host has a client secret, set the issuer, so that the secret is not sent to another
    /// authorization server.
    #[must_use]
    pub fn with_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Sets the scopes that the host requests first. If a call needs further scopes, the host also requests the further
    /// scopes. Default: the scopes that the server names.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how often the host can request further scopes during one call. Default: 2.
    #[must_use]
    pub fn with_step_ups(mut self, step_ups: u32) -> Self {
        self.step_ups = step_ups;
        self
    }

    /// Allows servers on public addresses to name an authorization server on a private address. Default: not allowed,
    /// because a malicious server could make the host send requests behind a firewall.
    #[must_use]
    pub fn with_private_addresses(mut self) -> Self {
        self.private_addresses = true;
        self
    }

    /// Sets the store for tokens. Use a separate token store for each server. Default: the host keeps tokens in memory
    /// until the endpoint is dropped.
    #[must_use]
    pub fn with_store(mut self, store: impl CredentialStore + 'static) -> Self {
        self.store = Arc::new(store);
        self
    }
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grant = match &self.grant {
            Grant::Person(_) => "person",
            Grant::Client(_) => "client",
            #[cfg(feature = "auth-enterprise")]
            Grant::Enterprise(_) => "enterprise",
        };
        f.debug_struct("AuthConfig")
            .field("grant", &grant)
            .field("scopes", &self.scopes)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// A handler that opens the authorization page for the user. Every closure
/// `Fn(String) -> impl Future<Output = Result<String, _>>` implements `Authorize`.
pub trait Authorize: Send + Sync + 'static {
    /// Shows the web page at `url` to the user, and returns the complete URL to which this page redirects the user. The
    /// query of the returned URL contains the authorization code and the `state` of the authorization request.
    ///
    /// # Errors
    ///
    /// Returns an error if the user declines or does not finish the authorization. The connection or the call that
    /// needs the authorization fails with the returned error.
    fn authorize(&self, url: String) -> BoxFuture<'_, Result<String, Box<dyn StdError + Send + Sync>>>;
}

impl<F, Fut, E> Authorize for F
where
    F: Fn(String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
{
    fn authorize(&self, url: String) -> BoxFuture<'_, Result<String, BoxError>> {
        let authorized = self(url);
        Box::pin(async move { authorized.await.map_err(Into::into) })
    }
}

/// An [`Authorize`] handler that needs no user: the handler requests the authorization page and returns the URL of the
/// redirect. Use `Unattended` for tests, and for authorization servers that show no page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Authorize for Unattended {
    fn authorize(&self, url: String) -> BoxFuture<'_, Result<String, BoxError>> {
        Box::pin(async move {
            let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
            let answer = client.get(&url).send().await?;
            let location = answer.headers().get(http::header::LOCATION).ok_or_else(|| {
                format!("the authorization page returned the status {} without a redirect", answer.status())
            })?;
            Ok(location.to_str()?.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let secret = "s3cr3t";
        let person =
            AuthConfig::person("http://127.0.0.1/callback", Unattended).with_client("id", secret.to_owned());
        let shown = format!("{person:?} {:?}", AuthConfig::client_secret("id", secret));
        assert!(!shown.contains(secret), "{shown}");
    }
}
