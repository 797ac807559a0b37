//! The public keys of an authorization server. The server fetches the public keys on first use and caches them. The
//! server fetches the public keys again when a token contains the ID of an unknown key.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{
    Refusal,
    fetch::{self, Failed},
};

/// The maximum number of keys that the server caches for one issuer.
const MAX_KEYS: usize = 100;

/// The time for which cached keys stay valid if the server cannot fetch them again, as a multiple of
/// [`Keys::refresh`].
const STALE: u32 = 6;

/// The source of an issuer's public keys.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The issuer's metadata contains the URL of the keys.
    Discovered(String),
    At(String),
    /// The operator set the public keys. The keys that the operator set never change.
    Given(Value),
}

/// The cached public keys of an issuer.
pub(super) struct Keys {
    source: Source,
    http: reqwest::Client,
    /// The interval at which the server fetches the keys again.
    refresh: Duration,
    /// The time that the server waits after a fetch that failed, or after a fetch that an unknown key caused.
    pause: Duration,
    loaded: RwLock<Option<Arc<Loaded>>>,
    /// The time at which the current pause started. The mutex is locked while the server fetches the keys.
    paused: Arc<Mutex<Option<Instant>>>,
}

struct Loaded {
    keys: Vec<Key>,
    at: Instant,
}

struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    decoding: Arc<DecodingKey>,
}

impl Keys {
    pub(super) fn new(
        source: Source,
        http: reqwest::Client,
        refresh: Duration,
        pause: Duration,
    ) -> Arc<Self> {
        let given = match &source {
            Source::Given(set) => Some(Arc::new(Loaded { keys: read(set), at: Instant::now() })),
            _ => None,
        };
        Arc::new(Self { source, http, refresh, pause, loaded: RwLock::new(given), paused: Arc::default() })
    }

    /// Returns the key that must verify a token. The token's header contains the key ID and the algorithm. Returns
    /// `None` if the issuer does not have a key with this ID and algorithm.
    pub(super) async fn find(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Option<Arc<DecodingKey>>, Refusal> {
        let seen = self.loaded();
        let found = seen.as_ref().and_then(|loaded| loaded.find(id, algorithm));
        if matches!(self.source, Source::Given(_)) {
            return Ok(found);
        }
        let age = seen.as_ref().map(|loaded| loaded.at.elapsed());
        if found.is_some() && age.is_some_and(|age| age < self.refresh) {
            return Ok(found);
        }
        let turn = match Arc::clone(&self.paused).try_lock_owned() {
            Ok(turn) => turn,
            // Another request is fetching the keys. A request with a usable key does not wait for this fetch.
            Err(_) if found.is_some() && self.is_usable(age) => return Ok(found),
            Err(_) => Arc::clone(&self.paused).lock_owned().await,
        };
        self.renew(seen, turn).await;
        match self.loaded() {
            Some(loaded) if self.is_usable(Some(loaded.at.elapsed())) => Ok(loaded.find(id, algorithm)),
            _ => Err(Refusal::Unavailable),
        }
    }

    fn loaded(&self) -> Option<Arc<Loaded>> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_usable(&self, age: Option<Duration>) -> bool {
        age.is_some_and(|age| age < self.refresh * STALE)
    }

    /// Fetches the keys of the issuer. The method does not fetch the keys during a pause. The method also does not
    /// fetch the keys if another request has already replaced the keys in `seen`.
    async fn renew(self: &Arc<Self>, seen: Option<Arc<Loaded>>, mut turn: OwnedMutexGuard<Option<Instant>>) {
        let is_news = match (self.loaded(), seen) {
            (Some(now), Some(seen)) => !Arc::ptr_eq(&now, &seen),
            (now, _) => now.is_some(),
        };
        if is_news || turn.is_some_and(|at| at.elapsed() < self.pause) {
            return;
        }
        let keys = Arc::clone(self);
        // If the cached keys are fresh, they are fetched again only because a token contains the ID of an unknown key.
        // Callers with invented tokens must not be able to cause frequent fetches. So the server pauses after a fetch
        // that an unknown key ID caused. Outside of a pause, the fetch starts immediately, so that a key rotation takes
        // effect immediately.
        let for_a_token = self.loaded().is_some_and(|loaded| loaded.at.elapsed() < self.refresh);
        // The fetch runs in its own task, because a caller that disconnects must not cancel the fetch for the other
        // waiting requests.
        let fetched = tokio::spawn(async move {
            let fetched = keys.fetch().await;
            *turn = (for_a_token || fetched.is_err()).then(Instant::now);
            match fetched {
                Ok(set) => {
                    let loaded = Loaded { keys: read(&set), at: Instant::now() };
                    tracing::debug!(keys = loaded.keys.len(), "the signing keys of an issuer were fetched");
                    *keys.loaded.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(loaded));
                }
                Err(error) => tracing::warn!(%error, "the signing keys of an issuer cannot be fetched"),
            }
        });
        // The `await` fails only if the task panics. After a panic, the cached keys stay unchanged, and `find` checks
        // whether the cached keys are still usable.
        let _ = fetched.await;
    }

