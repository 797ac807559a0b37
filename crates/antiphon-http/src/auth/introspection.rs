use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use moka::{Expiry, future::Cache};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::{
    Identity, Refusal,
    fetch::{self, Failed, is_private},
    issuer::is_issuer,
    refusal::{EXPIRED, NOT_VALID},
};

/// The maximum number of concurrent checks of unknown tokens. A token is unknown if no earlier check has found the
/// token valid. The limit on unknown tokens protects the authorization server if callers send many invented tokens.
const AT_ONCE: usize = 32;

/// The maximum number of concurrent checks of unknown tokens from one network address. Because of this limit, tokens
/// from one address cannot use the whole capacity for unknown tokens.
const PER_PEER: usize = 16;

/// The maximum number of concurrent checks of previously valid tokens. Previously valid tokens have their own capacity,
/// which invented tokens cannot use.
const MAX_RECHECKS: usize = 16;

/// The time for which the server remembers that a token was valid. During this time, the token can use the capacity for
/// previously valid tokens.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// The maximum number of tokens that the server remembers as previously valid.
const REMEMBERED_TOKENS: u64 = 100_000;

/// The time for which the server caches the URL of the introspection endpoint, if the URL comes from the metadata.
const ENDPOINT: Duration = Duration::from_secs(10 * 60);

/// The maximum time for which a token waits for its check to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time for which the server remembers that a token is not valid.
const BAD: Duration = Duration::from_secs(5);

/// The settings for token introspection (RFC 7662). With token introspection, an authorization server checks opaque
/// tokens for this server.
///
/// The server caches the result of each check for [a short time](Self::with_cache). If a token is revoked while its
/// result is cached, the server accepts the token until the result expires. The cache contains only the digests of
/// tokens.
///
/// The `Debug` output contains no secret.
///
/// ```
/// use antiphon_http::auth::Introspection;
///
/// # let secret = "from the environment";
/// let introspection = Introspection::new("https://login.example.com", "reports-server", secret);
/// # let _ = introspection;
/// ```
#[derive(Clone)]
#[must_use = "an introspection does nothing until you pass it to an `AuthBuilder`"]
pub struct Introspection {
    pub(super) issuer: String,
    endpoint: Option<String>,
    client: String,
    secret: String,
    in_body: bool,
    audiences: Vec<String>,
    any_audience: bool,
    leeway: Duration,
    cache: Duration,
    cached: u64,
}

impl Introspection {
    /// Creates the settings for an authorization server that checks tokens. `issuer` is the identifier of the
    /// authorization server. `client` and `secret` are the credentials of this server at the authorization server. The
    /// metadata of the authorization server contains the URL of the introspection endpoint.
    pub fn new(issuer: impl Into<String>, client: impl Into<String>, secret: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            endpoint: None,
            client: client.into(),
            secret: secret.into(),
            in_body: false,
            audiences: Vec::new(),
            any_audience: false,
            leeway: Duration::from_secs(60),
            cache: Duration::from_secs(30),
            cached: 10_000,
        }
    }

    /// Sets the URL of the introspection endpoint. Use `with_endpoint` if the authorization server does not publish
    /// metadata. Default: the URL in the metadata of the authorization server.
    pub fn with_endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// Sets whether this server sends the client secret in the request body instead of a header. Set `in_body` to true
    /// if the authorization server does not accept the client secret in a header. Default: no.
    pub fn with_secret_in_body(mut self, in_body: bool) -> Self {
        self.in_body = in_body;
        self
    }

    /// Also accepts tokens that were issued for the audience `audience`.
    pub fn with_audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Sets whether the server accepts tokens for any audience. Default: no. If you set `any` to true, a token for
    /// another service is also valid for this server. Set `any` to true only if the authorization server does not
    /// report audiences, and issues tokens only to clients of this server.
    pub fn with_any_audience(mut self, any: bool) -> Self {
        self.any_audience = any;
        self
    }

    /// Sets the maximum difference between the clocks of this server and the authorization server. Default: 1 minute.
    pub fn with_leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// Sets how long the server caches the result of a token check. The server does not cache a result after the token
    /// has expired. Default: 30 seconds.
    pub fn with_cache(mut self, cache: Duration) -> Self {
        self.cache = cache;
        self
    }

    /// Sets the maximum number of check results that the server caches. Default: 10,000.
    pub fn with_cached_tokens(mut self, tokens: u64) -> Self {
        self.cached = tokens;
        self
    }

    /// Returns a text for each problem in these introspection settings.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        let issuer = &self.issuer;
        let bad = (!is_issuer(issuer)).then(|| {
            format!("the issuer URL `{issuer}` is not valid; use an https URL (http on loopback) without query and fragment")
        });
        let endpoint = self.endpoint.as_ref().filter(|url| !is_private(url));
        let endpoint = endpoint.map(|url| {
            format!("the introspection endpoint `{url}` is not valid; use an https URL (http on loopback)")
        });
        bad.into_iter().chain(endpoint)
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("issuer", &self.issuer)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// A validator that checks opaque tokens with token introspection.
pub(super) struct Inquirer {
    config: Introspection,
    audiences: Vec<String>,
    http: reqwest::Client,
    endpoint: Cache<(), String>,
    turns: Turns,
    known: Cache<Digest, Arc<Answer>>,
}

