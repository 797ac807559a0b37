//! HTTP error responses that the web page shows.

use antiphon_host::Error as HostError;
use axum::{
    Json,
    extract::rejection::JsonRejection,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::exit;

/// An error response with a message for the user.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn unknown(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("the {what} does not exist, or has ended"))
    }

    pub(super) fn busy(message: &str) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.message}))).into_response()
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        let message = match error.downcast_ref::<HostError>() {
            Some(failed @ HostError::Connect { .. }) => match exit::hint(failed) {
                Some(hint) => format!("{}. Hint: {hint}.", exit::told(&error)),
                None => exit::told(&error),
            },
            Some(HostError::Unauthorized { .. }) => {
                format!("{error}. Start `antiphon studio` with this server and `--token`.")
            }
            _ => exit::told(&error),
        };
        Self::new(StatusCode::BAD_GATEWAY, message)
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}
