//! The journal inside `requestState`: sealed, so that a client can keep it and not read or change it.

use std::{
    fmt,
    io::Read as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use antiphon_replay::Journal;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The format of a seal: `version | key id | nonce | ciphertext`, in URL-safe Base64.
const VERSION: u8 = 1;
const HEADER: usize = 2;
const NONCE: usize = 24;
const TAG: usize = 16;
/// Issue time and expiry, before the compressed journal.
const TIMES: usize = 16;

/// The secrets that protect suspended runs.
///
/// All replicas share one ring. The active key seals; every key in the ring opens. To rotate without
/// losing a run, first give every replica the new key as a spare ([`with_spare`](Self::with_spare)),
/// then make it active with the old one as a spare, and drop the old one when its seals have expired.
///
/// ```
/// use antiphon::KeyRing;
///
/// let ring = KeyRing::new(2, [7; 32]).with_spare(1, [3; 32]);
/// # let _ = ring;
/// ```
#[derive(Clone)]
pub struct KeyRing {
    /// Invariant: never empty; the first key is the active one.
    keys: Vec<(u8, [u8; 32])>,
}

impl KeyRing {
    /// A ring whose active key is `secret`, known to its replicas as number `id`.
    pub fn new(id: u8, secret: [u8; 32]) -> Self {
        Self { keys: vec![(id, derive(&secret))] }
    }

    /// A ring with a random key: good for one process, for as long as it lives.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the operating system has random numbers");
        Self::new(0, secret)
    }

    /// Adds a key that opens seals but makes none.
    #[must_use]
    pub fn with_spare(mut self, id: u8, secret: [u8; 32]) -> Self {
        self.keys.push((id, derive(&secret)));
        self
    }

    fn cipher(&self, id: u8) -> Option<XChaCha20Poly1305> {
        let (_, key) = self.keys.iter().find(|(known, _)| *known == id)?;
        Some(XChaCha20Poly1305::new(key.into()))
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|(id, _)| id)).finish()
    }
}

/// A secret may serve elsewhere too; what it does here must not be valid there.
fn derive(secret: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"antiphon requestState v1\0");
    hash.update(secret);
    hash.finalize().into()
}

/// How runs are sealed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SealConfig {
    /// The keys. Default: a random one, which serves a single process.
    pub keys: KeyRing,
    /// Whom the seals are for; servers that share keys but not tools differ here. Default: the
    /// server's name.
    pub audience: Option<String>,
    /// How long a question may stay unanswered. Default: one hour, counted anew each round.
    pub ttl: Duration,
    /// How far replicas' clocks may be apart. Default: one minute.
    pub skew: Duration,
    /// The longest `requestState`, in bytes. Default: 64 KiB.
    pub max_bytes: usize,
    /// Whether journals are compressed before they are sealed. Default: yes. Turn it off where a
    /// caller who can put text into a run must not learn from a seal's length what else is in it.
    pub compress: bool,
}

impl Default for SealConfig {
    fn default() -> Self {
        Self {
            keys: KeyRing::random(),
            audience: None,
            ttl: Duration::from_secs(60 * 60),
            skew: Duration::from_secs(60),
            max_bytes: 64 * 1024,
            compress: true,
        }
    }
}

impl SealConfig {
    /// Sets the keys.
    #[must_use]
    pub fn with_keys(mut self, keys: KeyRing) -> Self {
        self.keys = keys;
        self
    }

    /// Sets whom the seals are for.
    #[must_use]
    pub fn with_audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Sets how long a question may stay unanswered.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets how far replicas' clocks may be apart.
    #[must_use]
    pub fn with_skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Sets whether journals are compressed before they are sealed.
    #[must_use]
    pub fn with_compression(mut self, compress: bool) -> Self {
        self.compress = compress;
        self
    }

    /// Sets the longest `requestState`, in bytes.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }
}

/// What a seal is bound to: it opens for the same caller, making the same call, and for no other.
#[derive(Debug)]
pub(crate) struct Binding([u8; 32]);

impl Binding {
    pub(crate) fn new(audience: &str, principal: &str, method: &str, name: &str, arguments: &Value) -> Self {
        let mut hash = Sha256::new();
        for part in [audience, principal, method, name] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        digest(&mut hash, arguments);
        Self(hash.finalize().into())
    }
}

/// Equal JSON has an equal digest, in whatever order its keys came.
fn digest(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(object) => digest_object(hash, object),
        Value::Array(items) => {
            hash.update([b'[']);
            hash.update((items.len() as u64).to_le_bytes());
            for item in items {
                digest(hash, item);
            }
        }
        leaf => {
            let text = leaf.to_string();
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
    }
}

fn digest_object(hash: &mut Sha256, object: &serde_json::Map<String, Value>) {
    let mut fields: Vec<_> = object.iter().collect();
    fields.sort_by_key(|(name, _)| *name);
    hash.update([b'{']);
    hash.update((fields.len() as u64).to_le_bytes());
    for (name, value) in fields {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        digest(hash, value);
    }
}

