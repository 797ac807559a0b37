use std::fmt;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use super::View;
use crate::error::Result;

/// The format of exported rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ExportFormat {
    /// NDJSON: one JSON object on each line.
    Ndjson,
    /// CSV: a table with commas.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
    /// Parquet. For the whole set, this is the stored file.
    Parquet,
    /// An Excel workbook.
    Xlsx,
}

impl ExportFormat {
    /// All formats.
    pub const ALL: [Self; 5] = [Self::Ndjson, Self::Csv, Self::Arrow, Self::Parquet, Self::Xlsx];

    /// Returns the name in URLs, which is also the file extension.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
            Self::Xlsx => "xlsx",
        }
    }

    /// Returns the media type for `Accept` and `Content-Type`.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Parquet => "application/vnd.apache.parquet",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        }
    }

    /// Returns whether the format is already compressed.
    pub fn is_compressed(self) -> bool {
        matches!(self, Self::Parquet | Self::Xlsx)
    }

    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// A request for an export.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExportRequest {
    /// Format.
    pub format: ExportFormat,
    /// Rows and their order. The view must have been prepared.
    pub view: View,
    /// Columns in this order. Empty: all columns.
    pub columns: Vec<String>,
    /// Chunk to export. `None`: all chunks.
    pub chunk: Option<u64>,
    /// Range of bytes to export. `None`: all bytes.
    pub range: Option<ByteRange>,
    /// Whether [`Csv`](ExportFormat::Csv) cells that a spreadsheet would run as a formula are escaped. Default: `true`.
    pub csv_safe: bool,
}

impl ExportRequest {
    /// Creates a request for the whole set in this format.
    pub fn new(format: ExportFormat) -> Self {
        Self { format, view: View::default(), columns: Vec::new(), chunk: None, range: None, csv_safe: true }
    }

    /// Sets the view. Default: the whole set.
    #[must_use]
    pub fn with_view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Sets the columns. Default: all.
    #[must_use]
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the chunk. Default: all chunks.
    #[must_use]
    pub fn with_chunk(mut self, chunk: Option<u64>) -> Self {
        self.chunk = chunk;
        self
    }

    /// Sets the range of bytes. Default: all bytes.
    #[must_use]
    pub fn with_range(mut self, range: Option<ByteRange>) -> Self {
        self.range = range;
        self
    }

    /// Sets whether CSV cells that a spreadsheet would run as a formula are escaped. Default: `true`.
    #[must_use]
    pub fn with_csv_safe(mut self, csv_safe: bool) -> Self {
        self.csv_safe = csv_safe;
        self
    }
}

/// A range of a body's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ByteRange {
    /// From the first to the last byte, both included. Without a last byte, to the end.
    From {
        /// Position of the first byte.
        first: u64,
        /// Position of the last byte.
        last: Option<u64>,
    },
    /// This number of bytes at the end.
    Last(u64),
}

/// The rows of a set in a format.
#[non_exhaustive]
pub struct Export {
    /// Size of the whole in bytes, if it is known in advance.
    pub total: Option<u64>,
    /// Position of this part in the whole.
    pub start: u64,
    /// Size of this part in bytes, if it is known.
    pub length: Option<u64>,
    /// Strong validator: equal for the same bytes, and only for them.
    pub tag: String,
    /// Bytes. If the export fails midway, the stream ends with an error.
    pub body: BoxStream<'static, Result<Bytes>>,
}

impl Export {
    /// Creates an export of the whole, with a known or an unknown size.
    pub fn new(tag: impl Into<String>, total: Option<u64>, body: BoxStream<'static, Result<Bytes>>) -> Self {
        Self { total, start: 0, length: total, tag: tag.into(), body }
    }

    /// Limits the export to a part.
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