/// The SHA-256 digest of a token. An attacker cannot use a stored digest as a credential.
type Digest = [u8; 32];

/// The cached result of a token check.
struct Answer {
    result: Result<Identity, Refusal>,
    /// The expiry of the token, in seconds since 1970.
    end: Option<u64>,
    good_for: Duration,
}

/// The expiry policy that gives each cached result its own lifetime.
struct Lives;

impl Expiry<Digest, Arc<Answer>> for Lives {
    fn expire_after_create(&self, _: &Digest, answer: &Arc<Answer>, _: Instant) -> Option<Duration> {
        Some(answer.good_for)
    }
}

/// The limits on the number of token checks that run at the same time.
struct Turns {
    /// The capacity for checks of tokens that were valid before.
    again: Arc<Semaphore>,
    good: Cache<Digest, ()>,
    /// The capacity for checks of all other tokens. The field `peers` also limits these checks per network address.
    first: Arc<Semaphore>,
    peers: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// The permits of one token check. When the permits are dropped, their capacity is free for other checks.
type Turn = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl Turns {
    fn new() -> Self {
        Self {
            again: Arc::new(Semaphore::new(MAX_RECHECKS)),
            good: Cache::builder().max_capacity(REMEMBERED_TOKENS).time_to_live(REMEMBERED).build(),
            first: Arc::new(Semaphore::new(AT_ONCE)),
            peers: Mutex::default(),
        }
    }

    async fn remember(&self, digest: Digest) {
        self.good.insert(digest, ()).await;
    }

    async fn take(&self, digest: &Digest, peer: Option<IpAddr>) -> Result<Turn, AcquireError> {
        if self.good.contains_key(digest) {
            return Ok((Arc::clone(&self.again).acquire_owned().await?, None));
        }
        // A request first waits for the capacity of its network address. While the request waits, it does not use the
        // capacity that all addresses share.
        let own = match peer {
            Some(peer) => Some(self.peer(peer).acquire_owned().await?),
            None => None,
        };
        Ok((Arc::clone(&self.first).acquire_owned().await?, own))
    }

    fn peer(&self, peer: IpAddr) -> Arc<Semaphore> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= MANY_PEERS && !peers.contains_key(&peer) {
            // The server removes semaphores that are not in use, and creates a removed semaphore again when a check
            // needs it.
            peers.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        Arc::clone(peers.entry(peer).or_insert_with(|| Arc::new(Semaphore::new(PER_PEER))))
    }
}

/// If semaphores exist for this number of network addresses, the server removes the unused semaphores.
const MANY_PEERS: usize = 1024;

impl Inquirer {
    pub(super) fn new(config: Introspection, audiences: &[String], http: reqwest::Client) -> Self {
        Self {
            audiences: audiences.iter().chain(&config.audiences).cloned().collect(),
            endpoint: Cache::builder().max_capacity(1).time_to_live(ENDPOINT).build(),
            turns: Turns::new(),
            known: Cache::builder().max_capacity(config.cached).expire_after(Lives).build(),
            config,
            http,
        }
    }

    pub(super) fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// Returns the identity of the caller that sent a token. Concurrent requests with the same token share one check.
    pub(super) async fn judge(&self, token: &str, peer: Option<IpAddr>) -> Result<Identity, Refusal> {
        let digest: Digest = Sha256::digest(token).into();
        let answered = self.known.try_get_with(digest, self.ask(token, digest, peer)).await;
        let answer = answered.map_err(|error| {
            tracing::warn!(%error, issuer = self.config.issuer, "the introspection of a token failed");
            Refusal::Unavailable
        })?;
        let ended = answer.end.is_some_and(|end| end.saturating_add(self.config.leeway.as_secs()) < now());
        if ended { Err(EXPIRED) } else { answer.result.clone() }
    }

