//! Requests a token when a server requires a token.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use reqwest::Url;
use rmcp::transport::{
    AuthClient, AuthorizationManager,
    auth::{
        AuthError, AuthorizationCallback, AuthorizationMetadata, ClientCredentialsConfig, OAuthClientConfig,
        WWWAuthenticateParams,
    },
};
use tokio::sync::{Mutex, OnceCell};

use super::{AuthConfig, BoxError, ClientKey, Grant, Person, store::Shared};
use crate::{
    error::{Error, Result},
    legacy_tasks_http::LegacyTasksHttp,
};

/// The source of the tokens that all connections to one endpoint share.
pub(crate) struct Authority {
    url: String,
    config: AuthConfig,
    client: OnceCell<AuthClient<LegacyTasksHttp>>,
    /// The state of the last authorization. The lock is held during an authorization, so that only one authorization
    /// page is open at a time.
    known: Mutex<Known>,
    /// The number of authorizations so far. If the server rejected a token from an earlier authorization, a retry with
    /// the newer token is sufficient.
    grants: AtomicU64,
}

/// The state of the last authorization.
#[derive(Default)]
struct Known {
    issuer: Option<String>,
    registered: Option<OAuthClientConfig>,
    requested: Vec<String>,
}

/// The reason why an authorization failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    OAuth(#[from] AuthError),
    #[error("the user did not complete the authorization")]
    Person(#[source] BoxError),
    #[error("the authorization server denied the request: {0}")]
    Denied(String),
    #[error("the server uses the authorization server `{found}`, but only `{expected}` is allowed")]
    OtherIssuer { expected: String, found: String },
    #[cfg(feature = "auth-enterprise")]
    #[error("the user's ID token could not be exchanged for an access token")]
    Identity(#[source] BoxError),
    #[cfg(feature = "auth-enterprise")]
    #[error("the metadata of the authorization server has no `issuer`")]
    NoIssuer,
    #[error("`{0}` is not a valid URL")]
    BadUrl(String),
    #[error("`{0}` is not a valid client ID: it must be an https URL with a path")]
    BadClientMetadata(String),
}

impl Authority {
    pub(crate) fn new(url: String, config: AuthConfig) -> Self {
        Self { url, config, client: OnceCell::new(), known: Mutex::default(), grants: AtomicU64::new(0) }
    }

    /// Starts an attempt to connect or to send a request. The server can reject the attempt until the host is
    /// authorized.
    pub(crate) fn attempt(self: &Arc<Self>) -> Attempt {
        Attempt {
            seen: self.grants.load(Ordering::Acquire),
            authority: Arc::clone(self),
            challenged: false,
            step_ups: 0,
        }
    }

    /// Returns the HTTP client that sends tokens. The client is created once, so that all connections share the
    /// tokens.
    pub(crate) async fn client(&self) -> Result<AuthClient<LegacyTasksHttp>> {
        let made = self.client.get_or_try_init(|| async {
            let mut manager = self.manager().await?;
            if manager.initialize_from_store().await?
                && let Grant::Person(Person { redirect_uri, registered: Some(client), .. }) =
                    &self.config.grant
            {
                // The store contains the client ID, but not the secret that is required to refresh tokens.
                manager.configure_client(known_client(&client.id, client.secret.as_ref(), redirect_uri))?;
            }
            let http = crate::http::client().map_err(AuthError::InternalError)?;
            Ok(AuthClient::new(http, manager))
        });
        made.await.cloned().map_err(|failure: Failure| self.failed(failure))
    }

    async fn manager(&self) -> Result<AuthorizationManager, Failure> {
        let mut manager = if self.config.private_addresses {
            AuthorizationManager::new_allowing_private_addresses(&self.url).await?
        } else {
            AuthorizationManager::new(&self.url).await?
        };
        manager.set_credential_store(Shared(Arc::clone(&self.config.store)));
        Ok(manager)
    }

    fn failed(&self, failure: Failure) -> Error {
        Error::Authorization { endpoint: self.url.clone(), source: Box::new(failure) }
    }

    /// Gets a new token for a challenge of the server. If the host was authorized again after the authorization with
    /// the number `seen`, requests no token. Returns `true` if the caller must retry the request.
    async fn answer(&self, challenge: &str, seen: u64) -> Result<bool> {
        let client = self.client().await?;
        let mut known = self.known.lock().await;
        if self.grants.load(Ordering::Acquire) != seen {
            return Ok(true);
        }
        let granted = client.auth_manager.lock().await.get_current_scopes().await;
        if self.is_hopeless(challenge, &granted) {
            return Ok(false);
        }
        let manager = self.authorize(challenge, &mut known).await.map_err(|failure| self.failed(failure))?;
        *client.auth_manager.lock().await = manager;
        self.grants.fetch_add(1, Ordering::Release);
        Ok(true)
    }

    /// Returns `true` if the host already has all scopes that the server requires, so that another token does not
    /// help.
    fn is_hopeless(&self, challenge: &str, granted: &[String]) -> bool {
        let Ok(url) = Url::parse(&self.url) else { return true };
        let challenge = WWWAuthenticateParams::parse(challenge, &url);
        let wanted = challenge.scope.as_deref().unwrap_or_default();
        challenge.is_insufficient_scope()
            && wanted.split_whitespace().all(|scope| granted.iter().any(|granted| granted == scope))
    }

    async fn authorize(&self, challenge: &str, known: &mut Known) -> Result<AuthorizationManager, Failure> {
        let mut manager = self.manager().await?;
        let metadata = manager.resolve_metadata_from_challenge(Some(challenge)).await?.metadata;
        manager.set_metadata(metadata.clone());
        self.check_issuer(&metadata, known)?;
        if metadata.issuer.is_none() || metadata.issuer != known.issuer {
            // The state of one authorization server must not be used for another authorization server.
            *known = Known { issuer: metadata.issuer.clone(), ..Known::default() };
        }
        let scopes = self.scopes(challenge, &manager, known).await;
        match &self.config.grant {
            Grant::Person(person) => {
                self.send_person(person, &mut manager, &metadata, &scopes, known).await?;
            }
            Grant::Client(key) => {
                let credentials = key.credentials(scopes.clone(), self.url.clone());
                manager.validate_client_credentials_metadata(&credentials)?;
                manager.configure_client_credentials(&credentials)?;
                manager = exchange(manager, credentials).await?;
            }
            #[cfg(feature = "auth-enterprise")]
            Grant::Enterprise(enterprise) => {
                let store = &*self.config.store;
                enterprise.exchange(&self.url, scopes.clone(), &metadata, &mut manager, store).await?;
            }
        }
        known.requested = scopes;
        Ok(manager)
    }

    /// Checks the issuer of the authorization server. A client that was registered manually belongs to one
    /// authorization server. So the issuer of a manually registered client must not change.
    fn check_issuer(&self, metadata: &AuthorizationMetadata, known: &Known) -> Result<(), Failure> {
        let registers = matches!(&self.config.grant, Grant::Person(Person { registered: None, .. }));
        let first = known.issuer.as_ref().filter(|_| !registers);
        let Some(expected) = self.config.issuer.as_ref().or(first) else { return Ok(()) };
        let found = metadata.issuer.clone().unwrap_or_default();
        if found == *expected {
            return Ok(());
        }
        Err(Failure::OtherIssuer { expected: expected.clone(), found })
    }

    /// Returns the scopes that the host must request: the scopes that the host has requested before, and the scopes
    /// that the server requires now.
    async fn scopes(&self, challenge: &str, manager: &AuthorizationManager, known: &Known) -> Vec<String> {
        let mut scopes = known.requested.clone();
        let mut add = |more: Vec<String>| {
            for scope in more {
                if !scopes.contains(&scope) {
                    scopes.push(scope);
                }
            }
        };
        if known.requested.is_empty() {
            add(self.config.scopes.clone());
        }
        if known.requested.is_empty() && wants_more(challenge) {
            // An earlier process received a token with these scopes.
            let stored = self.config.store.load().await.ok().flatten();
            add(stored.map(|stored| stored.granted_scopes).unwrap_or_default());
        }
        if self.config.scopes.is_empty() || wants_more(challenge) {
            add(manager.select_initial_scopes(&[]).await);
        }
        scopes
    }

    async fn send_person(
        &self,
        person: &Person,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        scopes: &[String],
        known: &mut Known,
    ) -> Result<(), Failure> {
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = match &person.registered {
            Some(client) => known_client(&client.id, client.secret.as_ref(), &person.redirect_uri),
            None => self.become_client(person, manager, metadata, &scopes, known).await?,
        };
        manager.configure_client(client)?;
        let page = manager.get_authorization_url(&scopes).await?;
        let back = person.authorize.authorize(page).await.map_err(Failure::Person)?;
        if let Some(reason) = denial(&back)? {
            return Err(Failure::Denied(reason));
        }
        let AuthorizationCallback { code, csrf_token, issuer, .. } =
            AuthorizationCallback::from_redirect_url(&back)?;
        manager.exchange_code_for_token_with_issuer(&code, &csrf_token, issuer.as_deref()).await?;
        Ok(())
    }

    /// Creates the host's OAuth client. The host identifies itself with the client metadata document, or registers a
    /// client for each authorization server.
    async fn become_client(
        &self,
        person: &Person,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        scopes: &[&str],
        known: &mut Known,
    ) -> Result<OAuthClientConfig, Failure> {
        let fetches = metadata.additional_fields.get("client_id_metadata_document_supported");
        if let Some(url) = &person.client_metadata_url
            && fetches.and_then(serde_json::Value::as_bool) == Some(true)
        {
            let parsed = Url::parse(url).ok().filter(|it| it.scheme() == "https" && it.path() != "/");
            parsed.ok_or_else(|| Failure::BadClientMetadata(url.clone()))?;
            return Ok(OAuthClientConfig::new(url, &person.redirect_uri));
        }
        if let Some(client) = &known.registered {
            return Ok(client.clone());
        }
        let client = manager.register_client(&person.client_name, &person.redirect_uri, scopes).await?;
        known.registered = Some(client.clone());
        Ok(client)
    }
}

/// Returns whether the server rejected a request because the token is valid but lacks a scope.
fn wants_more(challenge: &str) -> bool {
    challenge.contains("insufficient_scope")
}

/// Exchanges a client's credentials for a token, on a blocking thread. The blocking thread is necessary because the
/// future of `exchange` must be `Send`. If the SDK is built with signatures, the SDK's own future is not `Send`.
async fn exchange(
    manager: AuthorizationManager,
    credentials: ClientCredentialsConfig,
) -> Result<AuthorizationManager, Failure> {
    let runtime = tokio::runtime::Handle::current();
    let exchanging = tokio::task::spawn_blocking(move || {
        let exchanged = runtime.block_on(manager.exchange_client_credentials(&credentials));
        exchanged.map(|_| manager)
    });
    let exchanged = exchanging.await.map_err(|error| AuthError::InternalError(error.to_string()))?;
    Ok(exchanged?)
}

fn known_client(id: &str, secret: Option<&String>, redirect_uri: &str) -> OAuthClientConfig {
    let client = OAuthClientConfig::new(id, redirect_uri);
    match secret {
        Some(secret) => client.with_client_secret(secret),
        None => client,
    }
}

/// Returns the error that the authorization server put into the redirect URL. Returns `None` if the URL contains no
/// error.
fn denial(back: &str) -> Result<Option<String>, Failure> {
    // The URL can contain an authorization code, so the error does not contain the URL.
    let url = Url::parse(back).map_err(|_| Failure::BadUrl("the redirect URL".into()))?;
    let value = |name: &str| {
        let found = url.query_pairs().find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned())
    };
    Ok(value("error").map(|error| match value("error_description") {
        Some(description) => format!("{error}, {description}"),
        None => error,
    }))
}

