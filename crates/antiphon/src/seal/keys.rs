use std::{fmt, str::FromStr};

use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use sha2::{Digest as _, Sha256};

/// The encryption keys for the sealed states and the stored records of runs.
///
/// All replicas must have the same encryption keys. A server encrypts with the active key, which is the first key of
/// the ring. A server can decrypt with any key of the ring. To replace the active key without losing runs, follow these
/// steps:
///
/// 1. On every replica, add the new key only for decryption ([`with_decryption_key`](Self::with_decryption_key)).
/// 2. Make the new key the active key on every replica. On every replica, keep the old key for decryption.
/// 3. Remove the old key when no data is encrypted with the old key. To be sure, wait for the duration of
///    [`SealConfig::with_ttl`](crate::seal::SealConfig::with_ttl). If the server has tasks, also wait twice the
///    duration of [`TaskConfig::with_audit_interval`](crate::task::TaskConfig::with_audit_interval). During this wait,
///    the audit encrypts the stored records of waiting runs with the new key.
///
/// ```
/// use antiphon::seal::KeyRing;
///
/// let ring = KeyRing::new(2, [7; 32]).with_decryption_key(1, [3; 32]);
/// // The same key ring as text, for an environment variable. The first key encrypts, and all keys decrypt.
/// let ring: KeyRing = format!("2={},1={}", "07".repeat(32), "03".repeat(32)).parse()?;
/// # let _ = ring;
/// # Ok::<(), antiphon::seal::KeyRingError>(())
/// ```
#[derive(Clone)]
pub struct KeyRing {
    /// Invariant: the list is never empty. The first key is the active key.
    keys: Vec<(u8, [u8; 32])>,
    /// Whether the active key is random. No other process has a random key.
    random: bool,
}

impl KeyRing {
    /// Creates a key ring with the active key `secret`. `id` is a number that identifies the key on all replicas.
    pub fn new(id: u8, secret: [u8; 32]) -> Self {
        Self { keys: vec![(id, derive(&secret))], random: false }
    }

    /// Creates a key ring with a random key. Other processes cannot decrypt data that is encrypted with the random key.
    /// After a restart, this process also cannot decrypt data that was encrypted with the random key.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the operating system has random numbers");
        Self { random: true, ..Self::new(0, secret) }
    }

    /// Returns `true` if the active key is [random](Self::random). No other process has a random key.
    pub(crate) fn is_random(&self) -> bool {
        self.random
    }

    /// Returns a key ID that two keys of the ring have, or `None` if all IDs are different. A server would never use
    /// the second key with this ID.
    pub(crate) fn duplicate(&self) -> Option<u8> {
        let mut ids: Vec<u8> = self.keys.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    /// Returns the fingerprints of the keys. The fingerprint of the active key is first. A fingerprint does not reveal
    /// the key.
    pub(crate) fn fingerprints(&self) -> Vec<String> {
        let fingerprint = |(id, key): &(u8, [u8; 32])| {
            let mut hash = Sha256::new();
            hash.update(b"antiphon key fingerprint v1\0");
            hash.update([*id]);
            hash.update(key);
            let digest = hash.finalize();
            let bytes = digest[..8].iter().fold(0, |bits: u64, byte| (bits << 8) | u64::from(*byte));
            format!("{bytes:016x}")
        };
        self.keys.iter().map(fingerprint).collect()
    }

    /// Returns the view key that is derived from the active key.
    pub(super) fn view_key(&self, audience: &str) -> String {
        view_key(&self.keys[0].1, audience)
    }

    /// Returns the call key that is derived from the active key.
    pub(super) fn call_key(&self, audience: &str) -> String {
        secret_for("call", &self.keys[0].1, audience)
    }

    /// Returns `true` if `given` is a view key that the server derived from one of the keys in the ring.
    pub(super) fn is_view_key(&self, given: &str, audience: &str) -> bool {
        // This code compares every key, so that the duration does not depend on which key matches.
        self.keys.iter().filter(|(_, key)| is_same(&view_key(key, audience), given)).count() > 0
    }

    /// Adds a key that is used only for decryption.
    #[must_use]
    pub fn with_decryption_key(mut self, id: u8, secret: [u8; 32]) -> Self {
        self.keys.push((id, derive(&secret)));
        self
    }

    /// Derives keys that sign links to result sets. The derived keys cannot decrypt sealed states.
    #[cfg(feature = "results")]
    pub fn link_keys(&self) -> antiphon_results::LinkKeys {
        let (id, key) = self.keys[0];
        let keys = antiphon_results::LinkKeys::new(id, key);
        self.keys[1..].iter().fold(keys, |keys, (id, key)| keys.with_decryption_key(*id, *key))
    }

    pub(super) fn active_id(&self) -> u8 {
        self.keys[0].0
    }

    /// Returns the active key and its ID.
    pub(super) fn active(&self) -> (u8, XChaCha20Poly1305) {
        let (id, key) = &self.keys[0];
        (*id, XChaCha20Poly1305::new(key.into()))
    }

    pub(super) fn cipher(&self, id: u8) -> Option<XChaCha20Poly1305> {
        let (_, key) = self.keys.iter().find(|(known, _)| *known == id)?;
        Some(XChaCha20Poly1305::new(key.into()))
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|(id, _)| id)).finish()
    }
}

