//! OAuth for servers over streamable HTTP: who authorizes, and with which client.

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

/// How a host authorizes at a server.
///
/// The host does nothing until the server requires authorization. Then it finds the authorization server (RFC 9728,
/// RFC 8414) and becomes its client. With [`person`](Self::person), a user authorizes on a web page. With
/// [`client_secret`](Self::client_secret), the client authorizes itself. The host refreshes tokens without the user
/// where possible. If a call needs further scopes, the host requests them and retries the call.
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
/// Its `Debug` output contains no secrets.
#[derive(Clone)]
pub struct AuthConfig {
    pub(crate) grant: Grant,
    pub(crate) scopes: Vec<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) step_ups: u32,
    pub(crate) private_addresses: bool,
    pub(crate) store: Arc<dyn CredentialStore>,
}

/// The party that authorizes.
#[derive(Clone)]
pub(crate) enum Grant {
    Person(Person),
    Client(ClientKey),
    #[cfg(feature = "auth-enterprise")]
    Enterprise(Enterprise),
}

/// A user on a web page.
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

/// A client that authorizes itself.
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

/// The algorithm that a client signs with.
#[cfg(feature = "auth-key")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SigningAlgorithm {
    /// RSA with SHA-256.
    Rs256,
    /// RSA with SHA-384.
    Rs384,
    /// RSA with SHA-512.
    Rs512,
    /// ECDSA on P-256.
    Es256,
    /// ECDSA on P-384.
    Es384,
}

impl AuthConfig {
    /// Creates a configuration for users who authorize on a web page. `authorize` opens the page and returns the URL
    /// that it redirects to, which starts with `redirect_uri`.
    ///
    /// The host uses a [registered client](Self::with_client) if it has one. Otherwise it uses its
    /// [metadata](Self::with_client_metadata) if the authorization server can fetch it. Otherwise it registers a
    /// client.
    pub fn person(redirect_uri: impl Into<String>, authorize: impl Authorize) -> Self {
        Self::new(Grant::Person(Person {
            redirect_uri: redirect_uri.into(),
            authorize: Arc::new(authorize),
            client_name: "Antiphon".into(),
            client_metadata_url: None,
            registered: None,
        }))
    }

    /// Creates a configuration for a host that authorizes itself with a secret. Use it for programs without a user.
    pub fn client_secret(id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self::new(Grant::Client(ClientKey::Secret { id: id.into(), secret: secret.into() }))
    }

    /// Creates a configuration for a host that authorizes itself with a private key in PEM format. Use it for
    /// programs without a user.
    #[cfg(feature = "auth-key")]
    pub fn client_key(id: impl Into<String>, pem: impl Into<Vec<u8>>, algorithm: SigningAlgorithm) -> Self {
        Self::new(Grant::Client(ClientKey::Private { id: id.into(), pem: pem.into(), algorithm }))
    }

    /// Creates a configuration for users whom the identity provider of an enterprise authorizes. Users are not asked.
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

    /// Sets the client name for the registration of the host. Users can see it. Default: `Antiphon`. It applies only
    /// to [`person`](Self::person).
    #[must_use]
    pub fn with_client_name(mut self, name: impl Into<String>) -> Self {
        if let Grant::Person(person) = &mut self.grant {
            person.client_name = name.into();
        }
        self
    }

    /// Sets the URL of the host's client metadata document. The `https` URL is the client ID at authorization servers
    /// that fetch such documents. Default: none. It applies only to [`person`](Self::person).
    #[must_use]
    pub fn with_client_metadata(mut self, url: impl Into<String>) -> Self {
        if let Grant::Person(person) = &mut self.grant {
            person.client_metadata_url = Some(url.into());
        }
        self
    }

    /// Sets a client that is already registered at the authorization server. Default: none. It applies only to
    /// [`person`](Self::person).
    ///
    /// Such a client belongs to one authorization server. Set it with [`with_issuer`](Self::with_issuer). Without
    /// that, the host accepts only the first one that the server names.
    #[must_use]
    pub fn with_client(mut self, id: impl Into<String>, secret: impl Into<Option<String>>) -> Self {
        if let Grant::Person(person) = &mut self.grant {
            person.registered = Some(Registered { id: id.into(), secret: secret.into() });
        }
        self
    }

    /// Accepts only this authorization server. Default: the one that the server names. Set it if the host has a
    /// client secret, so that the secret is not sent to another one.
    #[must_use]
    pub fn with_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Requests these scopes. Default: the scopes that the server names. If a call needs further scopes, the host
    /// requests them too.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how often one call can request further scopes. Default: 2.
    #[must_use]
    pub fn with_step_ups(mut self, step_ups: u32) -> Self {
        self.step_ups = step_ups;
        self
    }

    /// Allows a server on a public address to name an authorization server on a private address. Default: not
    /// allowed. A malicious server could otherwise make the host send requests behind a firewall.
    #[must_use]
    pub fn with_private_addresses(mut self) -> Self {
        self.private_addresses = true;
        self
    }

    /// Stores tokens in `store`. Use a separate store for each server. Default: in memory, until the endpoint is
    /// dropped.
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

/// A handler that sends the user to the authorization page. All closures
/// `Fn(String) -> impl Future<Output = Result<String, _>>` implement it.
pub trait Authorize: Send + Sync + 'static {
    /// Shows the page at `url` to the user and returns the complete URL that it redirects to. Its query contains the
    /// authorization code and the `state` of this request.
    ///
    /// # Errors
    ///
    /// Returns an error if the user declines or does not come back. The connection or the call fails with it.
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

/// An [`Authorize`] handler that requests the page and returns its redirect, without a user. Use it for tests, and
/// for authorization servers that show no page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Authorize for Unattended {
    fn authorize(&self, url: String) -> BoxFuture<'_, Result<String, BoxError>> {
        Box::pin(async move {
            let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
            let answer = client.get(&url).send().await?;
            let location = answer.headers().get(http::header::LOCATION).ok_or_else(|| {
                format!("the authorization page answered {} and sent nobody back", answer.status())
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
