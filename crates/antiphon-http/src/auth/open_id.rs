//! Sign-in with OpenID Connect, for users on a web page: the authorization code flow with PKCE.

use std::{fmt, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use moka::future::Cache;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::{
    Identity, Issuer, Refusal,
    builder::BuildError,
    fetch::{self, Failed, is_private},
    issuer::Judge,
    refusal::EXPIRED,
};

/// The time for which the server caches the metadata of the provider.
const METADATA: Duration = Duration::from_secs(10 * 60);

type PrincipalHook = Arc<dyn Fn(&Identity) -> Option<String> + Send + Sync>;

/// The settings for an OpenID provider at which users sign in, with the credentials of this application at the
/// provider.
///
/// For the answer page, pass the `OpenIdConnect` settings to `AskPage::with_sign_in` of the crate `antiphon`. For your
/// own web pages, use [`build`](Self::build), which returns an [`OpenIdClient`].
///
/// The server reads the URLs of the provider from the provider's metadata. The server accepts an ID token only if one
/// of the issuer's public keys has signed the token, and the token has not expired. An access token of an [`Issuer`]
/// must meet the same conditions. The audience of the ID token must be the client ID. The server sends the client
/// secret in a header. If the metadata requires the body, the server sends the client secret in the body.
///
/// The `Debug` output contains no secret.
///
/// ```
/// use antiphon_http::auth::OpenIdConnect;
///
/// # let secret = "from the environment";
/// let sign_in = OpenIdConnect::new("https://login.example.com", "reports-page", secret);
/// # let _ = sign_in;
/// ```
#[derive(Clone)]
#[must_use = "an `OpenIdConnect` does nothing until it is built, or until `AskPage::with_sign_in` takes it"]
pub struct OpenIdConnect {
    issuer: String,
    client: String,
    secret: String,
    scopes: Vec<String>,
    principal: Option<PrincipalHook>,
    http: Option<reqwest::Client>,
}

impl OpenIdConnect {
    /// Creates the settings for a provider. `issuer` is the identifier of the provider. The identifier must be exactly
    /// equal to the `iss` of the tokens. `client_id` and `client_secret` are the credentials that the provider has
    /// registered for this application.
    pub fn new(
        issuer: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: impl Into<String>,
    ) -> Self {
        Self {
            issuer: issuer.into(),
            client: client_id.into(),
            secret: client_secret.into(),
            scopes: Vec::new(),
            principal: None,
            http: None,
        }
    }

    /// Sets the scopes that the application requests in addition to `openid`, for example `email`. Default: none. For
    /// the additional scopes, the provider adds claims to the ID token. The function of
    /// [`with_principal`](Self::with_principal) can read the added claims.
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a function that returns the principal (the name of the user in this server) from the claims of the ID
    /// token. If the function for the principal returns `None`, the sign-in fails. Default: `<issuer>#<subject>`, as
    /// for the tokens of an [`Issuer`].
    ///
    /// For each user, the principal must be equal to the principal that the rest of your server uses. Two users must
    /// never have the same principal. A user must not be able to choose their own principal. Do not use an e-mail
    /// address that the provider has not verified as the principal.
    pub fn with_principal(
        mut self,
        principal: impl Fn(&Identity) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.principal = Some(Arc::new(principal));
        self
    }

    /// Sets the HTTP client for requests to the provider. Use `with_http` if you need special certificates or an HTTP
    /// proxy. Default: a client that has a timeout of 5 seconds and does not follow redirects.
    pub fn with_http(mut self, http: reqwest::Client) -> Self {
        self.http = Some(http);
        self
    }

    /// Builds the OpenID client. The client sends the first request to the provider when the first user signs in.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] with all configuration problems, one per line.
    pub fn build(mut self) -> Result<OpenIdClient, BuildError> {
        let mut problems = self.problems();
        let http = self.http.take().map_or_else(fetch::client, Ok);
        let http = http.map_err(|error| problems.push(format!("the HTTP client cannot be created: {error}")));
        let (Ok(http), true) = (http, problems.is_empty()) else { return Err(BuildError { problems }) };
        // A comment in `AuthBuilder::build` explains why the crypto provider is installed here.
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let judge = Judge::new(Issuer::new(&*self.issuer), std::slice::from_ref(&self.client), http.clone());
        let provider = Cache::builder().max_capacity(1).time_to_live(METADATA).build();
        Ok(OpenIdClient { inner: Arc::new(Inner { config: self, http, judge, provider }) })
    }

    fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = Issuer::new(&*self.issuer).problems().collect();
        let issuer = &self.issuer;
        for (value, name) in [(&self.client, "client ID"), (&self.secret, "client secret")] {
            if value.trim().is_empty() {
                problems.push(format!(
                    "the {name} of `OpenIdConnect` is empty; use the {name} that the issuer `{issuer}` has registered for this application"
                ));
            }
        }
        let scopes = self.scopes.iter();
        problems.extend(scopes.filter_map(|scope| antiphon_transport::identity::scope_problem(scope)));
        problems
    }
}

