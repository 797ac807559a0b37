use std::{error::Error as StdError, fmt, time::Duration};

/// What this crate's server side returns.
pub type Result<T, E = DualResponseError> = std::result::Result<T, E>;

/// Any error, whatever its type.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// What went wrong, for programs: the same words in Rust, in JSON and in logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The source could not be asked for rows.
    QueryExecutionFailed,
    /// The source could not be asked how many rows there are.
    CountExecutionFailed,
    /// The store failed, or cannot keep this.
    StorageError,
    /// There is no such result set, or it is not the caller's.
    ResourceNotFound,
    /// The result set has expired.
    ResourceExpired,
    /// The request is not well formed.
    InvalidRequest,
    /// Nobody knows who is calling.
    Unauthorized,
    /// The link does not allow this.
    Forbidden,
    /// Too much at once: later it will do.
    TooManyRequests,
    /// More than a limit allows.
    LimitExceeded,
    /// It cannot work as it is set up.
    Configuration,
    /// What a tool returned is no dual response.
    ParseError,
    /// An HTTP request failed.
    FetchError,
    /// It took too long.
    Timeout,
    /// The address is one that is not gone to.
    UrlRefused,
    /// The rows are still coming in, or are being put in order: later it will do.
    ResourceNotReady,
    /// The rows could not all be saved, or can no longer be read.
    SnapshotFailed,
    /// The query does what queries here may not.
    QueryRefused,
    /// It needs something that this server was not built or set up with.
    NotSupported,
    /// Something broke that should not.
    Internal,
}

impl ErrorCode {
    /// The code as it is written: `RESOURCE_NOT_FOUND`.
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

/// Why a result set could not be made, read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DualResponseError {
    /// The source could not be asked for rows.
    #[error("the rows could not be read")]
    Query(#[source] BoxError),
    /// The source could not be asked how many rows there are.
    #[error("the rows could not be counted")]
    Count(#[source] BoxError),
    /// The store failed.
    #[error("the store of result sets failed")]
    Storage(#[source] BoxError),
    /// The store outlives the process, and a closure does not.
    #[error(
        "this store is shared with other processes, which cannot call a closure; register a named query and use `Source::query`"
    )]
    NotPersistable,
    /// There is no such result set, or it is not the caller's: nobody is told which.
    #[error("Resource not found or expired")]
    NotFound,
    /// The result set has expired.
    #[error("Resource not found or expired")]
    Expired,
    /// What was asked for makes no sense; the text says what would.
    #[error("{0}")]
    Invalid(String),
    /// Nobody knows who is calling.
    #[error("show who you are: the request has no valid credentials")]
    Unauthorized,
    /// The link does not allow this.
    #[error("this link does not allow it; ask for one that does")]
    Forbidden,
    /// Too much at once.
    #[error("too many requests at once; try again in {} s", retry_after.as_secs().max(1))]
    Busy {
        /// When it may be better.
        retry_after: Duration,
    },
    /// More than a limit allows; the text says which and what to do.
    #[error("{0}")]
    TooLarge(String),
    /// The source took too long.
    #[error("the source took longer than {limit:?}")]
    Timeout {
        /// How long it may take.
        limit: Duration,
    },
    /// It cannot work as it is set up; the text says what to change.
    #[error("{0}")]
    Config(String),
    /// The rows are still coming in, or are being put in order.
    #[error("not ready yet; ask again in {} s", retry_after.as_secs().max(1))]
    NotReady {
        /// When it may be.
        retry_after: Duration,
    },
    /// The rows could not all be saved; the text says why, for people.
    #[error("{0}")]
    Failed(String),
    /// What was saved cannot be read.
    #[error("the snapshot could not be read or written")]
    Snapshot(#[source] BoxError),
    /// The query does what queries here may not.
    #[error("{reason}")]
    Refused {
        /// The rule, for programs: `one_statement`, `unknown_table`, `memory`.
        rule: &'static str,
        /// What it forbids, and what to do, for people.
        reason: String,
    },
    /// It needs something that is not there; the text says what.
    #[error("{0}")]
    Unsupported(String),
}

impl DualResponseError {
    /// Which error it is, for programs.
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
