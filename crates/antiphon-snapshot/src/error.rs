use std::time::Duration;

use antiphon_results::{BoxError, DualResponseError};

/// The result type of [`Snapshots::open`](crate::Snapshots::open) and the other functions that return this crate's
/// [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error from writing or reading a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the store is invalid, or this kind of address needs a feature that is not enabled. The `String`
    /// describes how to fix the problem.
    #[error("{0}")]
    InvalidUrl(String),
    /// A setting of [`SnapshotConfig`](crate::SnapshotConfig) is invalid. The `String` names the setting.
    #[error("{0}")]
    Config(String),
    /// The object store failed.
    #[error("the object store failed")]
    Store(#[from] object_store::Error),
    /// The stored file is damaged or is not Parquet.
    #[error("the stored rows are damaged or are not Parquet")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// The type of a column cannot be stored, or cannot be converted to the requested format.
    #[error("the rows could not be converted to or from Arrow")]
    Arrow(#[from] arrow::error::ArrowError),
    /// The manifest cannot be read.
    #[error("the manifest of the snapshot is damaged")]
    Manifest(#[source] serde_json::Error),
    /// The source of the rows returned an error.
    #[error("the source of the rows failed")]
    Source(#[source] BoxError),
    /// A background task of this crate panicked or was cancelled.
    #[error("the snapshot operation panicked or was cancelled; the server's log has the reason")]
    Broken(#[source] BoxError),
    /// The stored file is not the file that was written: its length, its digest or its rows differ.
    #[error("{0}")]
    Altered(String),
    /// The view was removed to make room for other views of the snapshot. The next request creates the view again.
    #[error("the view was removed to free space for other views; repeat the request")]
    Evicted,
    /// The request is invalid. The `String` describes how to fix the problem.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// Returns `true` if the error occurred because an object does not exist in the object store.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Store(object_store::Error::NotFound { .. }))
    }

    /// Converts an error of the object store to the error of a snapshot write. During a write, only the writer's own
    /// files can be missing. So the error for a missing object does not mean that the requested snapshot is missing.
    pub(crate) fn of_writing(self) -> Self {
        if self.is_missing() { Self::Broken(self.into()) } else { self }
    }
}

/// Converts the error for a missing snapshot to the error for a missing result set.
impl From<Error> for DualResponseError {
    fn from(error: Error) -> Self {
        match error {
            error if error.is_missing() => Self::NotFound,
            Error::Evicted => Self::NotReady { retry_after: Duration::from_secs(1) },
            Error::Invalid(text) => Self::Invalid(text),
            // A query over snapshots already returns a `DualResponseError`.
            Error::Source(source) => match source.downcast::<Self>() {
                Ok(error) => *error,
                Err(source) => Self::Query(source),
            },
            Error::InvalidUrl(text) | Error::Config(text) => Self::Config(text),
            error => Self::Snapshot(error.into()),
        }
    }
}
