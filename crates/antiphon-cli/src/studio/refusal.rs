//! Error responses for the web page.

use antiphon_host::Error as HostError;
use axum::{
    Json,
    extract::rejection::JsonRejection,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

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
        Self::new(StatusCode::NOT_FOUND, format!("there is no such {what}, or no more"))
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
            // The causes name transports and types. A hint is more useful to the user.
            Some(HostError::Connect { .. }) => {
                format!(
                    "{error}. Is it running, and is this its address? `antiphon doctor` looks more closely."
                )
            }
            Some(HostError::Unauthorized { .. }) => {
                format!("{error}. Start `antiphon studio` with this server and `--token`.")
            }
            _ => format!("{error:#}"),
        };
        Self::new(StatusCode::BAD_GATEWAY, message)
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}
