use std::time::Duration;

use crate::error::BoxError;

/// An error from a [`SqlQuery`](super::SqlQuery).
///
/// The message of a `SqlError` never contains SQL or values, so you can log the message. The
/// [source](std::error::Error::source) of a `SqlError` is the error of the database. The message of the database error
/// can contain SQL and values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The configuration of the query is invalid, for example a declared column that the SQL does not return.
    #[error("the configuration of the query is not valid: {0}")]
    Setup(String),
    /// The request of a client is invalid: a parameter, a sort, or a cursor.
    #[error("{0}")]
    Invalid(String),
    /// The statement exceeded its timeout and was stopped.
    #[error("the SQL statement exceeded its timeout of {limit:?}")]
    Timeout {
        /// Time limit that the statement exceeded.
        limit: Duration,
    },
    /// The database rejected the statement, or failed.
    #[error("the database could not {doing}")]
    Database {
        /// Operation that failed, such as preparing the statement.
        doing: &'static str,
        /// Error that the database returned.
        #[source]
        source: BoxError,
    },
    /// A value could not be read, or could not be written as JSON.
    #[error("a value of column `{column}` cannot be read")]
    Value {
        /// Name of the column of the value.
        column: String,
        /// Error that occurred when the value was read or written.
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
