//! OAuth for servers behind streamable HTTP: who authorizes, and as which client.

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

/// What a person, or whoever stands in for them, may run into.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// How a host comes by the right to use a server.
///
/// Nothing is asked for until the server wants it. Then its authorization server is found (RFC 9728,
/// RFC 8414), the host becomes a client of it, and whoever may authorizes: a person at a page with
/// [`person`](Self::person), the client itself with [`client_secret`](Self::client_secret). Tokens
/// are refreshed silently where that is possible. A call that needs more than was granted asks for
/// that much more, and is then made again.
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
/// No secret is in its `Debug` output.
#[derive(Clone)]
pub struct AuthConfig {
    pub(crate) grant: Grant,
    pub(crate) scopes: Vec<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) step_ups: u32,
    pub(crate) private_addresses: bool,
    pub(crate) store: Arc<dyn CredentialStore>,
}

/// Who authorizes.
#[derive(Clone)]
pub(crate) enum Grant {
    Person(Person),
    Client(ClientKey),
    #[cfg(feature = "auth-enterprise")]
    Enterprise(Enterprise),
}

/// A person at a page.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) redirect_uri: String,
    pub(crate) authorize: Arc<dyn Authorize>,
    pub(crate) client_name: String,
    pub(crate) client_metadata_url: Option<String>,
    pub(crate) registered: Option<Registered>,
}

/// A client the authorization server knows beforehand.
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

/// With which algorithm a client signs.
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
    /// A person authorizes. `authorize` sends them to a page and says where that sent them back to,
    /// which begins with `redirect_uri`.
    ///
    /// As which client, the authorization server decides: one it [knows](Self::with_client), one with
    /// [metadata](Self::with_client_metadata) it can fetch, or else one that registers itself.
    pub fn person(redirect_uri: impl Into<String>, authorize: impl Authorize) -> Self {
        Self::new(Grant::Person(Person {
            redirect_uri: redirect_uri.into(),
            authorize: Arc::new(authorize),
            client_name: "Antiphon".into(),
            client_metadata_url: None,
            registered: None,
        }))
    }

    /// The host itself is authorized, with a secret: for programs without a person.
    pub fn client_secret(id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self::new(Grant::Client(ClientKey::Secret { id: id.into(), secret: secret.into() }))
    }

    /// The host itself is authorized, with a private key in PEM: for programs without a person.
    #[cfg(feature = "auth-key")]
    pub fn client_key(id: impl Into<String>, pem: impl Into<Vec<u8>>, algorithm: SigningAlgorithm) -> Self {
        Self::new(Grant::Client(ClientKey::Private { id: id.into(), pem: pem.into(), algorithm }))
    }

    /// The identity provider of an enterprise authorizes whom it has signed in; nobody is asked.
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

    /// Sets what people call the host when it registers itself. Default: `Antiphon`. Only with
    /// [`person`](Self::person).
    #[must_use]
    pub fn with_client_name(mut self, name: impl Into<String>) -> Self {
        if let Grant::Person(person) = &mut self.grant {
            person.client_name = name.into();
        }
        self
    }

    /// Says where the host's client metadata document is: an `https` address that is the client's id
    /// with authorization servers that fetch such documents. Only with [`person`](Self::person).
    #[must_use]
    pub fn with_client_metadata(mut self, url: impl Into<String>) -> Self {
        if let Grant::Person(person) = &mut self.grant {
            person.client_metadata_url = Some(url.into());
        }
        self
    }

    /// Makes the host a client that the authorization server knows already. Only with
    /// [`person`](Self::person).
    ///
    /// Such a client belongs to one authorization server: say which with
    /// [`with_issuer`](Self::with_issuer), or the first one the server names is it.
    #[must_use]
    pub fn with_client(mut self, id: impl Into<String>, secret: impl Into<Option<String>>) -> Self {
        if let Grant::Person(person) = &mut self.grant {
            person.registered = Some(Registered { id: id.into(), secret: secret.into() });
        }
        self
    }

    /// Accepts this authorization server and no other. Without it the server's word is taken; with a
    /// secret that is worth stealing, do not.
    #[must_use]
    pub fn with_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Asks for these scopes, and not for those the server names. What a call needs beyond them is
    /// still asked for.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how often one call may ask for more than was granted. Default: 2.
    #[must_use]
    pub fn with_step_ups(mut self, step_ups: u32) -> Self {
        self.step_ups = step_ups;
        self
    }

    /// Follows a server on the open network to an authorization server on a private one. Off by
    /// default, because whoever runs a server could have the host knock at doors behind the firewall.
    #[must_use]
    pub fn with_private_addresses(mut self) -> Self {
        self.private_addresses = true;
        self
    }

    /// Keeps tokens here. One store is for one server. Default: in memory, until the endpoint is
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

/// Who sends the person to the authorization page. Every
/// `Fn(String) -> impl Future<Output = Result<String, _>>` is one.
pub trait Authorize: Send + Sync + 'static {
    /// Shows the person the page at `url`, waits until it has sent them back, and returns the address
    /// it sent them to, whole: the code is in its query, and what proves that the answer is to this
    /// question.
    ///
    /// # Errors
    ///
    /// When they would rather not, or nobody came back; the connection or the call fails with it.
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

/// Asks for the page itself and takes the redirect it answers with: for tests, and for authorization
/// servers that ask nobody.
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