    async fn fetch(&self) -> Result<Value, Failed> {
        let address = match &self.source {
            Source::Given(set) => return Ok(set.clone()),
            Source::At(address) => address.clone(),
            Source::Discovered(issuer) => {
                let metadata = fetch::metadata(&self.http, issuer).await?;
                let address =
                    metadata["jwks_uri"].as_str().ok_or("the issuer's metadata has no `jwks_uri`")?;
                if !fetch::is_private(address) {
                    return Err(format!(
                        "the `jwks_uri` of the issuer is not valid: `{address}` is not an https URL"
                    )
                    .into());
                }
                address.to_owned()
            }
        };
        let set = fetch::json(self.http.get(&address)).await?;
        set.ok_or_else(|| {
            format!(
                "the request for signing keys to `{address}` failed with status 404; check the issuer URL"
            )
            .into()
        })
    }
}

impl Loaded {
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Arc<DecodingKey>> {
        let mut fits = self.keys.iter().filter(|key| key.algorithms.contains(&algorithm));
        let found = if let Some(id) = id {
            fits.find(|key| key.id.as_deref() == Some(id))?
        } else {
            // If a token contains no key ID, it is accepted only if exactly one key supports the token's algorithm.
            let only = fits.next()?;
            if fits.next().is_some() {
                return None;
            }
            only
        };
        Some(Arc::clone(&found.decoding))
    }
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// Returns the usable keys of a JSON Web Key Set. The function ignores all other keys in the set.
fn read(set: &Value) -> Vec<Key> {
    let Ok(Set { keys }) = Set::deserialize(set) else {
        tracing::warn!("the signing keys of an issuer are not a JSON Web Key Set; its tokens are rejected");
        return Vec::new();
    };
    let keys = keys.into_iter().take(MAX_KEYS).filter_map(|key| {
        let jwk: Jwk = serde_json::from_value(key).ok()?;
        let algorithms = algorithms(&jwk);
        if algorithms.is_empty() {
            return None;
        }
        let key = Arc::new(DecodingKey::from_jwk(&jwk).ok()?);
        Some(Key { id: jwk.common.key_id, algorithms, decoding: key })
    });
    keys.collect()
}

/// Returns the algorithms that a key supports. The function returns only public-key algorithms. A shared secret in the
/// key set would not be secret, because everyone can read the set.
fn algorithms(jwk: &Jwk) -> Vec<Algorithm> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    let common = &jwk.common;
    let signs = common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
    let verifies = common.key_operations.as_ref().is_none_or(|it| it.contains(&KeyOperations::Verify));
    if !signs || !verifies {
        return Vec::new();
    }
    let fits: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[RS256, RS384, RS512, PS256, PS384, PS512],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[ES256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[ES384],
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[EdDSA],
        _ => &[],
    };
    let is_for = |algorithm: &&Algorithm| {
        common.key_algorithm.is_none_or(|named| named == KeyAlgorithm::from(**algorithm))
    };
    fits.iter().filter(is_for).copied().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_public_keys_that_sign_are_taken() {
        let (x, y) = ("A".repeat(43), "Q".repeat(43));
        let ed = |more: Value| {
            let mut key = json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "ed"});
            key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            key
        };
        let ec = json!({"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "ec"});
        let read = |key: Value| {
            let keys = read(&json!({"keys": [key]}));
            keys.into_iter().flat_map(|key| key.algorithms).collect::<Vec<_>>()
        };
        assert_eq!(read(ed(json!({}))), [Algorithm::EdDSA]);
        assert_eq!(
            read(ed(json!({"alg": "EdDSA", "use": "sig", "key_ops": ["verify"]}))),
            [Algorithm::EdDSA]
        );
        assert_eq!(read(ec), [Algorithm::ES256]);
        for other in [
            ed(json!({"alg": "ES256"})),
            ed(json!({"use": "enc"})),
            ed(json!({"key_ops": ["sign"]})),
            json!({"kty": "oct", "k": "c2VjcmV0"}),
            json!({"kty": "AKP", "alg": "ML-DSA-44", "pub": "…"}),
            json!("no key"),
        ] {
            assert!(read(other.clone()).is_empty(), "{other}");
        }
        assert!(super::read(&json!([])).is_empty());
    }
}
