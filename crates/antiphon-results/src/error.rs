use std::{error::Error as StdError, fmt, time::Duration};

/// The result type of the functions and methods that return a [`DualResponseError`].
pub type Result<T, E = DualResponseError> = std::result::Result<T, E>;

/// A boxed error of any type.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// An error code for programs. Rust errors, JSON responses and logs use the same codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// Reading rows from the source failed.
    QueryExecutionFailed,
    /// Counting the rows of the source failed.
    CountExecutionFailed,
    /// The store of result sets failed, or cannot store this kind of source.
    StorageError,
    /// The result set does not exist, or belongs to another caller.
    ResourceNotFound,
    /// The result set has expired.
    ResourceExpired,
    /// The request is malformed, or has invalid values.
    InvalidRequest,
    /// The request has no valid credentials.
    Unauthorized,
    /// The signed link does not allow the requested action.
    Forbidden,
    /// Too many requests are in flight. Retry the request later.
    TooManyRequests,
    /// A request, a response or a result set exceeds a limit.
    LimitExceeded,
    /// The configuration is invalid.
    Configuration,
    /// The tool result is not a dual response.
    ParseError,
    /// An HTTP request failed.
    FetchError,
    /// The operation timed out.
    Timeout,
    /// The options of the client do not allow the requested URL.
    UrlRefused,
    /// The rows are still being written, or a sorted or filtered view of the rows is still being built. Retry the
    /// request later.
    ResourceNotReady,
    /// Not all rows could be saved, or the saved rows can no longer be read.
    SnapshotFailed,
    /// The server rejected the SQL query because it violates a rule, for example that a query must be one statement.
    QueryRefused,
    /// The operation needs a feature or component that this server does not have.
    NotSupported,
    /// An unexpected internal error.
    Internal,
}

impl ErrorCode {
    /// Returns the error code as text, such as `RESOURCE_NOT_FOUND`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueryExecutionFailed => "QUERY_EXECUTION_FAILED",
            Self::CountExecutionFailed => "COUNT_EXECUTION_FAILED",
            Self::StorageError => "STORAGE_ERROR",
            Self::ResourceNotFound => "RESOURCE_NOT_FOUND",
            Self::ResourceExpired => "RESOURCE_EXPIRED",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Forbidden => "FORBIDDEN",
            Self::TooManyRequests => "TOO_MANY_REQUESTS",
            Self::LimitExceeded => "LIMIT_EXCEEDED",
            Self::Configuration => "CONFIGURATION",
            Self::ParseError => "PARSE_ERROR",
            Self::FetchError => "FETCH_ERROR",
            Self::Timeout => "TIMEOUT",
            Self::UrlRefused => "URL_REFUSED",
            Self::ResourceNotReady => "RESOURCE_NOT_READY",
            Self::SnapshotFailed => "SNAPSHOT_FAILED",
            Self::QueryRefused => "QUERY_REFUSED",
            Self::NotSupported => "NOT_SUPPORTED",
            Self::Internal => "INTERNAL_ERROR",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error from creating, reading or changing a result set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DualResponseError {
    /// Reading rows from the source failed.
    #[error("the rows could not be read from the source")]
    Query(#[source] BoxError),
    /// Counting the rows of the source failed.
    #[error("the rows of the source could not be counted")]
    Count(#[source] BoxError),
    /// The store of result sets failed.
    #[error("the result set store failed")]
    Storage(#[source] BoxError),
    /// The source is a closure, but the store is shared. Other processes that share the store cannot call the closure.
    #[error(
        "the source is a closure, and other processes that share the result set store cannot call it; register a named query and use `Source::query`"
    )]
    NotPersistable,
    /// The result set does not exist, or belongs to another caller. The error does not reveal whether the result set
    /// exists.
    #[error("Resource not found or expired")]
    NotFound,
    /// The result set has expired.
    #[error("Resource not found or expired")]
    Expired,
    /// The request is invalid. The `String` describes a valid request.
    #[error("{0}")]
    Invalid(String),
    /// The request has no valid credentials.
    #[error("authentication required: the request has no valid credentials")]
    Unauthorized,
    /// The signed link does not allow the requested action.
    #[error("the signed link does not allow this action; create a link with the required scope")]
    Forbidden,
    /// Too many requests are in flight.
    #[error("too many concurrent requests; retry in {} s", retry_after.as_secs().max(1))]
    Busy {
        /// Recommended time to wait before the request is sent again.
        retry_after: Duration,
    },
    /// A request, a response or a result set exceeds a limit. The `String` contains the limit, and describes how to
    /// stay below the limit.
    #[error("{0}")]
    TooLarge(String),
    /// The source exceeded its timeout.
    #[error("the source of the rows exceeded its timeout of {limit:?}")]
    Timeout {
        /// Time limit that the source exceeded.
        limit: Duration,
    },
    /// The configuration is invalid. The `String` describes how to fix the configuration.
    #[error("{0}")]
    Config(String),
    /// The rows are still being written, or a sorted or filtered view of the rows is still being built.
    #[error("the rows are not ready yet; retry in {} s", retry_after.as_secs().max(1))]
    NotReady {
        /// Recommended time to wait before the request is sent again.
        retry_after: Duration,
    },
    /// Not all rows could be saved. The `String` is a message for users that contains the reason.
    #[error("{0}")]
    Failed(String),
    /// The snapshot could not be read or written.
    #[error("the snapshot could not be read or written")]
    Snapshot(#[source] BoxError),
    /// The server rejected the SQL query because it violates a rule, for example that a query must be one statement.
    #[error("{reason}")]
    Refused {
        /// Name of the violated rule, for programs: for example `one_statement`, `unknown_table` or `memory`.
        rule: &'static str,
        /// Message for users that describes the violated rule, and how to follow the rule.
        reason: String,
    },
    /// The operation needs a feature or component that this server does not have. The `String` names the missing
    /// feature or component.
    #[error("{0}")]
    Unsupported(String),
}

impl DualResponseError {
    /// Returns the error code for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Query(_) => ErrorCode::QueryExecutionFailed,
            Self::Count(_) => ErrorCode::CountExecutionFailed,
            Self::Storage(_) | Self::NotPersistable => ErrorCode::StorageError,
            Self::NotFound => ErrorCode::ResourceNotFound,
            Self::Expired => ErrorCode::ResourceExpired,
            Self::Invalid(_) => ErrorCode::InvalidRequest,
            Self::Unauthorized => ErrorCode::Unauthorized,
            Self::Forbidden => ErrorCode::Forbidden,
            Self::Busy { .. } => ErrorCode::TooManyRequests,
            Self::TooLarge(_) => ErrorCode::LimitExceeded,
            Self::Timeout { .. } => ErrorCode::Timeout,
            Self::Config(_) => ErrorCode::Configuration,
            Self::NotReady { .. } => ErrorCode::ResourceNotReady,
            Self::Failed(_) | Self::Snapshot(_) => ErrorCode::SnapshotFailed,
            Self::Refused { .. } => ErrorCode::QueryRefused,
            Self::Unsupported(_) => ErrorCode::NotSupported,
        }
    }
}
