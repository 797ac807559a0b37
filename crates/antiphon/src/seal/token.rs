//! Tokens for forms, and the view key. A token is short data that the server encrypts for a client.

use std::time::SystemTime;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{OpenError, SealConfig, TIMES};

/// The maximum length of a token, in bytes.
const MAX_TOKEN: usize = 64 * 1024;

impl SealConfig {
    /// Encrypts short data for a client. Only a call with an equal `binding` can decrypt the data. The binding must
    /// begin with the purpose of the data.
    pub(crate) fn seal_token(&self, plain: &[u8], binding: &[u8]) -> String {
        let mut body = self.times(SystemTime::now());
        body.extend_from_slice(plain);
        URL_SAFE_NO_PAD.encode(self.encrypt(&body, binding))
    }

    /// Decrypts short data, with any key of the key ring. The data contains an expiry time, which the caller of this
    /// method must check.
    pub(crate) fn open_token(&self, token: &str, binding: &[u8]) -> Result<Vec<u8>, OpenError> {
        if token.len() > MAX_TOKEN {
            return Err(OpenError::TooLong);
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| OpenError::Malformed)?;
        Ok(self.decrypt(&bytes, binding)?.split_off(TIMES))
    }

    /// Returns the view key, which is derived from the active encryption key. The view key is a secret that only the
    /// HTML of the form contains.
    pub(crate) fn view_key(&self, audience: &str) -> String {
        self.keys.view_key(audience)
    }

    /// Returns the call key that is derived from the active encryption key. The server uses the call key to compute the
    /// names of calls in the store.
    pub(crate) fn call_key(&self, audience: &str) -> String {
        self.keys.call_key(audience)
    }

    /// Returns `true` if `given` is a view key that the server derived from one of the keys in the key ring.
    pub(crate) fn is_view_key(&self, given: &str, audience: &str) -> bool {
        self.keys.is_view_key(given, audience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::KeyRing;

    #[test]
    fn token_opens_only_with_its_binding() {
        let seal = SealConfig::default();
        let token = seal.seal_token(b"x", b"one purpose");
        assert_eq!(seal.open_token(&token, b"one purpose").unwrap(), b"x");
        assert_eq!(seal.open_token(&token, b"another").unwrap_err(), OpenError::Forged);
    }

    #[test]
    fn view_key_is_accepted_from_every_key_of_the_ring_and_for_one_audience() {
        let old = SealConfig::default().with_keys(KeyRing::new(1, [1; 32]));
        let rotated =
            SealConfig::default().with_keys(KeyRing::new(2, [2; 32]).with_decryption_key(1, [1; 32]));
        let foreign = SealConfig::default();
        let key = old.view_key("shop");
        assert_eq!(key.len(), 32);
        assert!(key.bytes().all(|digit| digit.is_ascii_hexdigit()));
        assert_ne!(key, rotated.view_key("shop"), "the active key makes it");
        assert!(rotated.is_view_key(&key, "shop") && rotated.is_view_key(&rotated.view_key("shop"), "shop"));
        assert!(!rotated.is_view_key(&key, "bank") && !foreign.is_view_key(&key, "shop"));
        let (longer, upper) = (format!("{key}0"), key.to_uppercase());
        for wrong in ["", "__VIEW_KEY__", &key[..31], &longer, &upper] {
            assert!(!old.is_view_key(wrong, "shop"), "{wrong}");
        }
    }

    #[test]
    fn call_key_depends_on_the_key_and_the_audience_and_is_no_view_key() {
        let of = |secret| SealConfig::default().with_keys(KeyRing::new(1, [secret; 32]));
        let (one, two) = (of(1), of(2));
        assert_eq!(one.call_key("shop"), of(1).call_key("shop"));
        for other in [two.call_key("shop"), one.call_key("bank"), one.view_key("shop")] {
            assert_ne!(one.call_key("shop"), other);
        }
        assert!(!one.is_view_key(&one.call_key("shop"), "shop"));
    }
}
