use std::{any::Any, fmt};

use futures_util::{
    future::BoxFuture,
    stream::{BoxStream, Stream, StreamExt as _},
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    column::ColumnDefinition,
    error::{BoxError, Result},
    rows::Rows,
};

/// The rows of a new snapshot. They can be read once.
#[non_exhaustive]
pub enum RowSource {
    /// JSON rows, in batches.
    Rows {
        /// Columns. If `None`, they are inferred from the rows.
        columns: Option<Vec<ColumnDefinition>>,
        /// Batches of rows.
        parts: BoxStream<'static, Result<Rows, BoxError>>,
    },
    /// A form that only a certain [`SnapshotStore`](super::SnapshotStore) accepts, such as Arrow batches or the rows of
    /// a database.
    Own(Box<dyn Any + Send>),
}

impl RowSource {
    /// Creates a source of JSON rows in batches. The columns are inferred from the rows.
    pub fn rows(parts: impl Stream<Item = Result<Rows, BoxError>> + Send + 'static) -> Self {
        Self::Rows { columns: None, parts: parts.boxed() }
    }

    /// Sets the columns of JSON rows. Other forms have their own columns and ignore this. Default: inferred from the
    /// rows.
    #[must_use]
    pub fn with_columns(self, columns: impl IntoIterator<Item = ColumnDefinition>) -> Self {
        match self {
            Self::Rows { parts, .. } => Self::Rows { columns: Some(columns.into_iter().collect()), parts },
            own @ Self::Own(_) => own,
        }
    }
}

impl fmt::Debug for RowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { columns, .. } => {
                f.debug_struct("Rows").field("columns", columns).finish_non_exhaustive()
            }
            Self::Own(_) => f.write_str("Own"),
        }
    }
}

/// The options of a snapshot write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotWriteOptions {
    /// Number of first rows that are returned at once. Default: 15.
    pub sample: usize,
    /// Maximum number of rows. Later rows are omitted, and the result reports it. Default: no limit.
    pub max_rows: u64,
    /// Approximate maximum of stored bytes. Later rows are omitted, and the result reports it. Default: no limit.
    pub max_bytes: u64,
}

impl Default for SnapshotWriteOptions {
    fn default() -> Self {
        Self { sample: 15, max_rows: u64::MAX, max_bytes: u64::MAX }
    }
}

impl SnapshotWriteOptions {
    /// Creates options with this number of first rows.
    pub fn sample(rows: usize) -> Self {
        Self { sample: rows, ..Self::default() }
    }

    /// Sets the maximum number of rows. Default: no limit.
    #[must_use]
    pub fn with_max_rows(mut self, rows: u64) -> Self {
        self.max_rows = rows;
        self
    }

    /// Sets the maximum of stored bytes. Default: no limit.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// A snapshot write that has its first rows.
#[non_exhaustive]
pub struct SnapshotWrite {
    /// First rows.
    pub sample: Rows,
    /// Columns, as far as the first rows show them. Those of [`Manifest`](super::Manifest) are final.
    pub columns: Vec<ColumnDefinition>,
    /// Progress of the write.
    pub progress: watch::Receiver<Progress>,
    /// Future that writes the other rows. Dropping it cancels the write.
    pub rest: BoxFuture<'static, Result<Written>>,
}

impl SnapshotWrite {
    /// Creates a write with these first rows.
    pub fn new(
        sample: Rows,
        columns: Vec<ColumnDefinition>,
        progress: watch::Receiver<Progress>,
        rest: BoxFuture<'static, Result<Written>>,
    ) -> Self {
        Self { sample, columns, progress, rest }
    }
}

impl fmt::Debug for SnapshotWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotWrite")
            .field("columns", &self.columns)
            .field("progress", &*self.progress.borrow())
            .finish_non_exhaustive()
    }
}

/// The progress of a snapshot write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of rows received.
    pub rows: u64,
    /// Number of bytes stored.
    pub bytes: u64,
}

/// The result of a complete snapshot write.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Written {
    /// Number of rows.
    pub rows: u64,
    /// Stored size in bytes.
    pub bytes: u64,
    /// Digest, as in [`Manifest::digest`](super::Manifest::digest).
    pub digest: String,
    /// Columns.
    pub columns: Vec<ColumnDefinition>,
    /// Reason for missing rows at the end, if rows are missing.
    pub truncated: Option<Truncation>,
}

impl Written {
    /// Creates the result with this number of rows and stored bytes.
    pub fn new(rows: u64, bytes: u64, digest: impl Into<String>, columns: Vec<ColumnDefinition>) -> Self {
        Self { rows, bytes, digest: digest.into(), columns, truncated: None }
    }
}

/// The reason for missing rows at the end of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Truncation {
    /// There were more rows than the limit.
    RowLimit,
    /// There were more bytes than the limit.
    ByteLimit,
}
