use std::{sync::Arc, time::Duration};

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, Header, Validation, decode, decode_header, errors::ErrorKind,
};
use serde_json::{Map, Value};

use super::{
    Identity, Refusal,
    fetch::is_private,
    introspection::{end_of, seconds},
    jwks::{Keys, Source},
    refusal::{EXPIRED, NOT_VALID},
};

/// The settings for an authorization server whose signed tokens (JSON Web Tokens, RFC 9068) this server accepts.
///
/// The server fetches the issuer's public keys when the first token arrives, and caches these keys. The server fetches
/// the keys again at an [interval](Self::with_refresh). The server also fetches the keys if a token contains the ID of
/// an unknown key. Because of these fetches, the issuer can rotate its keys at any time.
///
/// The server accepts a signed token only if all conditions in this list are true:
///
/// - One of the issuer's keys has signed the token, with a public-key algorithm.
/// - The token names this issuer as its issuer, and this resource as its audience.
/// - The token is already valid and has not expired.
/// - The token is not bound to a key of the client (`cnf`), because the server does not check proof of possession.
///
/// ```
/// use antiphon_http::auth::Issuer;
///
/// let issuer = Issuer::new("https://login.example.com").with_audience("api://reports");
/// # let _ = issuer;
/// ```
#[derive(Clone, Debug)]
#[must_use = "an issuer does nothing until you pass it to an `AuthBuilder`"]
pub struct Issuer {
    pub(super) name: String,
    source: Source,
    audiences: Vec<String>,
    leeway: Duration,
    typed: bool,
    refresh: Duration,
    pause: Duration,
}

impl Issuer {
    /// Creates the settings for an authorization server. `issuer` is the identifier of the authorization server. The
    /// identifier must be exactly equal to the `iss` of the tokens. The metadata of the authorization server contains
    /// the URL of the public keys.
    pub fn new(issuer: impl Into<String>) -> Self {
        let issuer = issuer.into();
        Self {
            source: Source::Discovered(issuer.clone()),
            name: issuer,
            audiences: Vec::new(),
            leeway: Duration::from_secs(60),
            typed: false,
            refresh: Duration::from_secs(10 * 60),
            pause: Duration::from_secs(10),
        }
    }

    /// Sets the URL of the issuer's public keys (JWKS). Use `with_jwks_url` if the issuer does not publish metadata.
    /// Default: the URL in the issuer's metadata.
    pub fn with_jwks_url(mut self, url: impl Into<String>) -> Self {
        self.source = Source::At(url.into());
        self
    }

    /// Sets the issuer's public keys as a JSON Web Key Set. Use `with_jwks` if this server cannot reach the issuer
    /// over the network. The server never replaces the keys that you set. Default: none.
    pub fn with_jwks(mut self, jwks: Value) -> Self {
        self.source = Source::Given(jwks);
        self
    }

    /// Also accepts tokens for the audience `audience`. Use `with_audience` if the tokens of the issuer contain another
    /// name for this resource, because the issuer does not support RFC 8707 (resource indicators).
    pub fn with_audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Sets the maximum difference between the clocks of this server and the issuer. Default: 1 minute.
    pub fn with_leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// Sets whether the server accepts only tokens with the type `at+jwt`, as RFC 9068 requires. Default: no. If
    /// `typed` is false, the server also accepts tokens without a type, or with the type `JWT`.
    pub fn with_typed_tokens(mut self, typed: bool) -> Self {
        self.typed = typed;
        self
    }

    /// Sets after how long the server fetches the issuer's keys again. Default: 10 minutes. If the issuer removes a
    /// key, the server can accept this key until the next fetch. If the server cannot fetch the keys, it accepts the
    /// old keys for up to six times the refresh interval after the last successful fetch.
    pub fn with_refresh(mut self, refresh: Duration) -> Self {
        self.refresh = refresh;
        self
    }

    /// Sets a minimum pause between fetches of the issuer's keys. The server pauses after a failed fetch, and after a
    /// fetch that an unknown key ID caused. Because of the pause, callers with forged tokens cannot cause frequent
    /// fetches. Default: 10 seconds.
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Returns a text for each problem in these issuer settings.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        let issuer = &self.name;
        let bad = (!is_issuer(issuer)).then(|| {
            format!("the issuer URL `{issuer}` is not valid; use an https URL (http on loopback) without query and fragment")
        });
        let keys = match &self.source {
            Source::At(url) if !is_private(url) => Some(format!(
                "the JWKS URL `{url}` of the issuer `{issuer}` is not valid; use an https URL (http on loopback)"
            )),
            Source::Given(set) if !set["keys"].is_array() => Some(format!(
                "the keys of the issuer `{issuer}` are not a JSON Web Key Set: the list `keys` is missing"
            )),
            _ => None,
        };
        bad.into_iter().chain(keys)
    }
}

/// Returns whether `issuer` is a valid identifier of an authorization server. The identifier of an issuer must not
/// contain `#`, because a principal consists of the identifier, `#` and the subject.
pub(super) fn is_issuer(issuer: &str) -> bool {
    is_private(issuer) && !issuer.contains(['?', '#']) && !issuer.contains(char::is_whitespace)
}

