use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::Identity;
use crate::MIN_SECRET_BYTES;

/// An API key: a secret by which the server identifies a caller. Use API keys if you do not have an authorization
/// server.
///
/// Clients send the API key as `Authorization: Bearer <key>`. Every MCP client supports the header `Authorization`.
/// The server stores only the SHA-256 digest of the API key. A plain digest is secure only for random secrets, so
/// create the API key with `openssl rand -hex 32`.
///
/// ```
/// use antiphon_http::auth::ApiKey;
///
/// # let (secret, digest) = ("0f".repeat(32), "5a".repeat(32));
/// let ada = ApiKey::new("ada", &secret).with_scopes(["reports:read"]);
/// // With a digest, the configuration does not contain the secret. `printf %s "$KEY" | sha256sum` prints the digest.
/// let nightly = ApiKey::hashed("nightly", &digest).with_scopes(["reports:read", "reports:write"]);
/// # let _ = (ada, nightly);
/// ```
#[derive(Clone)]
#[must_use = "an API key does nothing until you pass it to an `AuthBuilder`"]
pub struct ApiKey {
    digest: [u8; 32],
    identity: Identity,
    problem: Option<String>,
}

impl ApiKey {
    /// Creates an API key. A caller that sends `secret` is authenticated as `principal`.
    pub fn new(principal: impl Into<String>, secret: &str) -> Self {
        let principal = principal.into();
        let problem = (secret.len() < MIN_SECRET_BYTES).then(|| {
            format!("the API key of `{principal}` is shorter than {MIN_SECRET_BYTES} bytes; create one with `openssl rand -hex 32`")
        });
        Self { digest: Sha256::digest(secret).into(), identity: Identity::new(principal), problem }
    }

    /// Creates an API key from the SHA-256 digest of its secret. The digest `sha256` has 64 hexadecimal digits. A
    /// caller that sends the secret is authenticated as `principal`.
    pub fn hashed(principal: impl Into<String>, sha256: &str) -> Self {
        let principal = principal.into();
        let (digest, problem) = match hex(sha256) {
            Some(digest) => (digest, None),
            None => (
                [0; 32],
                Some(format!(
                    "the hash of the API key of `{principal}` is not valid; use the SHA-256 digest of the key, in 64 hex digits"
                )),
            ),
        };
        Self { digest, identity: Identity::new(principal), problem }
    }

    /// Sets the scopes of callers that send this API key. Default: none.
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.identity = self.identity.with_scopes(scopes);
        self
    }

    pub(super) fn problem(&self) -> Option<&String> {
        self.problem.as_ref()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApiKey").field(&self.identity).finish()
    }
}

/// Returns the identity of the caller that sent `secret`. The function compares `secret` with all API keys in constant
/// time, so that the duration of the comparison reveals nothing about the API keys.
pub(super) fn find(keys: &[ApiKey], secret: &str) -> Option<Identity> {
    let digest: [u8; 32] = Sha256::digest(secret).into();
    let mut found = None;
    for key in keys {
        if bool::from(key.digest.ct_eq(&digest)) {
            found = Some(&key.identity);
        }
    }
    found.cloned()
}

fn hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn key_is_found_by_its_hash_and_shown_nowhere() {
        let secret = "a secret that nobody could ever guess";
        let mut digest = String::new();
        for byte in Sha256::digest(secret) {
            write!(digest, "{byte:02x}").unwrap();
        }
        let keys = [ApiKey::new("ada", &"x".repeat(40)), ApiKey::hashed("eve", &digest).with_scopes(["a"])];
        let found = find(&keys, secret).unwrap();
        assert_eq!((found.principal(), found.has_scope("a")), ("eve", true));
        assert_eq!(find(&keys, "another"), None);
        assert_eq!(find(&keys, ""), None);
        assert!(!format!("{keys:?}").contains(&digest));
    }

    #[test]
    fn bad_keys_are_said_to_be() {
        assert!(ApiKey::new("ada", "short").problem().is_some());
        for bad in ["", "zz", &"+1".repeat(32), &"é".repeat(32)] {
            assert!(ApiKey::hashed("ada", bad).problem().is_some(), "{bad}");
        }
    }
}
