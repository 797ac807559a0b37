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
use url::form_urlencoded;

use super::{
    Identity, Refusal,
    fetch::{self, Failed, is_private},
    issuer::is_issuer,
    refusal::{EXPIRED, NOT_VALID},
};

/// How many tokens that were never good are asked about at a time. Whoever floods the server with tokens of their own
/// making does not flood the authorization server.
const AT_ONCE: usize = 32;

/// How many of those can come from one address, so that a flood from there leaves turns for others.
const PER_PEER: usize = 16;

/// How many tokens that were good before are asked about at a time. A flood of others takes none of these turns.
const MAX_RECHECKS: usize = 16;

/// How long a token that was good has a turn of its own, and how many of them do.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);
const REMEMBERED_TOKENS: u64 = 100_000;

/// How long the address of the endpoint is known, where the metadata say it.
const ENDPOINT: Duration = Duration::from_secs(10 * 60);

/// How long a token waits to be asked about.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it is known that a token is not good.
const BAD: Duration = Duration::from_secs(5);

/// An authorization server that is asked about tokens which say nothing by themselves (RFC 7662).
///
/// What it says is known for [a short while](Self::with_cache), under the token's digest; a token that is taken back is
/// good for that long.
///
/// No secret is in its `Debug` output.
///
/// ```
/// use antiphon_http::auth::Introspection;
///
/// # let secret = "from the environment";
/// let introspection = Introspection::new("https://login.example.com", "reports-server", secret);
/// # let _ = introspection;
/// ```
#[derive(Clone)]
#[must_use = "it is asked nothing until it is given to an `AuthBuilder`"]
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
    /// Asks the authorization server with this identifier, as this client of its. Where, its metadata say.
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

    /// Says where to ask, for an authorization server without metadata.
    pub fn with_endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// Sends the client's secret in the body, where the authorization server does not take it in a header.
    pub fn with_secret_in_body(mut self, in_body: bool) -> Self {
        self.in_body = in_body;
        self
    }

    /// Takes tokens for this audience, too.
    pub fn with_audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Takes tokens whatever they are for. Only for an authorization server that says nothing of audiences, and gives
    /// tokens to nobody but the clients of this very server: a token for another one opens this one, too.
    pub fn with_any_audience(mut self, any: bool) -> Self {
        self.any_audience = any;
        self
    }

    /// Sets by how much clocks may differ. Default: 1 minute.
    pub fn with_leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// Sets for how long an answer is known. Default: 30 seconds, and never past the token's end.
    pub fn with_cache(mut self, cache: Duration) -> Self {
        self.cache = cache;
        self
    }

    /// Sets how many answers are known at a time. Default: 10,000.
    pub fn with_cached_tokens(mut self, tokens: u64) -> Self {
        self.cached = tokens;
        self
    }

    /// What is wrong with it.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        let issuer = &self.issuer;
        let bad = (!is_issuer(issuer)).then(|| {
            format!("`{issuer}` is no issuer: it must be an https address (http on loopback) without query and fragment")
        });
        let endpoint = self.endpoint.as_ref().filter(|url| !is_private(url));
        let endpoint =
            endpoint.map(|url| format!("tokens cannot be asked about at `{url}`: it is not https"));
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

/// Asks about tokens.
pub(super) struct Inquirer {
    config: Introspection,
    audiences: Vec<String>,
    http: reqwest::Client,
    endpoint: Cache<(), String>,
    turns: Turns,
    known: Cache<Digest, Arc<Answer>>,
}

/// The SHA-256 of a token: what is kept opens nothing.
type Digest = [u8; 32];

/// What is known of a token, and for how long.
struct Answer {
    result: Result<Identity, Refusal>,
    /// When the token ends, in seconds since 1970.
    end: Option<u64>,
    good_for: Duration,
}

/// Each answer has a life of its own.
struct Lives;

impl Expiry<Digest, Arc<Answer>> for Lives {
    fn expire_after_create(&self, _: &Digest, answer: &Arc<Answer>, _: Instant) -> Option<Duration> {
        Some(answer.good_for)
    }
}