impl ClientKey {
    fn credentials(&self, scopes: Vec<String>, resource: String) -> ClientCredentialsConfig {
        let resource = Some(resource);
        match self {
            Self::Secret { id, secret } => ClientCredentialsConfig::ClientSecret {
                client_id: id.clone(),
                client_secret: secret.clone(),
                scopes,
                resource,
            },
            #[cfg(feature = "auth-key")]
            Self::Private { id, pem, algorithm } => ClientCredentialsConfig::PrivateKeyJwt {
                client_id: id.clone(),
                signing_key: pem.clone(),
                signing_algorithm: (*algorithm).into(),
                token_endpoint_audience: None,
                scopes,
                resource,
            },
        }
    }
}

#[cfg(feature = "auth-key")]
impl From<super::SigningAlgorithm> for rmcp::transport::auth::JwtSigningAlgorithm {
    fn from(algorithm: super::SigningAlgorithm) -> Self {
        use super::SigningAlgorithm as Ours;
        match algorithm {
            Ours::Rs256 => Self::RS256,
            Ours::Rs384 => Self::RS384,
            Ours::Rs512 => Self::RS512,
            Ours::Es256 => Self::ES256,
            Ours::Es384 => Self::ES384,
        }
    }
}

/// An attempt to connect or to send a request. The server can reject the attempt more than once.
pub(crate) struct Attempt {
    authority: Arc<Authority>,
    seen: u64,
    challenged: bool,
    step_ups: u32,
}

