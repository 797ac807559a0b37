use std::time::Duration;

use crate::error::BoxError;

/// An error of a [`SqlQuery`](super::SqlQuery).
///
/// The message contains the cause and its place, but never SQL or a value, so it is safe to log. The database's own
/// message is the [source](std::error::Error::source), and can quote both.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The author configured the query incorrectly.
    #[error("the query is not set up right: {0}")]
    Setup(String),
    /// The request is invalid: a parameter, a sort, or a position to continue from.
    #[error("{0}")]
    Invalid(String),
    /// The statement exceeded its timeout and was stopped.
    #[error("the statement took longer than {limit:?}")]
    Timeout {
        /// Timeout of the statement.
        limit: Duration,
    },
    /// The database rejected the statement, or failed.
    #[error("the database could not {doing}")]
    Database {
        /// Operation that failed.
        doing: &'static str,
        /// Error of the database.
        #[source]
        source: BoxError,
    },
    /// A value could not be read, or could not be written as JSON.
    #[error("a value of column `{column}` cannot be read")]
    Value {
        /// Name of the column.
        column: String,
        /// Cause.
        #[source]
        source: BoxError,
    },
}

impl SqlError {
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }

    pub(super) fn setup(text: impl Into<String>) -> Self {
        Self::Setup(text.into())
    }

    pub(super) fn value(column: &str, source: impl Into<BoxError>) -> Self {
        Self::Value { column: column.to_owned(), source: source.into() }
    }
}
