use std::{error::Error as StdError, fmt, time::Duration};

/// The result type of this crate's server side.
pub type Result<T, E = DualResponseError> = std::result::Result<T, E>;

/// A boxed error of any type.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// An error code for programs: the same in Rust, in JSON and in logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// Reading rows from the source failed.
    QueryExecutionFailed,
    /// Counting the rows of the source failed.
    CountExecutionFailed,
    /// The result store failed, or cannot store this source.
    StorageError,
    /// The result set does not exist, or belongs to another caller.
    ResourceNotFound,
    /// The result set has expired.
    ResourceExpired,
    /// The request is malformed, or has invalid values.
    InvalidRequest,
    /// The request has no valid credentials.
    Unauthorized,
    /// The signed link does not allow this action.
    Forbidden,
    /// Too many requests are in flight. Retry later.
    TooManyRequests,
    /// A limit is exceeded.
    LimitExceeded,
    /// The configuration is invalid.
    Configuration,
    /// The tool result is not a dual response.
    ParseError,
    /// An HTTP request failed.
    FetchError,
    /// The operation timed out.
    Timeout,
    /// The client does not connect to this URL.
    UrlRefused,
    /// The rows are still being written, or a view of them is still being built. Retry later.
    ResourceNotReady,
    /// Not all rows could be saved, or the saved rows can no longer be read.
    SnapshotFailed,
    /// The query violates a rule for queries.
    QueryRefused,
    /// The operation needs a feature or component that this server does not have.
    NotSupported,
    /// An unexpected internal error.
    Internal,
}

impl ErrorCode {
    /// Returns the code as text: `RESOURCE_NOT_FOUND`.
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

/// An error of creating, reading or changing a result set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DualResponseError {
    /// Reading rows from the source failed.
    #[error("the rows could not be read")]
    Query(#[source] BoxError),
    /// Counting the rows of the source failed.
    #[error("the rows could not be counted")]
    Count(#[source] BoxError),
    /// The store failed.
    #[error("the store of result sets failed")]
    Storage(#[source] BoxError),
    /// The store outlives this process, but a closure does not.
    #[error(
        "this store is shared with other processes, which cannot call a closure; register a named query and use `Source::query`"
    )]
    NotPersistable,
    /// The result set does not exist, or belongs to another caller. The error does not say which.
    #[error("Resource not found or expired")]
    NotFound,
    /// The result set has expired.
    #[error("Resource not found or expired")]
    Expired,
    /// The request is invalid. The text describes a valid request.
    #[error("{0}")]
    Invalid(String),
    /// The request has no valid credentials.
    #[error("authentication required: the request has no valid credentials")]
    Unauthorized,
    /// The signed link does not allow this action.
    #[error("this link does not allow it; ask for one that does")]
    Forbidden,
    /// Too many requests are in flight.
    #[error("too many requests at once; try again in {} s", retry_after.as_secs().max(1))]
    Busy {
        /// Recommended wait before a retry.
        retry_after: Duration,
    },
    /// A limit is exceeded. The text contains the limit and advice.
    #[error("{0}")]
    TooLarge(String),
    /// The source exceeded its timeout.
    #[error("the source took longer than {limit:?}")]
    Timeout {
        /// Timeout of the source.
        limit: Duration,
    },
    /// The configuration is invalid. The text contains advice.
    #[error("{0}")]
    Config(String),
    /// The rows are still being written, or a view of them is still being built.
    #[error("not ready yet; ask again in {} s", retry_after.as_secs().max(1))]
    NotReady {
        /// Recommended wait before a retry.
        retry_after: Duration,
    },
    /// Not all rows could be saved. The text contains the reason for people.
    #[error("{0}")]
    Failed(String),
    /// The snapshot could not be read or written.
    #[error("the snapshot could not be read or written")]
    Snapshot(#[source] BoxError),
    /// The query violates a rule for queries.
    #[error("{reason}")]
    Refused {
        /// Name of the rule for programs: `one_statement`, `unknown_table`, `memory`.
        rule: &'static str,
        /// Message for people: the rule and advice.
        reason: String,
    },
    /// The operation needs a missing feature or component. The text contains its name.
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
