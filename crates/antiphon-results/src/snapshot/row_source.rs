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

/// The source of the rows of a new snapshot. A `RowSource` can be read only once.
#[non_exhaustive]
pub enum RowSource {
    /// Rows as JSON text, in batches.
    Rows {
        /// Columns of the rows. If `None`, the columns are inferred from the rows.
        columns: Option<Vec<ColumnDefinition>>,
        /// Stream that returns the rows in batches.
        parts: BoxStream<'static, Result<Rows, BoxError>>,
    },
    /// A source of a type that only a certain [`SnapshotStore`](super::SnapshotStore) accepts, such as Arrow batches
    /// or a database query.
    Own(Box<dyn Any + Send>),
}

impl RowSource {
    /// Creates a source of JSON rows in batches. The columns are inferred from the rows.
    pub fn rows(parts: impl Stream<Item = Result<Rows, BoxError>> + Send + 'static) -> Self {
        Self::Rows { columns: None, parts: parts.boxed() }
    }

    /// Sets the columns of JSON rows. The method has no effect on a source of another type, which defines its columns
    /// itself. Default: inferred from the rows.
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
    /// Number of rows in the sample: the first rows, which are returned before the write is complete. Default: 15.
    pub sample: usize,
    /// Maximum number of rows in the snapshot. If the source has more rows, the store omits the further rows and sets
    /// [`Written::truncated`]. Default: no limit.
    pub max_rows: u64,
    /// Approximate maximum size of the snapshot in bytes. If the source has more rows, the store omits the further
    /// rows and sets [`Written::truncated`]. Default: no limit.
    pub max_bytes: u64,
}

impl Default for SnapshotWriteOptions {
    fn default() -> Self {
        Self { sample: 15, max_rows: u64::MAX, max_bytes: u64::MAX }
    }
}

impl SnapshotWriteOptions {
    /// Creates options with this number of rows in the sample.
    pub fn sample(rows: usize) -> Self {
        Self { sample: rows, ..Self::default() }
    }

    /// Sets the maximum number of rows in the snapshot. Default: no limit.
    #[must_use]
    pub fn with_max_rows(mut self, rows: u64) -> Self {
        self.max_rows = rows;
        self
    }

    /// Sets the approximate maximum size of the snapshot in bytes. Default: no limit.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// A snapshot write in progress, with its first rows.
#[non_exhaustive]
pub struct SnapshotWrite {
    /// First rows of the snapshot.
    pub sample: Rows,
    /// Columns of the snapshot, as inferred from the rows so far. Only the columns in the
    /// [`Manifest`](super::Manifest) are final.
    pub columns: Vec<ColumnDefinition>,
    /// Channel with the current progress of the write.
    pub progress: watch::Receiver<Progress>,
    /// Future that writes the remaining rows. If you drop the future `rest`, the write is cancelled.
    pub rest: BoxFuture<'static, Result<Written>>,
}

impl SnapshotWrite {
    /// Creates a write in progress with these first rows. Implementations of a snapshot store use this function.
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
    /// Number of rows read from the source so far.
    pub rows: u64,
    /// Number of bytes stored so far.
    pub bytes: u64,
}

/// The result of a complete snapshot write.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Written {
    /// Number of rows in the snapshot.
    pub rows: u64,
    /// Size of the stored rows in bytes.
    pub bytes: u64,
    /// Digest of the stored bytes, as in [`Manifest::digest`](super::Manifest::digest).
    pub digest: String,
    /// Final columns of the snapshot.
    pub columns: Vec<ColumnDefinition>,
    /// The limit that caused the store to omit the last rows of the snapshot. The value is `None` if the snapshot has
    /// all rows.
    pub truncated: Option<Truncation>,
}

impl Written {
    /// Creates the result of a write without truncation. Implementations of a snapshot store use this function.
    pub fn new(rows: u64, bytes: u64, digest: impl Into<String>, columns: Vec<ColumnDefinition>) -> Self {
        Self { rows, bytes, digest: digest.into(), columns, truncated: None }
    }
}

/// The limit that caused the store to omit the last rows of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Truncation {
    /// The source had more rows than the row limit allows.
    RowLimit,
    /// The rows needed more bytes than the byte limit allows.
    ByteLimit,
}