impl Attempt {
    /// Gets a new token after an authorization error, so that the caller can retry.
    ///
    /// The server did not execute a rejected request, so a retry repeats no work. If the server rejects a new token,
    /// the host does not request another token.
    ///
    /// # Errors
    ///
    /// Returns `error` if `error` is not an authorization error, or if a retry cannot succeed. Returns
    /// `Error::Authorization` if the authorization fails.
    pub(crate) async fn overcome(&mut self, error: Error) -> Result<()> {
        let Error::Unauthorized { challenge, .. } = &error else { return Err(error) };
        if wants_more(challenge) {
            self.step_ups += 1;
            if self.step_ups > self.authority.config.step_ups {
                return Err(error);
            }
        } else if std::mem::replace(&mut self.challenged, true) {
            return Err(error);
        }
        if !self.authority.answer(challenge, self.seen).await? {
            return Err(error);
        }
        self.seen = self.authority.grants.load(Ordering::Acquire);
        Ok(())
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("url", &self.url)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Unattended;

    #[test]
    fn a_refusal_that_names_nothing_new_is_hopeless() {
        let config = AuthConfig::person("http://127.0.0.1/callback", Unattended);
        let authority = Authority::new("https://mcp.example.com/mcp".into(), config);
        let granted = ["read".to_owned()];
        let refusal = |scope: &str| format!("Bearer error=\"insufficient_scope\"{scope}");
        assert!(authority.is_hopeless(&refusal(", scope=\"read\""), &granted));
        assert!(authority.is_hopeless(&refusal(""), &granted));
        assert!(!authority.is_hopeless(&refusal(", scope=\"read write\""), &granted));
        assert!(!authority.is_hopeless("Bearer scope=\"read\"", &granted));
    }

    #[test]
    fn an_error_in_the_redirect_is_the_servers_no() {
        let said = |query: &str| denial(&format!("http://127.0.0.1/callback?{query}")).unwrap();
        assert_eq!(said("error=access_denied&state=x").as_deref(), Some("access_denied"));
        assert_eq!(
            said("error=access_denied&error_description=Not%20today").as_deref(),
            Some("access_denied, Not today")
        );
        assert_eq!(said("code=1&state=x"), None);
    }
}
