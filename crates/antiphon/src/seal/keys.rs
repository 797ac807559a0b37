use std::{fmt, str::FromStr};

use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use sha2::{Digest as _, Sha256};

/// The secrets that protect suspended runs.
///
/// All replicas share one ring. The active key encrypts; every key in the ring decrypts. Rotate in three steps, so that
/// no run is lost:
///
/// 1. Give every replica the new key as a spare ([`with_decryption_key`](Self::with_decryption_key)).
/// 2. Make the new key active on every replica, with the old one as a spare.
/// 3. Remove the old key when nothing is encrypted with it any more: after [`SealConfig::with_ttl`](crate::seal::SealConfig::with_ttl),
///    and, if the server has tasks, after twice [`TaskConfig::with_audit_interval`](crate::task::TaskConfig::with_audit_interval) as well.
///    The audit encrypts the records of sleeping runs anew.
///
/// ```
/// use antiphon::seal::KeyRing;
///
/// let ring = KeyRing::new(2, [7; 32]).with_decryption_key(1, [3; 32]);
/// // The same, as it stands in an environment variable: the first seals, all of them open.
/// let ring: KeyRing = format!("2={},1={}", "07".repeat(32), "03".repeat(32)).parse()?;
/// # let _ = ring;
/// # Ok::<(), antiphon::seal::KeyRingError>(())
/// ```
#[derive(Clone)]
pub struct KeyRing {
    /// Invariant: never empty; the first key is the active one.
    keys: Vec<(u8, [u8; 32])>,
    /// Whether nobody else can have the key.
    random: bool,
}

impl KeyRing {
    /// A ring whose active key is `secret`, known to its replicas as number `id`.
    pub fn new(id: u8, secret: [u8; 32]) -> Self {
        Self { keys: vec![(id, derive(&secret))], random: false }
    }

    /// A ring with a random key: good for one process, for as long as it lives.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the operating system has random numbers");
        Self { random: true, ..Self::new(0, secret) }
    }

    /// Whether the active key is [random](Self::random), so that no other process has it.
    pub(crate) fn is_random(&self) -> bool {
        self.random
    }

    /// A number that two keys of the ring share: the second would never be used.
    pub(crate) fn duplicate(&self) -> Option<u8> {
        let mut ids: Vec<u8> = self.keys.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    /// What tells keys apart without telling what they are, the active one first.
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

    /// Adds a key that opens seals but makes none.
    #[must_use]
    pub fn with_decryption_key(mut self, id: u8, secret: [u8; 32]) -> Self {
        self.keys.push((id, derive(&secret)));
        self
    }

    /// Keys for signing links to result sets, made from these: what one signs, the other does not open.
    #[cfg(feature = "results")]
    pub fn link_keys(&self) -> antiphon_results::LinkKeys {
        let (id, key) = self.keys[0];
        let keys = antiphon_results::LinkKeys::new(id, key);
        self.keys[1..].iter().fold(keys, |keys, (id, key)| keys.with_decryption_key(*id, *key))
    }

    pub(super) fn active_id(&self) -> u8 {
        self.keys[0].0
    }

    /// The key that seals, and its number.
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

/// A secret may serve elsewhere too; what it does here must not be valid there.
fn derive(secret: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"antiphon requestState v1\0");
    hash.update(secret);
    hash.finalize().into()
}

/// `2=<64 hex digits>,1=<64 hex digits>`: the first key seals, all of them open.
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

/// A text that is no key ring. It says where it is wrong and not what was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRingError {
    at: usize,
    /// The number that another key has, too.
    taken: Option<u8>,
}

impl fmt::Display for KeyRingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = self.taken {
            return write!(
                f,
                "the key ring has two keys numbered {id}; give key number {} another number",
                self.at + 1
            );
        }
        write!(
            f,
            "key number {} of the ring is none; write `<0 to 255>=<64 hex digits>`, several with commas between",
            self.at + 1
        )
    }
}

impl std::error::Error for KeyRingError {}