/// A validator for the signed tokens of one issuer.
pub(super) struct Judge {
    issuer: String,
    typed: bool,
    validation: Validation,
    keys: Arc<Keys>,
}

impl Judge {
    /// Creates a `Judge`. The `Judge` accepts tokens for the audiences in `audiences` and in the issuer's settings.
    pub(super) fn new(issuer: Issuer, audiences: &[String], http: reqwest::Client) -> Self {
        let Issuer { name: issuer, source, audiences: own, leeway, typed, refresh, pause } = issuer;
        let audiences: Vec<_> = audiences.iter().chain(&own).collect();
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_issuer(&[&issuer]);
        validation.set_audience(&audiences);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.leeway = leeway.as_secs();
        validation.validate_nbf = true;
        Self { keys: Keys::new(source, http, refresh, pause), issuer, typed, validation }
    }

    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the identity of the caller that sent an access token.
    pub(super) async fn judge(&self, token: &str) -> Result<Identity, Refusal> {
        let header = decode_header(token).map_err(|_| NOT_VALID)?;
        if !is_access_token(header.typ.as_deref(), self.typed) {
            return Err(NOT_VALID);
        }
        let claims = self.claims(token, &header).await?;
        if claims.contains_key("cnf") {
            tracing::debug!(
                issuer = self.issuer,
                "a token was rejected: it is bound to a client key (`cnf`), which is not supported"
            );
            return Err(NOT_VALID);
        }
        let ends = claims.get("exp").and_then(seconds);
        let ends = ends.and_then(|exp| end_of(exp, self.validation.leeway));
        Ok(Identity::of_token(&self.issuer, claims).ok_or(NOT_VALID)?.with_end(ends))
    }

    /// Returns the claims of an ID token. An ID token has the type `JWT`, or has no type.
    pub(super) async fn id_claims(&self, token: &str) -> Result<Map<String, Value>, Refusal> {
        let header = decode_header(token).map_err(|_| NOT_VALID)?;
        if header.typ.as_deref().is_some_and(|typ| !typ.eq_ignore_ascii_case("JWT")) {
            return Err(NOT_VALID);
        }
        self.claims(token, &header).await
    }

    /// Returns the claims of a token. The token must be signed by the issuer, must be issued for one of the audiences,
    /// and must not have expired.
    async fn claims(&self, token: &str, header: &Header) -> Result<Map<String, Value>, Refusal> {
        // The server does not support critical extensions (`crit`). The server rejects HMAC, because a shared secret
        // is not a signature of the issuer.
        if header.crit.is_some() || header.alg.family() == AlgorithmFamily::Hmac {
            return Err(NOT_VALID);
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await?.ok_or(NOT_VALID)?;
        let validation = Validation { algorithms: vec![header.alg], ..self.validation.clone() };
        let decoded = decode::<Map<String, Value>>(token, &key, &validation).map_err(|error| {
            tracing::debug!(issuer = self.issuer, %error, "a token was rejected");
            if *error.kind() == ErrorKind::ExpiredSignature { EXPIRED } else { NOT_VALID }
        })?;
        Ok(decoded.claims)
    }
}

/// Returns the issuer that a token names. The function does not validate the token.
pub(super) fn named(token: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        iss: String,
    }
    jsonwebtoken::dangerous::insecure_decode_claims::<Named>(token).ok().map(|named| named.iss)
}

fn is_access_token(typ: Option<&str>, typed: bool) -> bool {
    let Some(typ) = typ else { return !typed };
    // Media types can omit `application/`, and are case-insensitive.
    let is = |name: &str| {
        let bare =
            typ.get(..12).filter(|prefix| prefix.eq_ignore_ascii_case("application/")).map(|_| &typ[12..]);
        bare.unwrap_or(typ).eq_ignore_ascii_case(name)
    };
    is("at+jwt") || (!typed && is("JWT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_media_types_are() {
        for typ in [Some("at+jwt"), Some("AT+JWT"), Some("application/at+jwt")] {
            assert!(is_access_token(typ, true) && is_access_token(typ, false), "{typ:?}");
        }
        for typ in [None, Some("JWT"), Some("jwt")] {
            assert!(!is_access_token(typ, true) && is_access_token(typ, false), "{typ:?}");
        }
        for typ in [Some("logout+jwt"), Some("dpop+jwt"), Some("application/"), Some("ä"), Some("")] {
            assert!(!is_access_token(typ, true) && !is_access_token(typ, false), "{typ:?}");
        }
    }

    #[test]
    fn issuer_is_an_address_that_names_nobody_else() {
        for good in
            ["https://login.example.com", "https://login.example.com/tenant/", "http://127.0.0.1:3000"]
        {
            assert_eq!(Issuer::new(good).problems().count(), 0, "{good}");
        }
        for bad in
            ["", "login.example.com", "http://login.example.com", "https://a#b", "https://a?b", "https://a b"]
        {
            assert_eq!(Issuer::new(bad).problems().count(), 1, "{bad}");
        }
    }
}
