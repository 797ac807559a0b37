//! Sealed state: the encrypted journal of a run, which the client receives as `requestState`. The journal is encrypted
//! and authenticated, so the client cannot read or change the journal.

mod inspect;
mod keys;
mod token;

use std::{
    io::Read as _,
    time::{Duration, SystemTime},
};

use antiphon_replay::Journal;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    XNonce,
    aead::{Aead as _, Payload},
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(crate) use self::inspect::shape;
pub use self::{
    inspect::{InspectError, SealedCall, SealedEntry, SealedRun},
    keys::{KeyRing, KeyRingError},
};
use crate::base::{millis, millis_since_1970};

/// The format of a sealed state: `version | key ID | nonce | ciphertext`, in URL-safe Base64.
const VERSION: u8 = 1;
const HEADER: usize = 2;
const NONCE: usize = 24;
const TAG: usize = 16;
/// The total length in bytes of the two times at the start of a sealed state: the issue time and the expiry time.
const TIMES: usize = 16;

/// The settings for sealed states. A sealed state is the encrypted journal, which the client receives as
/// `requestState`.
#[derive(Clone, Debug)]
pub struct SealConfig {
    pub(crate) keys: KeyRing,
    pub(crate) audience: Option<String>,
    pub(crate) ttl: Duration,
    pub(crate) skew: Duration,
    pub(crate) max_bytes: usize,
    pub(crate) max_kept_bytes: usize,
    pub(crate) single_use: bool,
    pub(crate) compress: bool,
}

impl Default for SealConfig {
    fn default() -> Self {
        Self {
            keys: KeyRing::random(),
            audience: None,
            ttl: Duration::from_secs(60 * 60),
            skew: Duration::from_secs(60),
            max_bytes: 64 * 1024,
            max_kept_bytes: 16 * 1024 * 1024,
            single_use: false,
            compress: true,
        }
    }
}

impl SealConfig {
    /// Sets the encryption keys. Default: a random key that no other process has.
    #[must_use]
    pub fn with_keys(mut self, keys: KeyRing) -> Self {
        self.keys = keys;
        self
    }

    /// Sets the audience: a name that is part of every sealed state. Default: the server's name.
    ///
    /// If servers with different tools share encryption keys, each server needs its own audience.
    #[must_use]
    pub fn with_audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Sets how long a `requestState` is valid. Each round has a new `requestState`, and the client must send the
    /// answers while this `requestState` is valid. Default: 1 hour.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the maximum difference between the clocks of two replicas. Default: 1 minute.
    #[must_use]
    pub fn with_skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Sets the maximum length of a `requestState`, in bytes. Default: 64 KiB.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Sets the maximum length of a journal in the store, in bytes. The limit applies to the length of the compressed
    /// and encrypted journal. Default: 16 MiB.
    ///
    /// If a journal is too long for a `requestState`, the server stores the journal in the backend's store.
    #[must_use]
    pub fn with_max_kept_bytes(mut self, max_kept_bytes: usize) -> Self {
        self.max_kept_bytes = max_kept_bytes;
        self
    }

    /// Sets whether the server accepts each `requestState` only once. Default: no. A single-use `requestState` requires
    /// a [backend](crate::ServerBuilder::with_backend).
    ///
    /// If a client sends a `requestState` again with the same answers, the client receives the reply of the first
    /// request again. If the client sends a `requestState` again with different answers, the server rejects the
    /// request.
    #[must_use]
    pub fn with_single_use(mut self, single_use: bool) -> Self {
        self.single_use = single_use;
        self
    }

    /// Sets whether journals are compressed before they are encrypted. Default: yes.
    ///
    /// The length of compressed data depends on the contents of the data. If a caller can add text to a run, the caller
    /// could guess secrets in the run from the length of the `requestState`. If callers can add text to a run that
    /// contains secrets, turn compression off.
    #[must_use]
    pub fn with_compression(mut self, compress: bool) -> Self {
        self.compress = compress;
        self
    }
}