impl fmt::Debug for OpenIdConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenIdConnect")
            .field("issuer", &self.issuer)
            .field("client", &self.client)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// A sign-in that has begun. A `SignInAttempt` contains random values, which bind the provider's response to one
/// browser.
///
/// Store the attempt until the provider redirects the browser to your application. You can store the attempt on the
/// server, or encrypted in the browser. Bind the attempt to the browser with a cookie. Use the attempt for only one
/// response of the provider.
#[derive(Clone, Serialize, Deserialize)]
pub struct SignInAttempt {
    state: String,
    nonce: String,
    verifier: String,
}

impl SignInAttempt {
    /// Creates a sign-in attempt with new random values.
    pub fn random() -> Self {
        Self { state: random(), nonce: random(), verifier: random() }
    }

    /// Returns the `state` parameter. The provider's response must contain the same `state`.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Returns the code challenge of PKCE (RFC 7636), with the method `S256`.
    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }
}

/// Returns a new random value of 256 bits as text.
fn random() -> String {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).expect("the operating system has random numbers");
    URL_SAFE_NO_PAD.encode(bits)
}

/// The `Debug` output does not contain the random values of the attempt, because these values are secrets.
impl fmt::Debug for SignInAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInAttempt").finish_non_exhaustive()
    }
}

/// The error of a failed sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignInError {
    /// The server cannot reach the OpenID provider, or cannot use the provider's metadata or keys. The text is the
    /// reason.
    Unavailable(String),
    /// The provider rejected the authorization code, or the credentials of this application. The text is the
    /// provider's error code.
    Rejected(String),
    /// The ID token is missing or not valid. The text is the reason.
    Invalid(&'static str),
    /// The user signed in at the provider, but has no principal on this server.
    Unknown,
}

impl fmt::Display for SignInError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => {
                write!(f, "the OpenID provider cannot be used: {why}; check the issuer URL and the network")
            }
            Self::Rejected(code) => write!(
                f,
                "the OpenID provider rejected the sign-in: `{code}`; check the client ID, the client secret and the redirect URL"
            ),
            Self::Invalid(why) => {
                write!(f, "the ID token is not valid: {why}; check the issuer URL and the client ID")
            }
            Self::Unknown => f.write_str(
                "the user is not a known principal; check `OpenIdConnect::with_principal` and `AuthBuilder::with_principal`",
            ),
        }
    }
}

impl std::error::Error for SignInError {}

/// A client with which users sign in at an OpenID provider. Each clone of an `OpenIdClient` is a handle to the same
/// client.
///
/// 1. Create a [`SignInAttempt`] and store the attempt for the user's browser. Redirect the browser to
///    [`authorization_url`](Self::authorization_url).
/// 2. The provider redirects the browser to your application, with the parameters `state` and `code`. Compare the
///    parameter `state` with [`SignInAttempt::state`].
/// 3. Call [`redeem`](Self::redeem), which returns the user's identity.
#[derive(Clone)]
pub struct OpenIdClient {
    inner: Arc<Inner>,
}

struct Inner {
    config: OpenIdConnect,
    http: reqwest::Client,
    judge: Judge,
    provider: Cache<(), Arc<Provider>>,
}

/// The URLs of the OpenID provider, from the provider's metadata.
struct Provider {
    authorization: Url,
    token: String,
    /// Whether this server sends the client secret in the request body.
    in_body: bool,
}

impl OpenIdClient {
    /// Returns the identifier of the provider, which issues the ID tokens.
    pub fn issuer(&self) -> &str {
        &self.inner.config.issuer
    }

    /// Returns whether you have set a function with [`OpenIdConnect::with_principal`].
    pub fn has_principal(&self) -> bool {
        self.inner.config.principal.is_some()
    }

