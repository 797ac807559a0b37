//! Authorization by the identity provider of an enterprise.

use std::{
    fmt,
    future::Future,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use oauth2::ClientSecret;
use rmcp::transport::auth::{
    AuthorizationManager, AuthorizationMetadata, CredentialStore, OAuthClientConfig, OAuthTokenResponse,
    StoredCredentials, default_oauth_http_client,
    enterprise::{EmaAuthorizationServer, EmaClientAuthentication, EmaExchangeRequest},
};
use serde_json::json;

use super::{BoxError, authority::Failure};
use crate::form::BoxFuture;

/// The configuration for authorization by the identity provider of an enterprise.
///
/// The host sends the user's ID token to the identity provider. If the enterprise's policy allows access, the identity
/// provider issues an identity assertion. With this assertion, the host requests a token from the authorization server
/// of the MCP server.
#[derive(Clone)]
pub struct Enterprise {
    issuer: String,
    token_endpoint: String,
    idp_client: (String, Option<String>),
    client: (String, Option<String>),
    id_token: Arc<dyn IdToken>,
}

impl Enterprise {
    /// Creates a configuration for authorization by an identity provider. `issuer` and `token_endpoint` belong to the
    /// identity provider. The host calls `id_token` each time the host needs the ID token of the signed-in user.
    pub fn new(issuer: impl Into<String>, token_endpoint: impl Into<String>, id_token: impl IdToken) -> Self {
        Self {
            issuer: issuer.into(),
            token_endpoint: token_endpoint.into(),
            idp_client: (String::new(), None),
            client: (String::new(), None),
            id_token: Arc::new(id_token),
        }
    }

    /// Sets the host's client ID and secret at the identity provider. Default: an empty ID without a secret.
    #[must_use]
    pub fn with_idp_client(mut self, id: impl Into<String>, secret: impl Into<Option<String>>) -> Self {
        self.idp_client = (id.into(), secret.into());
        self
    }

    /// Sets the host's client ID and secret at the server's authorization server. Default: an empty ID without a
    /// secret.
    ///
    /// The host sends the secret to the authorization server that the MCP server names. To allow only one
    /// authorization server, set [`AuthConfig::with_issuer`](crate::AuthConfig::with_issuer).
    #[must_use]
    pub fn with_client(mut self, id: impl Into<String>, secret: impl Into<Option<String>>) -> Self {
        self.client = (id.into(), secret.into());
        self
    }

    /// Requests a token and saves it in `store`.
    pub(super) async fn exchange(
        &self,
        resource: &str,
        scopes: Vec<String>,
        metadata: &AuthorizationMetadata,
        manager: &mut AuthorizationManager,
        store: &dyn CredentialStore,
    ) -> Result<(), Failure> {
        let issuer = metadata.issuer.clone().ok_or(Failure::NoIssuer)?;
        let id_token = self.id_token.id_token().await.map_err(Failure::Identity)?;
        let idp = server(&self.issuer, &self.token_endpoint, &self.idp_client);
        let authorization_server = server(&issuer, &metadata.token_endpoint, &self.client);
        let http = default_oauth_http_client()?;
        let token = EmaExchangeRequest::new_with_id_token(idp, authorization_server, resource, &id_token)
            .with_scopes(scopes)
            .exchange(&http, &http)
            .await
            .map_err(|error| Failure::Identity(error.into()))?;
        let response: OAuthTokenResponse = serde_json::from_value(json!({
            "access_token": token.access_token.secret(),
            "token_type": "bearer",
            "expires_in": token.expires_in.map(|lifetime| lifetime.as_secs()),
        }))
        .map_err(|error| Failure::Identity(error.into()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let scopes = token.scopes.into_iter().collect();
        let stored = StoredCredentials::new(self.client.0.clone(), Some(response), scopes, Some(now))
            .with_issuer(Some(issuer));
        // This flow has no refresh token. After the token has expired, the host uses the identity provider again.
        manager.configure_client(OAuthClientConfig::new(self.client.0.clone(), resource))?;
        store.save(stored).await?;
        Ok(())
    }
}

fn server(issuer: &str, endpoint: &str, (id, secret): &(String, Option<String>)) -> EmaAuthorizationServer {
    let server = EmaAuthorizationServer::new(issuer, endpoint, id);
    match secret {
        Some(secret) => server.with_client_authentication(EmaClientAuthentication::ClientSecretBasic(
            ClientSecret::new(secret.clone()),
        )),
        None => server,
    }
}

impl fmt::Debug for Enterprise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enterprise").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// A source of ID tokens for the user who is signed in at the identity provider. Every closure
/// `Fn() -> impl Future<Output = Result<String, _>>` implements `IdToken`.
pub trait IdToken: Send + Sync + 'static {
    /// Returns an ID token that has not expired.
    ///
    /// # Errors
    ///
    /// Returns an error if no user is signed in.
    fn id_token(&self) -> BoxFuture<'_, Result<String, Box<dyn std::error::Error + Send + Sync>>>;
}

impl<F, Fut, E> IdToken for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
{
    fn id_token(&self) -> BoxFuture<'_, Result<String, BoxError>> {
        let token = self();
        Box::pin(async move { token.await.map_err(Into::into) })
    }
}