impl SealConfig {
    /// Returns descriptions of the configuration problems, one per line.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let is_wrong = [
            (
                self.ttl.is_zero(),
                "`SealConfig::with_ttl` is 0, so every `requestState` would expire at once; set a longer time",
            ),
            (
                self.max_bytes == 0,
                "`SealConfig::with_max_bytes` is 0, so no run could be suspended; set a larger limit",
            ),
        ];
        is_wrong.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, problem)| problem.to_owned())
    }
}

/// A handle to a journal in the store.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) name: [u8; 16],
    /// The length of the encrypted journal, in bytes.
    pub(crate) bytes: u32,
}

/// The data that a decrypted sealed state contains.
#[derive(Debug)]
pub(crate) enum Opened {
    Journal(Journal),
    Handle(Handle),
}

/// The caller and the call that a sealed state is bound to. The server cannot decrypt the sealed state for another
/// caller or another call.
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

/// Adds a value to the digest. Two equal JSON values have equal digests, even if the fields are in a different order.
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

/// The reason why a sealed state cannot be decrypted. The server writes the reason only to the log. The caller receives
/// the same error for every reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OpenError {
    TooLong,
    Malformed,
    UnknownKey,
    Forged,
    Expired,
    FromTheFuture,
    Journal,
    /// The sealed state contains a handle, but the store does not contain the journal.
    Spilled,
}

impl OpenError {
    /// Returns the name of the reason, for logs.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::UnknownKey => "unknown_key",
            Self::Forged => "forged",
            Self::Expired => "expired",
            Self::FromTheFuture => "from_the_future",
            Self::Journal => "journal",
            Self::Spilled => "spilled",
        }
    }
}

/// The error for a journal that is larger than the maximum length of a `requestState`.
#[derive(Debug)]
pub(crate) struct TooLarge {
    pub(crate) bytes: usize,
    pub(crate) max_bytes: usize,
}

/// The encoding number of a sealed state that contains an uncompressed journal.
const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;
/// The encoding number of a sealed state that contains a handle to a journal in the store.
const STORED: u8 = 2;

impl SealConfig {
    pub(crate) fn seal(
        &self,
        journal: &Journal,
        binding: &Binding,
        now: SystemTime,
    ) -> Result<String, TooLarge> {
        let too_large = |bytes| TooLarge { bytes, max_bytes: self.max_bytes };
        let mut plain = self.times(now);
        self.write(journal, self.max_bytes, &mut plain).map_err(too_large)?;
        let text = URL_SAFE_NO_PAD.encode(self.encrypt(&plain, &binding.0));
        if text.len() > self.max_bytes { Err(too_large(text.len())) } else { Ok(text) }
    }

    /// Encrypts a journal for the store. Returns the handle and the encrypted journal.
    pub(crate) fn seal_apart(
        &self,
        journal: &Journal,
        binding: &Binding,
        now: SystemTime,
    ) -> Result<(Handle, Vec<u8>), TooLarge> {
        let too_large = |bytes| TooLarge { bytes, max_bytes: self.max_kept_bytes };
        let mut name = [0; 16];
        getrandom::fill(&mut name).expect("the operating system has random numbers");
        let mut plain = self.times(now);
        self.write(journal, self.max_kept_bytes, &mut plain).map_err(too_large)?;
        let sealed = self.encrypt(&plain, &apart(binding, &name));
        match u32::try_from(sealed.len()) {
            Ok(bytes) if sealed.len() <= self.max_kept_bytes => Ok((Handle { name, bytes }, sealed)),
            _ => Err(too_large(sealed.len())),
        }
    }

    /// Encrypts a handle as a sealed state. The length of this sealed state does not depend on the journal.
    pub(crate) fn seal_handle(&self, handle: &Handle, binding: &Binding, now: SystemTime) -> String {
        let mut plain = self.times(now);
        plain.push(STORED);
        plain.extend_from_slice(&handle.name);
        plain.extend_from_slice(&handle.bytes.to_le_bytes());
        URL_SAFE_NO_PAD.encode(self.encrypt(&plain, &binding.0))
    }

