//! The authenticated caller of a request, and the reasons to reject a request.
//!
//! A middleware such as `Auth` of `antiphon-http` adds an [`Identity`] to the extensions of a request. Transports and
//! tools read the identity from the extensions.

use std::{collections::BTreeSet, fmt, sync::Arc, time::SystemTime};

use http::StatusCode;
use serde_json::{Map, Value};

/// The authenticated caller of a request, with the caller's scopes.
///
/// The authentication layer adds the identity to the extensions of the request. A tool reads the identity with
/// `Ctx::identity`. A clone of an `Identity` is a handle to the same identity.
#[derive(Clone, PartialEq)]
pub struct Identity(Arc<Known>);

#[derive(Clone, PartialEq)]
struct Known {
    principal: String,
    scopes: BTreeSet<String>,
    issuer: Option<String>,
    subject: Option<String>,
    client: Option<String>,
    claims: Map<String, Value>,
    ends: Option<SystemTime>,
}

impl Identity {
    /// Creates an identity without scopes. Use `Identity::new` if you write an authentication middleware.
    pub fn new(principal: impl Into<String>) -> Self {
        Self(Arc::new(Known {
            principal: principal.into(),
            scopes: BTreeSet::new(),
            issuer: None,
            subject: None,
            client: None,
            claims: Map::new(),
            ends: None,
        }))
    }

    /// Creates an identity from the claims of a token. Returns `None` if the claims name no caller.
    ///
    /// The principal is `<issuer>#<subject>`. An issuer contains no `#` (RFC 8414), so tokens of two issuers never
    /// have the same principal. The principal of a token is also never equal to the principal of an API key or a
    /// certificate. If the token has no subject, the client acts for itself, and the principal is
    /// `<issuer>?client_id#<client>`. An issuer contains no `?`, so no user can have the principal of a client.
    pub fn of_token(issuer: &str, claims: Map<String, Value>) -> Option<Self> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let client = text("client_id").or_else(|| text("azp"));
        let is_client = claims.get("sub").is_none_or(Value::is_null);
        let subject = if is_client { client.clone() } else { text("sub") };
        let subject = subject.filter(|subject| !subject.is_empty())?;
        let principal =
            if is_client { format!("{issuer}?client_id#{subject}") } else { format!("{issuer}#{subject}") };
        Some(Self(Arc::new(Known {
            principal,
            scopes: granted(&claims),
            issuer: Some(issuer.to_owned()),
            subject: Some(subject),
            client,
            claims,
            ends: None,
        })))
    }

    /// Sets the time at which the credentials of the caller expire. When the credentials expire, the server closes
    /// every WebSocket and every event stream that was opened with these credentials. Default: never.
    #[must_use]
    pub fn with_end(mut self, ends: impl Into<Option<SystemTime>>) -> Self {
        Arc::make_mut(&mut self.0).ends = ends.into();
        self
    }

    /// Sets the OAuth scopes of the caller. Default: none.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Arc::make_mut(&mut self.0).scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the principal: the name of the caller in this server.
    #[must_use]
    pub fn with_principal(mut self, principal: String) -> Self {
        Arc::make_mut(&mut self.0).principal = principal;
        self
    }

    /// Returns the principal: the name of the caller in this server. Sealed states, sessions, tasks and result sets
    /// belong to a principal.
    pub fn principal(&self) -> &str {
        &self.0.principal
    }

    /// Returns the OAuth scopes of the caller.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.0.scopes.iter().map(String::as_str)
    }

    /// Returns whether the caller has the OAuth scope `scope`.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.0.scopes.contains(scope)
    }

    /// Returns the authorization server that issued the caller's token, if the caller has a token.
    pub fn issuer(&self) -> Option<&str> {
        self.0.issuer.as_deref()
    }

    /// Returns the caller's name at the authorization server, if the token contains this name.
    pub fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    /// Returns the ID of the caller's client at the authorization server, if the token contains this ID.
    pub fn client(&self) -> Option<&str> {
        self.0.client.as_deref()
    }

    /// Returns the time at which the caller's credentials expire, including the tolerance for clock differences. After
    /// the credentials have expired, the server rejects requests with these credentials. Returns `None` if the
    /// credentials never expire.
    pub fn ends(&self) -> Option<SystemTime> {
        self.0.ends
    }

    /// Returns whether the credentials of the caller have expired.
    pub fn is_over(&self) -> bool {
        self.0.ends.is_some_and(|ends| ends <= SystemTime::now())
    }

    /// Returns whether `self` and `other` have the same principal and the same scopes.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.principal == other.0.principal && self.0.scopes == other.0.scopes
    }

    /// Returns the claim `name` of the caller's token, or the field `name` of the introspection result.
    pub fn claim(&self, name: &str) -> Option<&Value> {
        self.0.claims.get(name)
    }
}

