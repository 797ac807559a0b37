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

/// Rows on their way into a snapshot: they come once.
#[non_exhaustive]
pub enum RowSource {
    /// Rows as JSON, some at a time.
    Rows {
        /// What is in them; if nobody says, it is found out from them.
        columns: Option<Vec<ColumnDefinition>>,
        /// The rows.
        parts: BoxStream<'static, Result<Rows, BoxError>>,
    },
    /// What a [`SnapshotStore`](super::SnapshotStore) knows to take and nobody else: Arrow batches, a database's
    /// rows.
    Own(Box<dyn Any + Send>),
}

impl RowSource {
    /// Rows as JSON, some at a time. What is in them is found out from them.
    pub fn rows(parts: impl Stream<Item = Result<Rows, BoxError>> + Send + 'static) -> Self {
        Self::Rows { columns: None, parts: parts.boxed() }
    }

    /// Says what is in rows that are JSON; others bring that with them.
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

/// How much is taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotWriteOptions {
    /// How many rows are given back at once.
    pub sample: usize,
    /// The most rows; what comes after them is left out, and that is said.
    pub max_rows: u64,
    /// The most bytes as they are stored, about; likewise.
    pub max_bytes: u64,
}

impl Default for SnapshotWriteOptions {
    fn default() -> Self {
        Self { sample: 15, max_rows: u64::MAX, max_bytes: u64::MAX }
    }
}

impl SnapshotWriteOptions {
    /// Gives so many rows back at once.
    pub fn sample(rows: usize) -> Self {
        Self { sample: rows, ..Self::default() }
    }

    /// Takes in at most so many rows.
    #[must_use]
    pub fn with_max_rows(mut self, rows: u64) -> Self {
        self.max_rows = rows;
        self
    }

    /// Takes in at most so many bytes, as they are stored.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// A snapshot whose first rows are there.
#[non_exhaustive]
pub struct SnapshotWrite {
    /// The first rows.
    pub sample: Rows,
    /// The columns, as far as the rows so far tell. Those of [`Manifest`](super::Manifest) are the last word.
    pub columns: Vec<ColumnDefinition>,
    /// How far it is.
    pub progress: watch::Receiver<Progress>,
    /// Writes the rest. Whoever drops it gives the snapshot up.
    pub rest: BoxFuture<'static, Result<Written>>,
}

impl SnapshotWrite {
    /// A snapshot whose first rows are these.
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

/// How far a snapshot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many rows have come in.
    pub rows: u64,
    /// How many bytes are stored.
    pub bytes: u64,
}

/// A snapshot that is all there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Written {
    /// How many rows it has.
    pub rows: u64,
    /// How many bytes it is as it is stored.
    pub bytes: u64,
    /// What it is: as in [`Manifest::digest`](super::Manifest::digest).
    pub digest: String,
    /// Its columns.
    pub columns: Vec<ColumnDefinition>,
    /// Why rows are missing at the end, if they are.
    pub truncated: Option<Truncation>,
}

impl Written {
    /// A snapshot of so many rows and bytes.
    pub fn new(rows: u64, bytes: u64, digest: impl Into<String>, columns: Vec<ColumnDefinition>) -> Self {
        Self { rows, bytes, digest: digest.into(), columns, truncated: None }
    }
}

/// Why rows are missing at the end of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Truncation {
    /// There were more rows than may be.
    RowLimit,
    /// There were more bytes than may be.
    ByteLimit,
}
