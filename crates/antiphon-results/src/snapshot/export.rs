use std::fmt;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use super::View;
use crate::error::Result;

/// The format of exported rows.
// The enum is exhaustive, so after a new format is added, the compiler reports each place where a store must encode the
// format. The encoders are in `antiphon-snapshot`, in `src/read/export/`. The tests
// `every_export_format_can_be_written` of the CLI and `page_offers_every_export_format` fail until the CLI and the
// viewer support the new format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// NDJSON: one JSON object on each line.
    Ndjson,
    /// CSV: comma-separated values.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
    /// A Parquet file. A Parquet export of the whole result set is the stored file itself.
    Parquet,
    /// An Excel workbook.
    Xlsx,
}

impl ExportFormat {
    /// All export formats.
    pub const ALL: [Self; 5] = [Self::Ndjson, Self::Csv, Self::Arrow, Self::Parquet, Self::Xlsx];

    /// Returns the name of the format in URLs, which is also the file extension.
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
        match self {
            Self::Parquet | Self::Xlsx => true,
            Self::Ndjson | Self::Csv | Self::Arrow => false,
        }
    }

    /// Returns whether one chunk of a result set can be exported in this format.
    #[cfg(feature = "rest")]
    pub(crate) fn has_chunks(self) -> bool {
        match self {
            Self::Ndjson | Self::Csv | Self::Arrow | Self::Parquet => true,
            Self::Xlsx => false,
        }
    }

    /// Returns the format with this name in URLs, or `None` if no format has this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the names of formats for an error message, such as `` `csv` or `arrow` ``.
    #[cfg(feature = "rest")]
    pub(crate) fn one_of(formats: impl IntoIterator<Item = Self>) -> String {
        let names: Vec<_> = formats.into_iter().map(|format| format!("`{}`", format.name())).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => names.concat(),
        }
    }
}

/// A request for an export.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExportRequest {
    /// Format of the exported file.
    pub format: ExportFormat,
    /// View that sets the order of the exported rows, and filters the rows. `SnapshotStore::prepare` must have prepared
    /// the view before the export.
    pub view: View,
    /// Columns to export, in the order of the list. If the list is empty, all columns are exported.
    pub columns: Vec<String>,
    /// Index of the chunk to export. If `None`, all chunks are exported.
    pub chunk: Option<u64>,
    /// Range of bytes to return from the file. If `None`, the whole file is returned.
    pub range: Option<ByteRange>,
    /// Whether [`Csv`](ExportFormat::Csv) cells that a spreadsheet would run as a formula are escaped. Default:
    /// `true`.
    pub csv_safe: bool,
}

impl ExportRequest {
    /// Creates a request for the whole result set in this format.
    pub fn new(format: ExportFormat) -> Self {
        Self { format, view: View::default(), columns: Vec::new(), chunk: None, range: None, csv_safe: true }
    }

    /// Sets the view, which sorts and filters the exported rows. Default: all rows in the order of the source.
    #[must_use]
    pub fn with_view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Sets the columns to export, in the given order. Default: all columns.
    #[must_use]
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the index of the chunk to export. Default: all chunks.
    #[must_use]
    pub fn with_chunk(mut self, chunk: Option<u64>) -> Self {
        self.chunk = chunk;
        self
    }

    /// Sets the range of bytes to return from the file. Default: the whole file.
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

/// A range of bytes of an exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ByteRange {
    /// The bytes from `first` to `last`, both included. If `last` is `None`, the range ends at the end of the file.
    From {
        /// Position of the first byte of the range.
        first: u64,
        /// Position of the last byte of the range.
        last: Option<u64>,
    },
    /// The last bytes of the file. The `u64` is the number of bytes at the end of the file.
    Last(u64),
}

/// An exported file with the rows of a snapshot, or a byte range of the file.
#[non_exhaustive]
pub struct Export {
    /// Size of the whole file in bytes, if it is known in advance.
    pub total: Option<u64>,
    /// Position in the file at which `body` starts, in bytes.
    pub start: u64,
    /// Size of `body` in bytes, if it is known.
    pub length: Option<u64>,
    /// Entity tag of the file (strong validator). Two exports have the same tag if and only if their bytes are equal.
    pub tag: String,
    /// Bytes of the exported file, as a stream. If the export fails after the first bytes, the stream ends with an
    /// error.
    pub body: BoxStream<'static, Result<Bytes>>,
}

impl Export {
    /// Creates an export of the whole file. `total` is the size of the file in bytes, if it is known.
    pub fn new(tag: impl Into<String>, total: Option<u64>, body: BoxStream<'static, Result<Bytes>>) -> Self {
        Self { total, start: 0, length: total, tag: tag.into(), body }
    }

    /// Declares that `body` is only a part of the file, from `start` on. `length` is the size of the part in bytes,
    /// if it is known.
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