    pub(crate) fn open(&self, text: &str, binding: &Binding, now: SystemTime) -> Result<Opened, OpenError> {
        if text.len() > self.max_bytes {
            return Err(OpenError::TooLong);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| OpenError::Malformed)?;
        let plain = self.decrypt(&bytes, &binding.0)?;
        let (times, body) = plain.split_at(TIMES);
        let (issued, expires) = times.split_at(8);
        let issued = u64::from_le_bytes(issued.try_into().map_err(|_| OpenError::Malformed)?);
        let expires = u64::from_le_bytes(expires.try_into().map_err(|_| OpenError::Malformed)?);
        let (now, skew) = (millis_since_1970(now), millis(self.skew));
        if now > expires.saturating_add(skew) {
            return Err(OpenError::Expired);
        }
        if issued > now.saturating_add(skew) {
            return Err(OpenError::FromTheFuture);
        }
        match body.split_first() {
            Some((&STORED, handle)) => {
                let (name, bytes) = handle.split_at_checked(16).ok_or(OpenError::Malformed)?;
                let name = name.try_into().map_err(|_| OpenError::Malformed)?;
                let bytes = bytes.try_into().map_err(|_| OpenError::Malformed)?;
                Ok(Opened::Handle(Handle { name, bytes: u32::from_le_bytes(bytes) }))
            }
            _ => Self::read(body, self.max_bytes).map(Opened::Journal),
        }
    }

    /// Decrypts a journal from the store. This method does not check whether the journal has expired, because the
    /// server has already checked the sealed state that contains the handle.
    pub(crate) fn open_apart(
        &self,
        handle: &Handle,
        sealed: &[u8],
        binding: &Binding,
    ) -> Result<Journal, OpenError> {
        let plain = self.decrypt(sealed, &apart(binding, &handle.name))?;
        Self::read(&plain[TIMES..], self.max_kept_bytes)
    }

    /// Encrypts data for the store under `name`. Data that is encrypted under one name cannot be decrypted under
    /// another name.
    pub(crate) fn seal_kept(&self, plain: &[u8], name: &[u8]) -> Vec<u8> {
        /// Data that is shorter than this length, in bytes, is not compressed. The compression of short data takes more
        /// time than it saves.
        const SMALL: usize = 4 * 1024;
        let mut body = self.times(SystemTime::now());
        if self.compress && plain.len() > SMALL {
            body.push(COMPRESSED);
            body.extend(zstd::bulk::compress(plain, 1).expect("compressing into memory does not fail"));
        } else {
            body.push(PLAIN);
            body.extend_from_slice(plain);
        }
        self.encrypt(&body, &[b"kept", name].concat())
    }

    /// Decrypts data that was encrypted under `name`. The data has no expiry time, so the caller of this method must
    /// delete the data.
    pub(crate) fn open_kept(&self, sealed: &[u8], name: &[u8]) -> Result<Vec<u8>, OpenError> {
        let plain = self.decrypt(sealed, &[b"kept", name].concat())?;
        match plain[TIMES..].split_first() {
            Some((&COMPRESSED, compressed)) => decompress(compressed, max_json(self.max_kept_bytes)),
            Some((&PLAIN, json)) => Ok(json.to_vec()),
            _ => Err(OpenError::Malformed),
        }
    }

    /// Returns `true` if stored data is encrypted with the active key.
    pub(crate) fn is_current(&self, sealed: &[u8]) -> bool {
        sealed.get(1) == Some(&self.keys.active_id())
    }

    fn times(&self, now: SystemTime) -> Vec<u8> {
        let issued = millis_since_1970(now);
        let expires = issued.saturating_add(millis(self.ttl));
        let mut plain = Vec::with_capacity(512);
        plain.extend_from_slice(&issued.to_le_bytes());
        plain.extend_from_slice(&expires.to_le_bytes());
        plain
    }

