use std::time::Duration;

use crate::error::BoxError;

/// An error from a [`SqlQuery`](super::SqlQuery).
///
/// The message never contains SQL or values, so it is safe to log. The database error is the
/// [source](std::error::Error::source). The message of the database error can contain SQL and values.
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
        /// Timeout of the statement.
        limit: Duration,
    },
    /// The database rejected the statement, or failed.
    #[error("the database could not {doing}")]
    Database {
        /// Operation that failed, such as preparing the statement.
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
        /// Cause of the error.
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