/// Derives the encryption key from a secret. Keys that are derived from this secret for other purposes are different
/// from this encryption key.
fn derive(secret: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"antiphon requestState v1\0");
    hash.update(secret);
    hash.finalize().into()
}

/// Derives the view key from a key and an audience.
fn view_key(key: &[u8; 32], audience: &str) -> String {
    secret_for("view", key, audience)
}

/// Derives a secret for one purpose from a key and an audience. The secret is a hexadecimal text of 128 bits. The
/// secret does not reveal the key.
fn secret_for(purpose: &str, key: &[u8; 32], audience: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("antiphon {purpose} key v1\0"));
    hash.update(key);
    hash.update(audience);
    let digest = hash.finalize();
    let bits = digest[..16].iter().fold(0, |bits: u128, byte| (bits << 8) | u128::from(*byte));
    format!("{bits:032x}")
}

/// Compares two texts in constant time, so that an attacker cannot guess a secret character by character.
fn is_same(secret: &str, given: &str) -> bool {
    let differences = secret.bytes().zip(given.bytes()).fold(0, |bits, (a, b)| bits | (a ^ b));
    secret.len() == given.len() && std::hint::black_box(differences) == 0
}

/// Parses `2=<64 hex digits>,1=<64 hex digits>`. The server encrypts with the first key, and can decrypt with all keys.
impl FromStr for KeyRing {
    type Err = KeyRingError;

    fn from_str(text: &str) -> Result<Self, KeyRingError> {
        let mut ring: Option<Self> = None;
        for (at, key) in text.split(',').enumerate() {
            let (id, secret) =
                key.trim().split_once('=').and_then(read).ok_or(KeyRingError { at, taken: None })?;
            if ring.iter().flat_map(|ring| &ring.keys).any(|(known, _)| *known == id) {
                return Err(KeyRingError { at, taken: Some(id) });
            }
            ring = Some(match ring {
                None => Self::new(id, secret),
                Some(ring) => ring.with_decryption_key(id, secret),
            });
        }
        ring.ok_or(KeyRingError { at: 0, taken: None })
    }
}

fn read((id, digits): (&str, &str)) -> Option<(u8, [u8; 32])> {
    let mut secret = [0; 32];
    if digits.len() != 2 * secret.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in secret.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some((id.parse().ok()?, secret))
}

/// The error for a text that is not a valid key ring. The error message contains the position of the problem. The error
/// message does not contain the text, because the text contains keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRingError {
    at: usize,
    /// The ID that two keys in the text share, if the problem is a duplicate ID.
    taken: Option<u8>,
}

impl fmt::Display for KeyRingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = self.taken {
            return write!(
                f,
                "the key ring has two keys numbered {id}; change the number of the key at position {}",
                self.at + 1
            );
        }
        write!(
            f,
            "the key at position {} of the key ring is not valid; write `<0 to 255>=<64 hex digits>`, and separate keys with commas",
            self.at + 1
        )
    }
}

impl std::error::Error for KeyRingError {}
