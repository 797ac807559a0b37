//! Error responses for clients, and the log of internal errors.

use std::{borrow::Cow, error::Error as StdError};

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use super::json;
use crate::{
    error::{DualResponseError, ErrorCode},
    page::ErrorBody,
};

/// An error response. An error response contains only text for the client. Internal details of the error are logged
/// when the error response is created.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    /// Kind of error in one word, such as `not_found`.
    error: &'static str,
    message: Cow<'static, str>,
    code: ErrorCode,
    retry_after: Option<u64>,
    /// Rule that the SQL query violates.
    rule: Option<&'static str>,
    /// Size of the whole file in bytes, if the requested range does not exist.
    total: Option<u64>,
}

/// Maximum length of a message in characters. The length is limited, because a message can quote a part of the
/// request.
const MAX_MESSAGE: usize = 300;

impl ApiError {
    pub(super) fn new(
        status: StatusCode,
        error: &'static str,
        code: ErrorCode,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.to_mut().truncate(end);
        }
        Self { status, error, message, code, retry_after: None, rule: None, total: None }
    }

    /// Creates the error for an invalid request.
    pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", ErrorCode::InvalidRequest, message)
    }

    pub(super) fn not_found() -> Self {
        DualResponseError::NotFound.into()
    }

    pub(super) fn not_acceptable() -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            "not_acceptable",
            ErrorCode::InvalidRequest,
            "the Accept header is not supported; use application/json, application/x-ndjson, application/jsonl or text/csv",
        )
    }

    pub(super) fn media_type() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            ErrorCode::InvalidRequest,
            "the request body must be application/json, in UTF-8 and not compressed",
        )
    }

    pub(super) fn body_too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            ErrorCode::LimitExceeded,
            format!("the request body is larger than the limit of {limit} bytes"),
        )
    }

    pub(super) fn body_too_slow() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            ErrorCode::Timeout,
            "the request body did not arrive in time",
        )
    }

    pub(super) fn query_too_long(limit: usize) -> Self {
        Self::new(
            StatusCode::URI_TOO_LONG,
            "uri_too_long",
            ErrorCode::LimitExceeded,
            format!("the query string is longer than the limit of {limit} bytes"),
        )
    }

    /// Creates the error for a range that does not exist.
    pub(super) fn no_such_range(total: Option<u64>) -> Self {
        let error = Self::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "range_not_satisfiable",
            ErrorCode::InvalidRequest,
            "the Range header starts after the end of the content",
        );
        Self { total, ..error }
    }

    /// Creates the error for a server that does not sign links. A server can run without link keys, so this error is
    /// not logged as an internal failure.
    pub(super) fn no_links() -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "not_implemented",
            ErrorCode::Configuration,
            "signed links are not configured on this server",
        )
    }

    /// Creates the error response for an unexpected failure of the server.
    pub(super) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            ErrorCode::Internal,
            "internal error; the server's log contains the reason",
        )
    }
}

impl From<DualResponseError> for ApiError {
    fn from(error: DualResponseError) -> Self {
        let code = error.code();
        let said = error.to_string();
        let (status, kind, message): (_, _, Cow<'static, str>) = match &error {
            DualResponseError::NotFound | DualResponseError::Expired => {
                (StatusCode::NOT_FOUND, "not_found", said.into())
            }
            DualResponseError::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid_request", said.into()),
            DualResponseError::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized", said.into()),
            DualResponseError::Forbidden => (StatusCode::FORBIDDEN, "forbidden", said.into()),
            DualResponseError::Busy { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_requests", said.into())
            }
            DualResponseError::TooLarge(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "limit_exceeded", said.into())
            }
            // The texts of the following errors contain internal details, so the response contains a general text
            // instead.
            DualResponseError::Timeout { .. } => {
                (StatusCode::GATEWAY_TIMEOUT, "timeout", "the source of the rows timed out".into())
            }
            DualResponseError::Query(_) | DualResponseError::Count(_) => {
                (StatusCode::BAD_GATEWAY, "query_failed", "the rows could not be read".into())
            }
            DualResponseError::Storage(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "storage_failed",
                "the result set store is not available".into(),
            ),
            DualResponseError::NotPersistable | DualResponseError::Config(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal_error",
                "the server's configuration does not allow this request; the server's log contains the reason".into(),
            ),
            DualResponseError::Snapshot(_) => {
                (StatusCode::BAD_GATEWAY, "snapshot_failed", "the saved rows could not be read".into())
            }
            DualResponseError::NotReady { .. } => (StatusCode::ACCEPTED, "not_ready", said.into()),
            DualResponseError::Failed(_) => (StatusCode::BAD_GATEWAY, "snapshot_failed", said.into()),
            DualResponseError::Refused { .. } => (StatusCode::BAD_REQUEST, "query_refused", said.into()),
            // The result set exists, but its kind does not support this operation.
            DualResponseError::Unsupported(_) => (StatusCode::CONFLICT, "not_supported", said.into()),
        };
        if status.is_server_error() {
            tracing::error!(%status, code = code.as_str(), error = chain(&error), "a request for a result set failed");
        }
        let retry_after = match error {
            DualResponseError::Busy { retry_after } | DualResponseError::NotReady { retry_after } => {
                Some(retry_after.as_secs().max(1))
            }
            _ => None,
        };
        let rule = match error {
            DualResponseError::Refused { rule, .. } => Some(rule),
            _ => None,
        };
        Self { retry_after, rule, ..Self::new(status, kind, code, message) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: self.error.to_owned(),
            message: self.message.into_owned(),
            code: Some(self.code.as_str().to_owned()),
            rule: self.rule.map(str::to_owned),
        };
        // Serializing text does not fail.
        let mut response = json(serde_json::to_string(&body).unwrap_or_default());
        *response.status_mut() = self.status;
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::RANGE_NOT_SATISFIABLE
            && let Some(total) = self.total
            && let Ok(range) = HeaderValue::try_from(format!("bytes */{total}"))
        {
            response.headers_mut().insert(header::CONTENT_RANGE, range);
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Returns the error for a method that the route does not support. Axum adds the header `Allow` with the supported
/// methods.
pub(super) async fn method_not_allowed() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        ErrorCode::InvalidRequest,
        "this route does not support the HTTP method; the Allow header lists the supported methods",
    )
}

/// Returns the error for an unknown path.
pub(super) async fn no_such_route() -> ApiError {
    ApiError::not_found()
}

/// Returns the text of an error and its causes, for the log.
pub(super) fn chain(error: &dyn StdError) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
