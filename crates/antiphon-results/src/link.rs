//! Links that open one result set, for a while, for some things.

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The secrets links are signed with.
///
/// All replicas share them. The first signs, all of them are good; to rotate, give every replica the new one
/// as a spare, then make it the first, and drop the old one when its links have expired.
#[derive(Clone)]
pub struct LinkKeys {
    /// Invariant: never empty; the first key signs.
    keys: Vec<(u8, [u8; 32])>,
}

impl LinkKeys {
    /// Signs with `secret`, known to all replicas as number `id`.
    pub fn new(id: u8, secret: [u8; 32]) -> Self {
        Self { keys: vec![(id, derive(&secret))] }
    }

    /// A random key: good for one process, for as long as it lives.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the operating system has random numbers");
        Self::new(0, secret)
    }

    /// Adds a key that opens links but makes none.
    #[must_use]
    pub fn with_decryption_key(mut self, id: u8, secret: [u8; 32]) -> Self {
        self.keys.push((id, derive(&secret)));
        self
    }

    /// Writes a link down, so that nobody can write another.
    pub(crate) fn sign(&self, grant: &Grant) -> String {
        let (id, key) = &self.keys[0];
        let mut token = vec![VERSION, *id];
        token.extend(serde_json::to_vec(grant).expect("a grant is text and numbers"));
        let tag = mac(key, &token).finalize().into_bytes();
        token.extend(tag);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// Writes something down that is good only where `context` is the same. It is no secret.
    pub(crate) fn seal(&self, context: &str, text: &[u8]) -> Vec<u8> {
        let (id, key) = &self.keys[0];
        let mut sealed = vec![*id];
        sealed.extend(text);
        let tag = context_mac(key, context, &sealed).finalize().into_bytes();
        sealed.extend(tag);
        sealed
    }

    /// Reads what was sealed; `None` if it was not, or elsewhere.
    pub(crate) fn unseal(&self, context: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (signed, tag) = sealed.split_last_chunk::<TAG>()?;
        let [id, text @ ..] = signed else { return None };
        let (_, key) = self.keys.iter().find(|(known, _)| known == id)?;
        context_mac(key, context, signed).verify_slice(tag).ok()?;
        Some(text.to_vec())
    }

    /// Reads a link that somebody brings. There is one answer to all that is wrong with it.
    pub(crate) fn open(&self, token: &str, now: DateTime<Utc>) -> Option<Grant> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let token = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (signed, tag) = token.split_last_chunk::<TAG>()?;
        let [VERSION, id, grant @ ..] = signed else { return None };
        let (_, key) = self.keys.iter().find(|(known, _)| known == id)?;
        // Compares in constant time.
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

/// What is signed for a context never begins like a link, whose first byte is its version.
fn context_mac(key: &[u8; 32], context: &str, bytes: &[u8]) -> Hmac<Sha256> {
    let mut mac = mac(key, b"sealed\0");
    mac.update(&(context.len() as u64).to_be_bytes());
    mac.update(context.as_bytes());
    mac.update(bytes);
    mac
}

/// A secret may serve elsewhere too; what it does here must not be valid there.
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

/// What a link allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// Reading what is known of the set, and its rows: a page at a time, and all of them as a file, since a download
    /// is what links are for. Whoever may only read pages makes links that do no more.
    Read,
    /// Pinning, unpinning and extending it.
    Pin,
    /// Deleting it.
    Delete,
    /// Making a new set by a query over it.
    Query,
}

/// A link that somebody brought and that is good: to which set, for what, until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    #[serde(rename = "i")]
    pub(crate) id: String,
    #[serde(rename = "s")]
    pub(crate) scopes: Vec<Scope>,
    /// In seconds since 1970.
    #[serde(rename = "e")]
    pub(crate) end: i64,
    #[serde(rename = "n")]
    pub(crate) epoch: u64,
    /// Whether rows are read a page at a time and no other way: whoever made it may not take them all away.
    #[serde(rename = "p", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) paged: bool,
}

/// What a link is to allow, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkOptions {
    /// What it allows. Default: reading.
    pub scopes: Vec<Scope>,
    /// For how long. Default: 5 minutes. It never outlives the set, nor
    /// [`ResultLimits::link_life`](crate::ResultLimits::link_life).
    pub life: Duration,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self { scopes: vec![Scope::Read], life: Duration::from_secs(5 * 60) }
    }
}

impl LinkOptions {
    /// Sets what it allows.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = Scope>) -> Self {
        self.scopes = scopes.into_iter().collect();
        self
    }

    /// Sets for how long.
    #[must_use]
    pub fn with_life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }
}

/// A signed link. Whoever has it can use it: hand it to the person it is for, and to no log and no model.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The address, with the signature in it.
    pub url: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// When it ends.
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
