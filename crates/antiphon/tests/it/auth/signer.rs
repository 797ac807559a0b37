//! Keys that tokens are signed with.

use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::KeySize,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RsaKeyPair},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};

/// A key of an authorization server's.
pub(crate) struct Signer {
    id: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Signer {
    /// A key on Ed25519, which costs nothing to make.
    pub(crate) fn new(id: &str) -> Self {
        // PKCS #8, as far as the seed.
        let mut der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
        let mut seed = [0; 32];
        aws_lc_rs::rand::fill(&mut seed).unwrap();
        der.extend(seed);
        Self { id: id.into(), algorithm: Algorithm::EdDSA, key: EncodingKey::from_ed_der(&der) }
    }

    pub(crate) fn ec(id: &str) -> Self {
        let der =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        Self { id: id.into(), algorithm: Algorithm::ES256, key: EncodingKey::from_ec_der(der.as_ref()) }
    }

    pub(crate) fn rsa(id: &str, algorithm: Algorithm) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: Pkcs8V1Der<'static> = pair.as_der().unwrap();
        // What comes after the head of PKCS #8 is the key as PKCS #1 has it.
        Self { id: id.into(), algorithm, key: EncodingKey::from_rsa_der(&der.as_ref()[26..]) }
    }

    /// The public half, as the authorization server shows it.
    pub(crate) fn jwk(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        let mut jwk = serde_json::to_value(jwk).unwrap();
        jwk["kid"] = json!(self.id);
        jwk["use"] = json!("sig");
        jwk
    }

    /// The head of an access token.
    pub(crate) fn header(&self) -> Header {
        let mut header = Header::new(self.algorithm);
        header.typ = Some("at+jwt".into());
        header.kid = Some(self.id.clone());
        header
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(&self.header(), claims)
    }

    pub(crate) fn sign_as(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.key).unwrap()
    }
}

/// A token whose parts are what they are.
pub(crate) fn forged(header: &Value, claims: &Value, signature: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{}", part(header), part(claims), URL_SAFE_NO_PAD.encode(signature))
}