    /// Returns the URL at which the user signs in. `redirect` is the URL of your application to which the provider
    /// redirects the browser after the sign-in. If `again` is true, users who are already signed in at the provider
    /// must sign in again. With the new sign-in, users can choose another account.
    ///
    /// # Errors
    ///
    /// Returns [`SignInError::Unavailable`] if the server cannot use the provider.
    pub async fn authorization_url(
        &self,
        redirect: &str,
        attempt: &SignInAttempt,
        again: bool,
    ) -> Result<String, SignInError> {
        let provider = self.provider().await?;
        let OpenIdConnect { client, scopes, .. } = &self.inner.config;
        let scopes = scopes.iter().fold("openid".to_owned(), |scopes, scope| format!("{scopes} {scope}"));
        let mut url = provider.authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", client)
            .append_pair("redirect_uri", redirect)
            .append_pair("scope", &scopes)
            .append_pair("state", &attempt.state)
            .append_pair("nonce", &attempt.nonce)
            .append_pair("code_challenge", &attempt.challenge())
            .append_pair("code_challenge_method", "S256");
        if again {
            url.query_pairs_mut().append_pair("prompt", "login");
        }
        Ok(url.into())
    }

    /// Exchanges the authorization code for an ID token, validates the ID token, and returns the user's identity.
    /// `redirect` and `attempt` must be the values that you passed to [`authorization_url`](Self::authorization_url).
    ///
    /// # Errors
    ///
    /// Returns a [`SignInError`] if the server cannot use the provider, if the provider rejects the code, or if the ID
    /// token is not valid.
    pub async fn redeem(
        &self,
        redirect: &str,
        code: &str,
        attempt: &SignInAttempt,
    ) -> Result<Identity, SignInError> {
        let provider = self.provider().await?;
        let OpenIdConnect { issuer, client, secret, principal, .. } = &self.inner.config;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", attempt.verifier.as_str()),
        ];
        let credentials = (client.as_str(), secret.as_str());
        let request =
            fetch::with_form(self.inner.http.post(&provider.token), &fields, credentials, provider.in_body);
        let reply = fetch::reply(request).await;
        let (status, reply) = reply.map_err(|error| SignInError::Unavailable(error.to_string()))?;
        if !status.is_success() {
            return Err(match reply["error"].as_str() {
                Some(error) if status.is_client_error() => SignInError::Rejected(error_code(error)),
                _ => SignInError::Unavailable(format!("`{}` returned the status {status}", provider.token)),
            });
        }
        let token = reply["id_token"].as_str();
        let token = token.ok_or(SignInError::Invalid("the provider returned no ID token"))?;
        let claims = self.inner.judge.id_claims(token).await.map_err(|refusal| match refusal {
            Refusal::Unavailable => SignInError::Unavailable("its signing keys cannot be fetched".to_owned()),
            refusal if refusal == EXPIRED => SignInError::Invalid("it has expired"),
            _ => SignInError::Invalid("its signature, issuer, audience or type is wrong"),
        })?;
        check(&claims, client, &attempt.nonce)?;
        let identity = Identity::of_token(issuer, claims).ok_or(SignInError::Invalid(NO_SUBJECT))?;
        let Some(principal) = principal else { return Ok(identity) };
        let principal = principal(&identity).ok_or(SignInError::Unknown)?;
        Ok(identity.with_principal(principal))
    }

    /// Returns the URLs of the OpenID provider. Concurrent sign-ins share one metadata request.
    async fn provider(&self) -> Result<Arc<Provider>, SignInError> {
        let Inner { config, http, provider, .. } = &*self.inner;
        let find = async {
            let metadata = fetch::metadata(http, &config.issuer).await?;
            Provider::read(&metadata).map(Arc::new)
        };
        let found = provider.try_get_with((), find).await;
        found.map_err(|error| SignInError::Unavailable(error.to_string()))
    }
}

impl Provider {
    fn read(metadata: &Value) -> Result<Self, Failed> {
        let endpoint = |name: &str| {
            let endpoint = metadata[name].as_str().filter(|endpoint| is_private(endpoint));
            endpoint.ok_or_else(|| format!("the metadata of the provider has no `{name}` with https"))
        };
        let methods = metadata["token_endpoint_auth_methods_supported"].as_array();
        let supports = |name: &str| methods.is_none_or(|methods| methods.iter().any(|method| method == name));
        Ok(Self {
            authorization: Url::parse(endpoint("authorization_endpoint")?)?,
            token: endpoint("token_endpoint")?.to_owned(),
            in_body: !supports("client_secret_basic") && supports("client_secret_post"),
        })
    }
}

/// Returns an error code of the provider for the log, without characters that RFC 6749 does not allow.
fn error_code(given: &str) -> String {
    given.chars().filter(char::is_ascii_graphic).take(100).collect()
}

