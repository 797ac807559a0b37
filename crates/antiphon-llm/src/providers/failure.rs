//! Converts errors of providers, and removes the API key from these errors.

use std::time::Duration;

use rig_core::{ProviderError, ProviderResponseError};
use serde_json::Value;

use crate::error::Error;

/// The maximum length of a provider's message, in characters.
const LONGEST: usize = 600;

/// An error of a provider, and the time to wait before a retry.
#[derive(Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) error: Error,
    /// The time that the provider asks the client to wait.
    pub(super) retry_after: Option<Duration>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, retry_after: None }
    }
}

impl Failure {
    /// Converts `error` for the caller of `model`. The converted error never contains `secret`.
    pub(super) fn new(error: &ProviderError, model: &str, secret: &str) -> Self {
        let retry_after = error.provider_response().and_then(retry_after);
        Self { error: failure(error, model, secret), retry_after }
    }
}

fn failure(error: &ProviderError, model: &str, secret: &str) -> Error {
    let clean = |text: String| scrub(&text, secret);
    match error {
        ProviderError::Http(error) => Error::Unavailable(clean(chain(error.as_ref()))),
        ProviderError::Truncated => Error::Unavailable("the reply is incomplete".into()),
        ProviderError::Provider(message) => Error::Unavailable(clean(message.clone())),
        ProviderError::Json(error) => Error::Malformed(clean(error.to_string())),
        ProviderError::Response(message) => Error::Malformed(clean(message.clone())),
        ProviderError::Request(error) => unsupported(model, clean(error.to_string())),
        ProviderError::UnsupportedOption(option) => {
            unsupported(model, clean(format!("`{}`: {}", option.option, option.reason)))
        }
        other => match other.provider_response() {
            Some(response) => refused(response, secret),
            None if other.is_retryable() => Error::Unavailable(clean(other.to_string())),
            None => Error::Malformed(clean(other.to_string())),
        },
    }
}

fn unsupported(model: &str, what: String) -> Error {
    Error::Unsupported { model: model.into(), what }
}

/// Converts an error response of a provider.
fn refused(response: &ProviderResponseError, secret: &str) -> Error {
    let message = scrub(&message(&response.body), secret);
    let status = response.status.map_or(0, |status| status.as_u16());
    match status {
        401 | 403 => Error::Unauthorized { status },
        // If the account has no credit, a retry would fail too.
        429 if response.machine_code().as_deref() == Some("insufficient_quota") => {
            Error::Rejected { status, message }
        }
        429 => Error::RateLimited { message, retry_after: retry_after(response) },
        408 | 425 | 500.. => Error::Unavailable(format!("{status}: {message}")),
        300.. => Error::Rejected { status, message },
        _ if response.is_retryable() => Error::Unavailable(message),
        _ => Error::Malformed(message),
    }
}

/// Returns the time that the provider asks the client to wait. If the provider sends a date, this function returns
/// `None`, and the normal backoff applies.
fn retry_after(response: &ProviderResponseError) -> Option<Duration> {
    let headers = response.headers.as_ref()?;
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Returns the message in the JSON of the provider, shortened to `LONGEST` characters.
fn message(body: &str) -> String {
    let said = serde_json::from_str::<Value>(body).ok().and_then(|body| {
        let places = ["/error/message", "/message", "/error", "/detail", "/0/error/message"];
        places.iter().find_map(|place| body.pointer(place)?.as_str().map(str::to_owned))
    });
    let said = said.unwrap_or_else(|| body.trim().to_owned());
    match said.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &said[..end]),
        None if said.is_empty() => "the provider gave no reason".into(),
        None => said,
    }
}

/// Returns the causes of an error, down to the error of the socket. The function omits the top-level message, because
/// this message contains the URL. For some providers, the URL contains the API key.
fn chain(error: &rig_core::http_client::Error) -> String {
    use rig_core::http_client::Error as Http;
    let Http::Instance(instance) = error else { return error.to_string() };
    let mut parts = Vec::new();
    let mut cause = instance.source();
    while let Some(error) = cause {
        parts.push(error.to_string());
        cause = error.source();
    }
    if parts.is_empty() {
        parts.push(instance.to_string());
    }
    parts.dedup();
    parts.join(": ")
}

fn scrub(text: &str, secret: &str) -> String {
    if secret.is_empty() { text.to_owned() } else { text.replace(secret, "[key]") }
}

#[cfg(test)]
mod tests {
    use rig_core::http_client::{HeaderMap, StatusCode};

    use super::*;

    fn answered(status: u16, body: &str) -> Error {
        let status = StatusCode::from_u16(status).unwrap();
        failure(&ProviderError::from_http_response(status, body), "m", "sk-1")
    }

    #[test]
    fn a_status_says_what_a_caller_can_do() {
        assert_eq!(answered(401, "no"), Error::Unauthorized { status: 401 });
        assert_eq!(answered(529, "busy"), Error::Unavailable("529: busy".into()));
        let body = r#"{"error": {"message": "no such model"}}"#;
        assert_eq!(answered(404, body), Error::Rejected { status: 404, message: "no such model".into() });
        assert!(!answered(429, r#"{"error": {"code": "insufficient_quota"}}"#).is_retryable());
        assert!(answered(429, "{}").is_retryable());
    }

    #[test]
    fn the_wait_is_read_in_seconds_and_milliseconds() {
        for (name, value, wait) in [("retry-after", "2", 2000), ("retry-after-ms", "250", 250)] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            let response =
                ProviderResponseError::new(StatusCode::TOO_MANY_REQUESTS, "").with_headers(Some(headers));
            assert_eq!(retry_after(&response), Some(Duration::from_millis(wait)));
        }
    }

    #[test]
    fn a_key_in_the_provider_s_words_is_not_passed_on() {
        let error = answered(400, r#"{"error": {"message": "sk-1 is not for this"}}"#);
        assert_eq!(error.to_string(), "the provider refused the request (400): [key] is not for this");
    }
}
