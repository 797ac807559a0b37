use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, header};
use serde_json::json;

use super::Refusal;

/// The error that the server returns for every invalid token, except for expired tokens. The error for an invalid token
/// is always the same, so an attacker who tries to forge a token learns nothing from the error.
pub(super) const NOT_VALID: Refusal = Refusal::Invalid("the access token is not valid");

/// The error that the server returns for an expired token.
pub(super) const EXPIRED: Refusal = Refusal::Invalid("the access token has expired");

/// The fields that an authentication challenge contains in addition to the error.
#[derive(Clone, Debug, Default)]
pub(super) struct Challenge {
    /// The URL of the resource's metadata (RFC 9728), if the resource has metadata.
    pub(super) metadata: Option<String>,
    /// The scopes that an unauthenticated client must request.
    pub(super) scopes: Vec<String>,
}

impl Challenge {
    /// Returns the HTTP response to a rejected request.
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

    /// Returns the `WWW-Authenticate` header. The parameters of the header have the same order as in the examples of
    /// the specification. Returns `None` if the client cannot solve the problem with other credentials.
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
            _ => return None,
        };
        let is_step_up = matches!(refusal, Refusal::Scope(_));
        if is_step_up {
            say("scope", &scopes.join(" "));
        }
        if let Some(metadata) = &self.metadata {
            say("resource_metadata", metadata);
        }
        if is_step_up {
            say("error_description", "the request needs scopes that were not granted");
        } else if !scopes.is_empty() {
            say("scope", &scopes.join(" "));
        }
        let said = if said.is_empty() { "Bearer".to_owned() } else { format!("Bearer {}", said.join(", ")) };
        // Scopes and URLs were checked when the server was built, so they cannot contain a quotation mark that ends
        // the quoted string.
        HeaderValue::try_from(said).ok()
    }
}