/// Whose turn it is to be asked about.
struct Turns {
    /// For tokens that were good.
    again: Arc<Semaphore>,
    good: Cache<Digest, ()>,
    /// For all others, and each address's part of them.
    first: Arc<Semaphore>,
    peers: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// A turn, until it is dropped.
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
        // Who waits for a turn of its address takes none of the others'.
        let own = match peer {
            Some(peer) => Some(self.peer(peer).acquire_owned().await?),
            None => None,
        };
        Ok((Arc::clone(&self.first).acquire_owned().await?, own))
    }

    fn peer(&self, peer: IpAddr) -> Arc<Semaphore> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= MANY_PEERS && !peers.contains_key(&peer) {
            // Those that nobody holds are as good as new ones.
            peers.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        Arc::clone(peers.entry(peer).or_insert_with(|| Arc::new(Semaphore::new(PER_PEER))))
    }
}

/// From so many addresses on, those are forgotten of which nobody waits.
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

    /// Whose token it is. However many ask about one at a time, the authorization server is asked once.
    pub(super) async fn judge(&self, token: &str, peer: Option<IpAddr>) -> Result<Identity, Refusal> {
        let digest: Digest = Sha256::digest(token).into();
        let answered = self.known.try_get_with(digest, self.ask(token, digest, peer)).await;
        let answer = answered.map_err(|error| {
            tracing::warn!(%error, issuer = self.config.issuer, "an authorization server cannot be asked");
            Refusal::Unavailable
        })?;
        let ended = answer.end.is_some_and(|end| end.saturating_add(self.config.leeway.as_secs()) < now());
        if ended { Err(EXPIRED) } else { answer.result.clone() }
    }

    async fn ask(&self, token: &str, digest: Digest, peer: Option<IpAddr>) -> Result<Arc<Answer>, Failed> {
        let _turn = tokio::time::timeout(PATIENCE, self.turns.take(&digest, peer))
            .await
            .map_err(|_| "too many tokens wait to be asked about")??;
        let Introspection { issuer, client, secret, in_body, .. } = &self.config;
        let find = async {
            let metadata = fetch::metadata(&self.http, issuer).await?;
            let endpoint = metadata["introspection_endpoint"].as_str();
            let endpoint = endpoint.filter(|endpoint| is_private(endpoint));
            Ok::<_, Failed>(
                endpoint.ok_or("the issuer's metadata have no `introspection_endpoint` on https")?.to_owned(),
            )
        };
        let endpoint = match &self.config.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => self.endpoint.try_get_with((), find).await.map_err(|error| error.to_string())?,
        };
        let mut request = self.http.post(&endpoint);
        if !*in_body {
            // RFC 6749, section 2.3.1: both are encoded before they are joined.
            let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            request = request.basic_auth(encode(client), Some(encode(secret)));
        }
        // In a block: what makes a form is not `Send`, and what follows waits.
        let form = {
            let mut form = form_urlencoded::Serializer::new(String::new());
            form.append_pair("token", token).append_pair("token_type_hint", "access_token");
            if *in_body {
                form.append_pair("client_id", client).append_pair("client_secret", secret);
            }
            form.finish()
        };
        let request =
            request.header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
        let said: Option<Map<String, Value>> = fetch::json(request).await?;
        let said = said.ok_or_else(|| format!("there is nothing at {endpoint}"))?;
        let answer = self.read(said);
        if answer.result.is_ok() {
            self.turns.remember(digest).await;
        }
        Ok(Arc::new(answer))
    }

    /// What an answer means.
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
        // Nobody here checks that the client has the key that a token is bound to.
        if !is_ours || !began || !self.is_for_us(said.get("aud")) || said.contains_key("cnf") {
            tracing::debug!(issuer = self.config.issuer, "a token was refused that is not for us");
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

/// A moment as JWTs have it. Some write fractions.
pub(super) fn seconds(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "negative and absurd moments are bounded"
    )]
    let rounded = || value.as_f64().map(|seconds| seconds as u64);
    value.as_u64().or_else(rounded)
}

/// The first moment at which a token with this `exp` is rejected.
pub(super) fn end_of(exp: u64, leeway: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(exp.saturating_add(leeway).saturating_add(1)))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
