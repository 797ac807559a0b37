use std::fmt;

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// Why a request is turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It shows nothing of who is calling. Answered with `401`.
    Missing,
    /// What it shows cannot be read, and why. Answered with `400`.
    Malformed(&'static str),
    /// What it shows is not good, and what may be said of that. Answered with `401` and `invalid_token`.
    Invalid(&'static str),
    /// Whoever is calling may not do this; all the scopes that it needs. Answered with `403` and `insufficient_scope`.
    Scope(Vec<String>),
    /// Nobody can tell right now. Answered with `503`.
    Unavailable,
}

/// Said of every token with which something is wrong but its age: whoever tries to forge one learns nothing.
pub(super) const NOT_VALID: Refusal = Refusal::Invalid("the access token is not valid");

/// Said of a token that was good once.
pub(super) const EXPIRED: Refusal = Refusal::Invalid("the access token has expired");

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Missing | Self::Invalid(_) => StatusCode::UNAUTHORIZED,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Scope(_) => StatusCode::FORBIDDEN,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Its name among the errors of OAuth.
    pub(crate) fn code(&self) -> &'static str {
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
            Self::Missing => f.write_str("show who you are: the request has no credentials"),
            Self::Malformed(why) | Self::Invalid(why) => f.write_str(why),
            Self::Scope(needs) => write!(f, "this needs more than was granted: {}", needs.join(" ")),
            Self::Unavailable => f.write_str("credentials cannot be checked right now; try again later"),
        }
    }
}

impl std::error::Error for Refusal {}

/// What a challenge says beside the error.
#[derive(Clone, Debug, Default)]
pub(super) struct Challenge {
    /// Where the resource's metadata are (RFC 9728), if it has any.
    pub(super) metadata: Option<String>,
    /// The scopes that whoever has none is to ask for.
    pub(super) scopes: Vec<String>,
}

impl Challenge {
    /// The answer to a request that is turned away.
    pub(super) fn respond(&self, refusal: &Refusal) -> Response {
        let body = json!({"error": refusal.code(), "error_description": refusal.to_string()});
        let no_store = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
        let mut response = (refusal.status(), no_store, Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(challenge) = self.header(refusal) {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if *refusal == Refusal::Unavailable {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }

    /// `WWW-Authenticate`, in the order of the specification's examples. `None` for what no credential would change.
    fn header(&self, refusal: &Refusal) -> Option<HeaderValue> {
        let mut said = Vec::new();
        let mut say = |name: &str, value: &str| said.push(format!("{name}=\"{value}\""));
        let scopes = match refusal {
            Refusal::Missing => &self.scopes,
            Refusal::Invalid(_) | Refusal::Malformed(_) => {
                say("error", refusal.code());
                say("error_description", &refusal.to_string());
                &self.scopes
            }
            Refusal::Scope(needs) => {
                say("error", refusal.code());
                needs
            }
            Refusal::Unavailable => return None,
        };
        let is_step_up = matches!(refusal, Refusal::Scope(_));
        if is_step_up {
            say("scope", &scopes.join(" "));
        }
        if let Some(metadata) = &self.metadata {
            say("resource_metadata", metadata);
        }
        if is_step_up {
            say("error_description", "this needs more than was granted");
        } else if !scopes.is_empty() {
            say("scope", &scopes.join(" "));
        }
        let said = if said.is_empty() { "Bearer".to_owned() } else { format!("Bearer {}", said.join(", ")) };
        // Scopes and addresses were checked when the server was built: nothing in them ends a quoted string.
        HeaderValue::try_from(said).ok()
    }
}