/// The `Debug` output omits the claims, because claims contain personal data.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("principal", &self.0.principal)
            .field("scopes", &self.0.scopes)
            .finish_non_exhaustive()
    }
}

/// Reads the scopes of a token from the claims `scope` (RFC 9068, RFC 7662) and `scp`. Each claim can be a text with
/// several words, or a list.
fn granted(claims: &Map<String, Value>) -> BTreeSet<String> {
    let mut scopes = BTreeSet::new();
    for claim in ["scope", "scp"].iter().filter_map(|name| claims.get(*name)) {
        match claim {
            Value::String(words) => scopes.extend(words.split_ascii_whitespace().map(ToOwned::to_owned)),
            Value::Array(list) => scopes.extend(list.iter().filter_map(Value::as_str).map(ToOwned::to_owned)),
            _ => {}
        }
    }
    scopes
}

/// Returns the reason why a scope is invalid, or `None` if the scope is valid.
pub fn scope_problem(scope: &str) -> Option<String> {
    // The characters that RFC 6749, section 3.3, allows in a scope.
    let is_token = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    if scope.is_empty() || !scope.bytes().all(is_token) {
        return Some(format!(
            "`{scope}` is not a valid scope: a scope is one word, without quotes and backslashes"
        ));
    }
    (scope == "offline_access").then(|| {
        "a server must not require the scope `offline_access`, which is only for clients and authorization servers; remove it".into()
    })
}

/// The reason why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The request has no credentials. The HTTP status of the response is 401.
    Missing,
    /// The credentials of the request cannot be parsed. The `str` is the reason. The HTTP status of the response is
    /// 400.
    Malformed(&'static str),
    /// The credentials of the request are not valid. The `str` is the reason. The HTTP status of the response is 401,
    /// and the OAuth error is `invalid_token`.
    Invalid(&'static str),
    /// The caller lacks a scope. The list contains all scopes that the request needs. The HTTP status of the response
    /// is 403, and the OAuth error is `insufficient_scope`.
    Scope(Vec<String>),
    /// The credentials cannot be checked now, for example because the authorization server is not reachable. The HTTP
    /// status of the response is 503.
    Unavailable,
}

impl Refusal {
    /// Returns the HTTP status of the response to the rejected request.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Missing | Self::Invalid(_) => StatusCode::UNAUTHORIZED,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Scope(_) => StatusCode::FORBIDDEN,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the OAuth error code of the response to the rejected request.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "unauthorized",
            Self::Malformed(_) => "invalid_request",
            Self::Invalid(_) => "invalid_token",
            Self::Scope(_) => "insufficient_scope",
            Self::Unavailable => "temporarily_unavailable",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("authentication required: the request has no credentials"),
            Self::Malformed(why) | Self::Invalid(why) => f.write_str(why),
            Self::Scope(needs) => {
                write!(f, "the request needs scopes that were not granted: {}", needs.join(" "))
            }
            Self::Unavailable => f.write_str("credentials cannot be checked right now; try again later"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(claims: Value) -> Option<Identity> {
        let Value::Object(claims) = claims else { panic!("claims are an object") };
        Identity::of_token("https://login.example", claims)
    }

    #[test]
    fn scopes_are_read_as_words_and_as_lists() {
        let read = |claims| of(claims).unwrap().scopes().map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(read(json!({"sub": "ada", "scope": "b  a"})), ["a", "b"]);
        assert_eq!(read(json!({"sub": "ada", "scp": ["c", 1], "scope": "a"})), ["a", "c"]);
        assert_eq!(read(json!({"sub": "ada", "scope": 7})), [""; 0]);
    }

    #[test]
    fn client_cannot_have_the_name_of_a_user() {
        let client = of(json!({"client_id": "ci"})).unwrap();
        assert_eq!(client.principal(), "https://login.example?client_id#ci");
        assert_eq!((client.subject(), client.client()), (Some("ci"), Some("ci")));
        for subject in ["ci", "?client_id#ci", "#ci"] {
            assert_ne!(of(json!({"sub": subject})).unwrap().principal(), client.principal());
        }
    }

    #[test]
    fn token_about_nobody_is_nobodys() {
        assert_eq!(of(json!({"scope": "a"})), None);
        assert_eq!(of(json!({"sub": ""})), None);
        assert_eq!(of(json!({"sub": 7, "client_id": "ci"})), None);
        let ada = of(json!({"sub": "ada", "client_id": "cli", "email": "ada@example.com"})).unwrap();
        assert_eq!((ada.principal(), ada.client()), ("https://login.example#ada", Some("cli")));
        assert!(!format!("{ada:?}").contains("ada@example.com"), "{ada:?}");
    }
}