    /// Writes a journal to `plain`. If the journal has more than `max_bytes`, returns the length of the journal as the
    /// error.
    fn write(&self, journal: &Journal, max_bytes: usize, plain: &mut Vec<u8>) -> Result<(), usize> {
        let json = journal.to_json();
        if json.len() as u64 > max_json(max_bytes) {
            return Err(json.len());
        }
        if self.compress {
            plain.push(COMPRESSED);
            let level = 3;
            plain.extend(zstd::bulk::compress(&json, level).expect("compressing into memory does not fail"));
        } else {
            plain.push(PLAIN);
            plain.extend(json);
        }
        Ok(())
    }

    fn read(body: &[u8], max_bytes: usize) -> Result<Journal, OpenError> {
        let json = match body.split_first() {
            Some((&COMPRESSED, compressed)) => &*decompress(compressed, max_json(max_bytes))?,
            Some((&PLAIN, json)) => json,
            _ => return Err(OpenError::Malformed),
        };
        Journal::from_json(json).map_err(|_| OpenError::Journal)
    }

    fn encrypt(&self, plain: &[u8], binding: &[u8]) -> Vec<u8> {
        let (id, cipher) = self.keys.active();
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).expect("the operating system has random numbers");
        let header = [VERSION, id];
        let sealed = cipher
            .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: &[&header, binding].concat() })
            .expect("a journal is far shorter than the cipher's limit");
        let mut bytes = Vec::with_capacity(HEADER + NONCE + sealed.len());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&nonce);
        bytes.extend(sealed);
        bytes
    }

    /// Decrypts data that contains the issue time, the expiry time and at least one more byte.
    fn decrypt(&self, bytes: &[u8], binding: &[u8]) -> Result<Vec<u8>, OpenError> {
        if bytes.len() < HEADER + NONCE + TAG + TIMES + 1 || bytes[0] != VERSION {
            return Err(OpenError::Malformed);
        }
        let header = [bytes[0], bytes[1]];
        let cipher = self.keys.cipher(header[1]).ok_or(OpenError::UnknownKey)?;
        let nonce: [u8; NONCE] =
            bytes[HEADER..HEADER + NONCE].try_into().map_err(|_| OpenError::Malformed)?;
        let aad = [&header, binding].concat();
        cipher
            .decrypt(&XNonce::from(nonce), Payload { msg: &bytes[HEADER + NONCE..], aad: &aad })
            .map_err(|_| OpenError::Forged)
    }
}

/// Methods for tests and fuzzing, which encrypt arbitrary bytes in place of a journal.
#[cfg(any(test, feature = "__fuzz"))]
impl SealConfig {
    pub(crate) fn sealed_as_is(&self, body: &[u8], binding: &Binding, now: SystemTime) -> String {
        let plain = [&self.times(now)[..], body].concat();
        URL_SAFE_NO_PAD.encode(self.encrypt(&plain, &binding.0))
    }

    /// Encrypts arbitrary bytes for the store under `name`.
    pub(crate) fn kept_as_is(&self, body: &[u8], name: &[u8], now: SystemTime) -> Vec<u8> {
        let plain = [&self.times(now)[..], body].concat();
        self.encrypt(&plain, &[b"kept", name].concat())
    }
}

/// Returns the maximum size of an uncompressed journal whose sealed state has at most `max_bytes`. The result is at
/// most 64 MiB, because the server holds the whole journal in memory.
fn max_json(max_bytes: usize) -> u64 {
    64 * (max_bytes as u64).min(1024 * 1024)
}

