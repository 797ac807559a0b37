//! Signed links. Each link allows certain actions on one result set, for a limited time.

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The secret keys that sign and verify links to result sets.
///
/// All replicas of a server must use the same keys for links. The first key signs links. Every key verifies links. To
/// rotate keys, first add the new key to every replica with [`with_decryption_key`](Self::with_decryption_key). Then
/// make the new key the first key on every replica. Remove the old key when all links that the old key signed have
/// expired.
#[derive(Clone)]
pub struct LinkKeys {
    /// Secret keys, each with its ID. Invariant: the list is never empty, and the first key signs links.
    keys: Vec<(u8, [u8; 32])>,
}

impl LinkKeys {
    /// Creates a key ring with one secret key. The key must have the same `id` on all replicas.
    pub fn new(id: u8, secret: [u8; 32]) -> Self {
        Self { keys: vec![(id, derive(&secret))] }
    }

    /// Creates a key ring with a random key. Only this process can verify the links that the key signs.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the operating system has random numbers");
        Self::new(0, secret)
    }

    /// Adds a key that verifies links but does not sign them.
    #[must_use]
    pub fn with_decryption_key(mut self, id: u8, secret: [u8; 32]) -> Self {
        self.keys.push((id, derive(&secret)));
        self
    }

    /// Signs a grant, and returns the token of the link.
    pub(crate) fn sign(&self, grant: &Grant) -> String {
        let (id, key) = &self.keys[0];
        let mut token = vec![VERSION, *id];
        token.extend(serde_json::to_vec(grant).expect("a grant is text and numbers"));
        let tag = mac(key, &token).finalize().into_bytes();
        token.extend(tag);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// Signs `text`. The signature is valid only for this `context`. The method does not encrypt the text.
    pub(crate) fn seal(&self, context: &str, text: &[u8]) -> Vec<u8> {
        let (id, key) = &self.keys[0];
        let mut sealed = vec![*id];
        sealed.extend(text);
        let tag = context_mac(key, context, &sealed).finalize().into_bytes();
        sealed.extend(tag);
        sealed
    }

    /// Returns the text that [`seal`](Self::seal) signed, or `None` if the signature or the context does not match.
    pub(crate) fn unseal(&self, context: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (signed, tag) = sealed.split_last_chunk::<TAG>()?;
        let [id, text @ ..] = signed else { return None };
        let (_, key) = self.keys.iter().find(|(known, _)| known == id)?;
        context_mac(key, context, signed).verify_slice(tag).ok()?;
        Some(text.to_vec())
    }

    /// Verifies the token of a link. Returns `None` for every invalid token, without a reason.
    pub(crate) fn open(&self, token: &str, now: DateTime<Utc>) -> Option<Grant> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let token = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (signed, tag) = token.split_last_chunk::<TAG>()?;
        let [VERSION, id, grant @ ..] = signed else { return None };
        let (_, key) = self.keys.iter().find(|(known, _)| known == id)?;
        // `verify_slice` compares in constant time, so that response times do not reveal parts of a valid signature.
        mac(key, signed).verify_slice(tag).ok()?;
        let grant: Grant = serde_json::from_slice(grant).ok()?;
        (now.timestamp() < grant.end).then_some(grant)
    }
}

const VERSION: u8 = 1;
const TAG: usize = 32;
const MAX_TOKEN: usize = 512;

fn mac(key: &[u8; 32], bytes: &[u8]) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256>>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(bytes);
    mac
}

/// Returns the MAC of `bytes` for a context. The input of this MAC starts with `sealed`, and the input of a link's MAC
/// starts with `VERSION`. So the MAC of a sealed text is never valid as the MAC of a link.
fn context_mac(key: &[u8; 32], context: &str, bytes: &[u8]) -> Hmac<Sha256> {
    let mut mac = mac(key, b"sealed\0");
    mac.update(&(context.len() as u64).to_be_bytes());
    mac.update(context.as_bytes());
    mac.update(bytes);
    mac
}

/// Derives the signing key from the secret. The program can also use the secret for other purposes. The signature of a
/// link must not be valid for those purposes.
fn derive(secret: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"antiphon result link v1\0");
    hash.update(secret);
    hash.finalize().into()
}

impl fmt::Debug for LinkKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|(id, _)| id)).finish()
    }
}

/// An action that a signed link allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// The link allows reading metadata and rows, page by page or all rows as a file. If the creator of the link is
    /// not allowed to export all rows, the link allows only pages.
    Read,
    /// The link allows pinning and unpinning the result set, and extending the lifetime of the set.
    Pin,
    /// The link allows deleting the result set.
    Delete,
    /// The link allows creating a new result set with an SQL query over the linked set.
    Query,
}

/// The content of a verified link: the result set, the allowed actions, and the expiry time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    #[serde(rename = "i")]
    pub(crate) id: String,
    #[serde(rename = "s")]
    pub(crate) scopes: Vec<Scope>,
    /// Expiry time of the link, in seconds since 1970.
    #[serde(rename = "e")]
    pub(crate) end: i64,
    #[serde(rename = "n")]
    pub(crate) epoch: u64,
    /// Whether the link allows only reading pages, because the creator of the link is not allowed to export all rows.
    #[serde(rename = "p", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) paged: bool,
}

/// The options of a new link: the actions that the link allows, and the lifetime of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    pub(crate) scopes: Vec<Scope>,
    pub(crate) life: Duration,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self { scopes: vec![Scope::Read], life: Duration::from_secs(5 * 60) }
    }
}

impl LinkOptions {
    /// Sets the actions that the link allows. Default: `Scope::Read`.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = Scope>) -> Self {
        self.scopes = scopes.into_iter().collect();
        self
    }

    /// Sets the lifetime of the link. Default: 5 minutes. The maximum lifetime of a link is
    /// [`ResultLimits::with_link_life`](crate::ResultLimits::with_link_life). A link expires no later than its result
    /// set.
    #[must_use]
    pub fn with_life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }
}

/// A signed link to a result set.
///
/// Every holder of the link can use the link. Give the link only to its user, and keep the link out of logs and
/// prompts.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// URL of the result set, including the signature.
    pub url: String,
    /// Actions that the link allows.
    pub scopes: Vec<Scope>,
    /// Time at which the link expires.
    pub expires_at: DateTime<Utc>,
}

impl Link {
    pub(crate) fn new(url: String, scopes: Vec<Scope>, expires_at: DateTime<Utc>) -> Self {
        Self { url, scopes, expires_at }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("scopes", &self.scopes)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}