const NO_SUBJECT: &str = "it has no subject";

/// Checks the claims of an ID token that access tokens do not contain.
fn check(claims: &Map<String, Value>, client: &str, nonce: &str) -> Result<(), SignInError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("nonce") != Some(nonce) {
        return Err(SignInError::Invalid("it belongs to another sign-in (`nonce`)"));
    }
    // OpenID Connect Core, section 3.1.3.7: a token for several clients must name the client that requested the token.
    let is_shared = claims.get("aud").and_then(Value::as_array).is_some_and(|audiences| audiences.len() > 1);
    let is_ours = match claims.get("azp") {
        Some(party) => party == client,
        None => !is_shared,
    };
    if !is_ours {
        return Err(SignInError::Invalid("another application requested it (`azp`)"));
    }
    // An access token without a subject belongs to a client. An ID token always belongs to a user, so it needs a
    // subject.
    if text("sub").is_none_or(str::is_empty) {
        return Err(SignInError::Invalid(NO_SUBJECT));
    }
    Ok(())
}

impl fmt::Debug for OpenIdClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenIdClient").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_that_cannot_work_are_reported() {
        let problems = |issuer: &str, client: &str, secret: &str| {
            let built = OpenIdConnect::new(issuer, client, secret).build();
            built.map_or_else(|error| error.problems().len(), |_| 0)
        };
        assert_eq!(problems("https://login.example.com", "page", "secret"), 0);
        assert_eq!(problems("http://127.0.0.1:3000", "page", "secret"), 0);
        assert_eq!(problems("http://login.example.com", "", " "), 3);
        let scopes = OpenIdConnect::new("https://login.example.com", "page", "secret");
        let error = scopes.with_scopes(["email profile"]).build().unwrap_err();
        assert_eq!(error.problems().len(), 1, "{error}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let client = OpenIdConnect::new("https://login.example.com", "page", "s3cr3t").build().unwrap();
        let attempt = SignInAttempt::random();
        let shown = format!("{client:?} {attempt:?}");
        assert!(!shown.contains("s3cr3t") && !shown.contains(&attempt.verifier), "{shown}");
    }

    #[test]
    fn challenge_is_the_one_of_rfc_7636() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let attempt = SignInAttempt { verifier, ..SignInAttempt::random() };
        assert_eq!(attempt.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn error_code_has_one_short_line() {
        assert_eq!(error_code("invalid_grant"), "invalid_grant");
        assert_eq!(error_code("a\nb\u{1b}[31m\u{e4}"), "ab[31m");
        assert_eq!(error_code(&"x".repeat(1000)).len(), 100);
    }

    #[test]
    fn endpoints_must_be_private() {
        let metadata = |token: &str, methods: Value| {
            json!({
                "authorization_endpoint": "https://login.example.com/authorize?tenant=1",
                "token_endpoint": token,
                "token_endpoint_auth_methods_supported": methods,
            })
        };
        let token = "https://login.example.com/token";
        let in_body = |methods: Value| Provider::read(&metadata(token, methods)).unwrap().in_body;
        assert!(!in_body(Value::Null) && !in_body(json!(["client_secret_post", "client_secret_basic"])));
        assert!(in_body(json!(["client_secret_post"])));
        assert!(Provider::read(&metadata("http://login.example.com/token", Value::Null)).is_err());
        assert!(Provider::read(&json!({"token_endpoint": token})).is_err());
    }

    #[test]
    fn claims_belong_to_this_sign_in_and_this_client() {
        let is_good = |claims: Value| {
            let Value::Object(claims) = claims else { panic!("claims are an object") };
            check(&claims, "page", "n").is_ok()
        };
        assert!(is_good(json!({"sub": "ada", "aud": "page", "nonce": "n"})));
        assert!(is_good(json!({"sub": "ada", "aud": ["page", "app"], "azp": "page", "nonce": "n"})));
        for wrong in [
            json!({"sub": "ada", "aud": "page"}),
            json!({"sub": "ada", "aud": "page", "nonce": "m"}),
            json!({"sub": "ada", "aud": ["page", "app"], "nonce": "n"}),
            json!({"sub": "ada", "aud": "page", "azp": "app", "nonce": "n"}),
            json!({"aud": "page", "azp": "page", "nonce": "n"}),
            json!({"sub": "", "aud": "page", "nonce": "n"}),
        ] {
            assert!(!is_good(wrong.clone()), "{wrong}");
        }
    }
}
