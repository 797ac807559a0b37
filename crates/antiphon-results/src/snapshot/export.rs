use std::fmt;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use super::View;
use crate::error::Result;

/// What rows are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ExportFormat {
    /// A JSON object a line.
    Ndjson,
    /// A table with commas.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
    /// Parquet: the stored file itself, where it is the whole set that is asked for.
    Parquet,
    /// A workbook.
    Xlsx,
}

impl ExportFormat {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Ndjson, Self::Csv, Self::Arrow, Self::Parquet, Self::Xlsx];

    /// Its name in an address, and the ending of a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
            Self::Xlsx => "xlsx",
        }
    }

    /// What it is called in `Accept` and `Content-Type`.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Parquet => "application/vnd.apache.parquet",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        }
    }

    /// Whether it is compressed in itself already.
    pub fn is_compressed(self) -> bool {
        matches!(self, Self::Parquet | Self::Xlsx)
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// What is to be written, and how.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExportRequest {
    /// As what.
    pub format: ExportFormat,
    /// Which rows in which order. It must have been prepared.
    pub view: View,
    /// Which columns, in this order; all, if there are none.
    pub columns: Vec<String>,
    /// Only this chunk's rows.
    pub chunk: Option<u64>,
    /// Only this part of the bytes.
    pub range: Option<ByteRange>,
    /// Whether cells of a [`Csv`](ExportFormat::Csv) that a spreadsheet would take for a formula are made harmless.
    pub csv_safe: bool,
}

impl ExportRequest {
    /// All of it in this format.
    pub fn new(format: ExportFormat) -> Self {
        Self { format, view: View::default(), columns: Vec::new(), chunk: None, range: None, csv_safe: true }
    }

    /// The rows of a view.
    #[must_use]
    pub fn with_view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Only these columns.
    #[must_use]
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Only this chunk.
    #[must_use]
    pub fn with_chunk(mut self, chunk: Option<u64>) -> Self {
        self.chunk = chunk;
        self
    }

    /// Only this part of the bytes.
    #[must_use]
    pub fn with_range(mut self, range: Option<ByteRange>) -> Self {
        self.range = range;
        self
    }

    /// Leaves cells as they are, whatever a spreadsheet would do with them.
    #[must_use]
    pub fn with_csv_safe(mut self, csv_safe: bool) -> Self {
        self.csv_safe = csv_safe;
        self
    }
}

/// Some of a body's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ByteRange {
    /// From one to another, or to the end; the last is in it.
    From {
        /// The first.
        first: u64,
        /// The last.
        last: Option<u64>,
    },
    /// The last so many.
    Last(u64),
}

/// A set's rows in a format.
#[non_exhaustive]
pub struct Export {
    /// How many bytes the whole is, where that is known before it is written.
    pub total: Option<u64>,
    /// Where this part of it begins.
    pub start: u64,
    /// How many bytes this part is, where that is known.
    pub length: Option<u64>,
    /// A strong validator: the same for the same bytes, and for no others.
    pub tag: String,
    /// The bytes. What breaks off ends with an error.
    pub body: BoxStream<'static, Result<Bytes>>,
}

impl Export {
    /// All of it, of a length that is known or not.
    pub fn new(tag: impl Into<String>, total: Option<u64>, body: BoxStream<'static, Result<Bytes>>) -> Self {
        Self { total, start: 0, length: total, tag: tag.into(), body }
    }

    /// A part of it.
    #[must_use]
    pub fn with_part(mut self, start: u64, length: Option<u64>) -> Self {
        self.start = start;
        self.length = length;
        self
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export")
            .field("total", &self.total)
            .field("start", &self.start)
            .field("length", &self.length)
            .field("tag", &self.tag)
            .finish_non_exhaustive()
    }
}
