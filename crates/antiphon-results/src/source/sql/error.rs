use std::time::Duration;

use crate::error::BoxError;

/// Why a [`SqlQuery`](super::SqlQuery) gave no rows.
///
/// The text names what is wrong and where, never the SQL or a value: it may stand in a log. What the
/// database itself said is the [source](std::error::Error::source), which may quote either.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The query cannot work as its author has declared it.
    #[error("the query is not set up right: {0}")]
    Setup(String),
    /// What was asked for makes no sense: a parameter, a sort, a place to go on from.
    #[error("{0}")]
    Invalid(String),
    /// It took too long, and was given up.
    #[error("the statement took longer than {limit:?}")]
    Timeout {
        /// How long it may take.
        limit: Duration,
    },
    /// The database refused or failed.
    #[error("the database could not {doing}")]
    Database {
        /// What it was asked to do.
        doing: &'static str,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// A value could not be read, or could not be written as JSON.
    #[error("a value of column `{column}` cannot be read")]
    Value {
        /// The column's name.
        column: String,
        /// Why not.
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
