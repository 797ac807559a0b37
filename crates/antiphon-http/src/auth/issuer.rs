use std::{sync::Arc, time::Duration};

use jsonwebtoken::{Algorithm, AlgorithmFamily, Validation, decode, decode_header, errors::ErrorKind};
use serde_json::{Map, Value};

use super::{
    Identity, Refusal,
    fetch::is_private,
    introspection::{end_of, seconds},
    jwks::{Keys, Source},
    refusal::{EXPIRED, NOT_VALID},
};

/// An authorization server whose signed tokens (JSON Web Tokens, RFC 9068) are good here.
///
/// Its keys are fetched when the first token comes, kept, and fetched again after [a while](Self::with_refresh) and when
/// a token names a key that is not among them. So it may rotate them whenever it likes.
///
/// A token is good if one of these keys has signed it, with a public-key algorithm; if it names this issuer, and this
/// resource as its audience; and if it has begun and not expired. It must not be bound to a key of the client's (`cnf`),
/// because nobody here would check that.
///
/// ```
/// use antiphon_http::auth::Issuer;
///
/// let issuer = Issuer::new("https://login.example.com").with_audience("api://reports");
/// # let _ = issuer;
/// ```
#[derive(Clone, Debug)]
#[must_use = "an issuer is nobody's until it is given to an `AuthBuilder`"]
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
    /// The authorization server with this identifier, letter by letter as its tokens have it in `iss`. Where its keys are,
    /// its metadata say.
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

    /// Says where its keys are, for an issuer without metadata.
    pub fn with_jwks_url(mut self, url: impl Into<String>) -> Self {
        self.source = Source::At(url.into());
        self
    }

    /// Gives its keys, for a server that reaches nobody. They never change.
    pub fn with_jwks(mut self, jwks: Value) -> Self {
        self.source = Source::Given(jwks);
        self
    }

    /// Takes tokens for this audience, too: for an issuer that does not know resource indicators (RFC 8707) and calls the
    /// resource by another name.
    pub fn with_audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Sets by how much clocks may differ. Default: 1 minute.
    pub fn with_leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// Takes only what says that it is an access token (`typ: at+jwt`), as RFC 9068 wants it. Default: what says nothing of
    /// its type, or `JWT`, will do.
    pub fn with_typed_tokens(mut self, typed: bool) -> Self {
        self.typed = typed;
        self
    }

    /// Sets after how long keys are fetched anew. Default: 10 minutes. A key that the issuer has taken away is good for
    /// that long; while its keys cannot be fetched, for six times as long.
    pub fn with_refresh(mut self, refresh: Duration) -> Self {
        self.refresh = refresh;
        self
    }

    /// Sets how long keys are not fetched again after they were fetched for the sake of a token, or could not be: whoever
    /// sends tokens of their own making does not decide how often. Default: 10 seconds.
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// What is wrong with it.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        let issuer = &self.name;
        let bad = (!is_issuer(issuer)).then(|| {
            format!("`{issuer}` is no issuer: it must be an https address (http on loopback) without query and fragment")
        });
        let keys = match &self.source {
            Source::At(url) if !is_private(url) => {
                Some(format!("the keys of `{issuer}` cannot be fetched from `{url}`: it is not https"))
            }
            Source::Given(set) if !set["keys"].is_array() => {
                Some(format!("the keys of `{issuer}` are no JSON Web Key Set: they have no list `keys`"))
            }
            _ => None,
        };
        bad.into_iter().chain(keys)
    }
}

/// Whether this can name an authorization server, and nothing else: names of people are made with it.
pub(super) fn is_issuer(issuer: &str) -> bool {
    is_private(issuer) && !issuer.contains(['?', '#']) && !issuer.contains(char::is_whitespace)
}

/// Judges the tokens of one issuer.
pub(super) struct Judge {
    issuer: String,
    typed: bool,
    validation: Validation,
    keys: Arc<Keys>,
}

impl Judge {
    /// A judge of tokens for any of `audiences`, beside those that the issuer has by itself.
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

    /// Whose token it is.
    pub(super) async fn judge(&self, token: &str) -> Result<Identity, Refusal> {
        let header = decode_header(token).map_err(|_| NOT_VALID)?;
        // What must be understood (`crit`) is not understood here, and a secret is nobody's signature.
        let is_strange = header.crit.is_some() || header.alg.family() == AlgorithmFamily::Hmac;
        if is_strange || !is_access_token(header.typ.as_deref(), self.typed) {
            return Err(NOT_VALID);
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await?.ok_or(NOT_VALID)?;
        let validation = Validation { algorithms: vec![header.alg], ..self.validation.clone() };
        let decoded = decode::<Map<String, Value>>(token, &key, &validation).map_err(|error| {
            tracing::debug!(issuer = self.issuer, %error, "a token was refused");
            if *error.kind() == ErrorKind::ExpiredSignature { EXPIRED } else { NOT_VALID }
        })?;
        if decoded.claims.contains_key("cnf") {
            tracing::debug!(
                issuer = self.issuer,
                "a token was refused that is bound to a key of the client's"
            );
            return Err(NOT_VALID);
        }
        let ends = decoded.claims.get("exp").and_then(seconds);
        let ends = ends.and_then(|exp| end_of(exp, self.validation.leeway));
        Ok(Identity::of_token(&self.issuer, decoded.claims).ok_or(NOT_VALID)?.with_end(ends))
    }
}

/// The issuer that a token names, whatever that is worth.
pub(super) fn named(token: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        iss: String,
    }
    jsonwebtoken::dangerous::insecure_decode_claims::<Named>(token).ok().map(|named| named.iss)
}

fn is_access_token(typ: Option<&str>, typed: bool) -> bool {
    let Some(typ) = typ else { return !typed };
    // Media types may leave out `application/`, and have no case.
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