/// Decompresses data to at most `cap` bytes. The limit is necessary, because a few compressed bytes could expand to
/// gigabytes, even in authenticated data.
fn decompress(compressed: &[u8], cap: u64) -> Result<Vec<u8>, OpenError> {
    let mut json = Vec::new();
    let mut decoder = zstd::stream::read::Decoder::new(compressed).map_err(|_| OpenError::Malformed)?;
    decoder.by_ref().take(cap + 1).read_to_end(&mut json).map_err(|_| OpenError::Malformed)?;
    if json.len() as u64 > cap { Err(OpenError::TooLong) } else { Ok(json) }
}

/// Returns the binding (the additional authenticated data) for a journal in the store. The binding contains the name of
/// the journal, so a journal cannot be decrypted under another name.
fn apart(binding: &Binding, name: &[u8; 16]) -> Vec<u8> {
    [&binding.0[..], b"apart", name].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding() -> Binding {
        Binding::new("shop", "", "tools/call", "buy", &json!({}))
    }

    /// Returns a body with `bytes` zeros. Compression makes a body of zeros very small.
    fn bomb(bytes: usize) -> Vec<u8> {
        let mut body = vec![COMPRESSED];
        body.extend(zstd::bulk::compress(&vec![0; bytes], 19).unwrap());
        body
    }

    #[test]
    fn what_unfolds_to_more_than_it_may_is_not_unfolded() {
        let config = SealConfig::default().with_max_bytes(8 * 1024).with_max_kept_bytes(8 * 1024);
        let most = usize::try_from(max_json(config.max_bytes)).unwrap();
        let binding = binding();
        let now = SystemTime::now();
        let small = config.sealed_as_is(&bomb(most), &binding, now);
        let opened = config.open(&small, &binding, now);
        assert_eq!(opened.unwrap_err(), OpenError::Journal, "it is read, and is no journal");
        let large = config.sealed_as_is(&bomb(most + 1), &binding, now);
        assert!(large.len() < config.max_bytes, "{} bytes are what a client may send", large.len());
        assert_eq!(config.open(&large, &binding, now).unwrap_err(), OpenError::TooLong);
        let call = SealedCall::new("shop", "buy");
        assert_eq!(config.inspect(&large, &call), Err(InspectError::Malformed));
        // The size limit also applies to data in the store, under a name and under a handle.
        let kept = |bytes: usize| config.kept_as_is(&bomb(bytes), b"name", now);
        assert_eq!(config.open_kept(&kept(most), b"name").unwrap().len(), most);
        assert_eq!(config.open_kept(&kept(most + 1), b"name").unwrap_err(), OpenError::TooLong);
        let handle = Handle { name: [1; 16], bytes: 0 };
        let plain = [&config.times(now)[..], &bomb(most + 1)].concat();
        let apart = config.encrypt(&plain, &apart(&binding, &handle.name));
        assert_eq!(config.open_apart(&handle, &apart, &binding).unwrap_err(), OpenError::TooLong);
    }

    #[test]
    fn longest_journal_in_memory_is_bounded_whatever_may_be_kept() {
        assert_eq!(max_json(usize::MAX), 64 * 1024 * 1024);
        assert_eq!(max_json(1024), 64 * 1024);
    }

    #[test]
    fn what_was_sealed_for_one_place_opens_at_no_other() {
        let config = SealConfig::default();
        let (one, other) = (config.seal_kept(b"{}", b"tasks/a/1"), config.seal_kept(b"{}", b"tasks/a/2"));
        assert_eq!(config.open_kept(&one, b"tasks/a/1").unwrap(), b"{}");
        for (sealed, name) in [(&one, "tasks/a/2"), (&other, "tasks/a/1"), (&one, "tasks/b/1")] {
            assert_eq!(config.open_kept(sealed, name.as_bytes()).unwrap_err(), OpenError::Forged, "{name}");
        }
        // A task's record cannot be used as a sealed state of a client, and a sealed state cannot be used as a task's
        // record.
        let text = URL_SAFE_NO_PAD.encode(&one);
        let opened = config.open(&text, &binding(), SystemTime::now());
        assert_eq!(opened.unwrap_err(), OpenError::Forged);
    }
}