    async fn ask(&self, token: &str, digest: Digest, peer: Option<IpAddr>) -> Result<Arc<Answer>, Failed> {
        let _turn = tokio::time::timeout(PATIENCE, self.turns.take(&digest, peer))
            .await
            .map_err(|_| "too many tokens wait for their introspection")??;
        let Introspection { issuer, client, secret, in_body, .. } = &self.config;
        let find = async {
            let metadata = fetch::metadata(&self.http, issuer).await?;
            let endpoint = metadata["introspection_endpoint"].as_str();
            let endpoint = endpoint.filter(|endpoint| is_private(endpoint));
            Ok::<_, Failed>(
                endpoint.ok_or("the issuer's metadata has no `introspection_endpoint` with https; set it with `Introspection::with_endpoint`")?.to_owned(),
            )
        };
        let endpoint = match &self.config.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => self.endpoint.try_get_with((), find).await.map_err(|error| error.to_string())?,
        };
        let fields = [("token", token), ("token_type_hint", "access_token")];
        let credentials = (client.as_str(), secret.as_str());
        let request = fetch::with_form(self.http.post(&endpoint), &fields, credentials, *in_body);
        let said: Option<Map<String, Value>> = fetch::json(request).await?;
        let said = said.ok_or_else(|| {
            format!("the introspection request to `{endpoint}` failed with status 404; check the URL")
        })?;
        let answer = self.read(said);
        if answer.result.is_ok() {
            self.turns.remember(digest).await;
        }
        Ok(Arc::new(answer))
    }

    /// Converts a response of the authorization server into the result that the server caches.
    fn read(&self, said: Map<String, Value>) -> Answer {
        let time = |name: &str| said.get(name).and_then(seconds);
        let (now, leeway) = (now(), self.config.leeway.as_secs());
        let end = time("exp");
        let refuse =
            |refusal| Answer { result: Err(refusal), end: None, good_for: BAD.min(self.config.cache) };
        if said.get("active") != Some(&Value::Bool(true)) {
            return refuse(NOT_VALID);
        }
        if end.is_some_and(|end| end.saturating_add(leeway) < now) {
            return refuse(EXPIRED);
        }
        let is_ours = said.get("iss").is_none_or(|issuer| *issuer == *self.config.issuer);
        let began = time("nbf").is_none_or(|begin| begin <= now + leeway);
        // The server does not check proof of possession. So the server rejects tokens that are bound to a key of the
        // client (`cnf`).
        if !is_ours || !began || !self.is_for_us(said.get("aud")) || said.contains_key("cnf") {
            tracing::debug!(
                issuer = self.config.issuer,
                "a token was rejected: it has another issuer or audience, is not valid yet, or is bound to a client key (`cnf`)"
            );
            return refuse(NOT_VALID);
        }
        let left = end.map_or(Duration::MAX, |end| Duration::from_secs(end.saturating_sub(now)));
        match Identity::of_token(&self.config.issuer, said) {
            Some(identity) => {
                let identity = identity.with_end(end.and_then(|end| end_of(end, leeway)));
                Answer { result: Ok(identity), end, good_for: left.min(self.config.cache) }
            }
            None => refuse(NOT_VALID),
        }
    }

    fn is_for_us(&self, audience: Option<&Value>) -> bool {
        let is = |audience: &Value| self.audiences.iter().any(|ours| audience == ours);
        match audience {
            _ if self.config.any_audience => true,
            Some(Value::Array(audiences)) => audiences.iter().any(is),
            Some(audience) => is(audience),
            None => false,
        }
    }
}

/// Reads a JWT timestamp, in seconds since 1970. Some issuers write timestamps with fractions of a second.
pub(super) fn seconds(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "negative and absurd moments are bounded"
    )]
    let rounded = || value.as_f64().map(|seconds| seconds as u64);
    value.as_u64().or_else(rounded)
}

/// Returns the time from which on the server rejects a token that expires at `exp`.
pub(super) fn end_of(exp: u64, leeway: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(exp.saturating_add(leeway).saturating_add(1)))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
