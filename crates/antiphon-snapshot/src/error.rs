use std::time::Duration;

use antiphon_results::{BoxError, DualResponseError};

/// What this crate returns where the caller is Rust and not a server of result sets.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a snapshot could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the store is none, or of a kind this was not built for; the text says what to do.
    #[error("{0}")]
    InvalidUrl(String),
    /// The object store failed.
    #[error("the object store failed")]
    Store(#[from] object_store::Error),
    /// What is stored is no Parquet, or is damaged.
    #[error("the stored rows are damaged or are not Parquet")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A column holds what cannot be put into a table, or turned into what was asked for.
    #[error("the rows could not be converted")]
    Arrow(#[from] arrow::error::ArrowError),
    /// What is stored beside the rows cannot be read.
    #[error("the manifest is damaged")]
    Manifest(#[source] serde_json::Error),
    /// Whoever gives the rows failed.
    #[error("the source of the rows failed")]
    Source(#[source] BoxError),
    /// A task of ours panicked or was stopped.
    #[error("the work was broken off")]
    Broken(#[source] BoxError),
    /// What is stored is not what was written: its length, its digest or its rows are others.
    #[error("{0}")]
    Altered(String),
    /// A view was removed to make room for others. It is made again for whoever asks again.
    #[error("the view was removed to make room; ask for it again")]
    Evicted,
    /// What was asked for makes no sense; the text says what would.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// Whether something is not there.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Store(object_store::Error::NotFound { .. }))
    }

    /// The same of somebody who writes: what is missing then is part of what was written, not what was asked for.
    pub(crate) fn of_writing(self) -> Self {
        if self.is_missing() { Self::Broken(self.into()) } else { self }
    }
}

/// To a server of result sets a snapshot that is not there is a set that is not there.
impl From<Error> for DualResponseError {
    fn from(error: Error) -> Self {
        match error {
            error if error.is_missing() => Self::NotFound,
            Error::Evicted => Self::NotReady { retry_after: Duration::from_secs(1) },
            Error::Invalid(text) => Self::Invalid(text),
            // A query over snapshots says itself what is wrong with it.
            Error::Source(source) => match source.downcast::<Self>() {
                Ok(error) => *error,
                Err(source) => Self::Query(source),
            },
            Error::InvalidUrl(text) => Self::Config(text),
            error => Self::Snapshot(error.into()),
        }
    }
}