/// Why a seal was not opened. For the log only: the caller learns nothing but that it was not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OpenError {
    TooLong,
    Malformed,
    UnknownKey,
    Forged,
    Expired,
    FromTheFuture,
    Journal,
}

/// A journal too large to travel.
#[derive(Debug)]
pub(crate) struct TooLarge {
    pub(crate) bytes: usize,
    pub(crate) max_bytes: usize,
}

impl SealConfig {
    pub(crate) fn seal(
        &self,
        journal: &Journal,
        binding: &Binding,
        now: SystemTime,
    ) -> Result<String, TooLarge> {
        let (id, _) = self.keys.keys[0];
        let cipher = self.keys.cipher(id).expect("the active key is in the ring");
        let issued = millis(now);
        let mut plain = Vec::with_capacity(512);
        plain.extend_from_slice(&issued.to_le_bytes());
        plain.extend_from_slice(
            &issued.saturating_add(self.ttl.as_millis().try_into().unwrap_or(u64::MAX)).to_le_bytes(),
        );
        let json = journal.to_json();
        if json.len() as u64 > self.max_json() {
            return Err(TooLarge { bytes: json.len(), max_bytes: self.max_bytes });
        }
        if self.compress {
            plain.push(1);
            let level = 3;
            plain.extend(zstd::bulk::compress(&json, level).expect("compressing into memory does not fail"));
        } else {
            plain.push(0);
            plain.extend(json);
        }
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).expect("the operating system has random numbers");
        let header = [VERSION, id];
        let sealed = cipher
            .encrypt(&XNonce::from(nonce), Payload { msg: &plain, aad: &associated(header, binding) })
            .expect("a journal is far shorter than the cipher's limit");
        let mut bytes = Vec::with_capacity(HEADER + NONCE + sealed.len());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&nonce);
        bytes.extend(sealed);
        let text = URL_SAFE_NO_PAD.encode(bytes);
        if text.len() > self.max_bytes {
            return Err(TooLarge { bytes: text.len(), max_bytes: self.max_bytes });
        }
        Ok(text)
    }

    pub(crate) fn open(&self, text: &str, binding: &Binding, now: SystemTime) -> Result<Journal, OpenError> {
        if text.len() > self.max_bytes {
            return Err(OpenError::TooLong);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| OpenError::Malformed)?;
        if bytes.len() < HEADER + NONCE + TAG + TIMES + 1 || bytes[0] != VERSION {
            return Err(OpenError::Malformed);
        }
        let header = [bytes[0], bytes[1]];
        let cipher = self.keys.cipher(header[1]).ok_or(OpenError::UnknownKey)?;
        let nonce: [u8; NONCE] =
            bytes[HEADER..HEADER + NONCE].try_into().map_err(|_| OpenError::Malformed)?;
        let plain = cipher
            .decrypt(
                &XNonce::from(nonce),
                Payload { msg: &bytes[HEADER + NONCE..], aad: &associated(header, binding) },
            )
            .map_err(|_| OpenError::Forged)?;
        let (times, body) = plain.split_at(TIMES);
        let (issued, expires) = times.split_at(8);
        let issued = u64::from_le_bytes(issued.try_into().map_err(|_| OpenError::Malformed)?);
        let expires = u64::from_le_bytes(expires.try_into().map_err(|_| OpenError::Malformed)?);
        let (now, skew) = (millis(now), self.skew.as_millis().try_into().unwrap_or(u64::MAX));
        if now > expires.saturating_add(skew) {
            return Err(OpenError::Expired);
        }
        if issued > now.saturating_add(skew) {
            return Err(OpenError::FromTheFuture);
        }
        let json = match body.split_first() {
            Some((1, compressed)) => self.decompress(compressed)?,
            Some((0, json)) => json.to_vec(),
            _ => return Err(OpenError::Malformed),
        };
        Journal::from_json(&json).map_err(|_| OpenError::Journal)
    }

    /// The longest journal, uncompressed.
    fn max_json(&self) -> u64 {
        64 * self.max_bytes as u64
    }

    /// What was sealed was ours, but a few bytes can still unfold to gigabytes.
    fn decompress(&self, compressed: &[u8]) -> Result<Vec<u8>, OpenError> {
        let cap = self.max_json();
        let mut json = Vec::new();
        let mut decoder = zstd::stream::read::Decoder::new(compressed).map_err(|_| OpenError::Malformed)?;
        decoder.by_ref().take(cap + 1).read_to_end(&mut json).map_err(|_| OpenError::Malformed)?;
        if json.len() as u64 > cap { Err(OpenError::TooLong) } else { Ok(json) }
    }
}

fn associated(header: [u8; HEADER], binding: &Binding) -> Vec<u8> {
    [&header[..], &binding.0].concat()
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis().try_into().unwrap_or(u64::MAX))
}
