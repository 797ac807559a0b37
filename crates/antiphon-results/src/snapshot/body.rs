//! Request and response bodies that the server and the client share.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Chunk, ColumnStats, ExportFormat, Lineage, Truncation};
use crate::{column::ColumnDefinition, rows::Row};

/// The state of the rows of a result set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SetStatus {
    /// All rows are available.
    #[default]
    Ready,
    /// Rows are still being written.
    Writing,
    /// The write failed, and the rows are not available.
    Failed,
}

impl SetStatus {
    /// Returns the name of the state in JSON, such as `ready`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Writing => "writing",
            Self::Failed => "failed",
        }
    }
}

/// The way in which clients download the stored file of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RetrievalMode {
    /// The server sends the stored file itself.
    #[default]
    Proxy,
    /// The server redirects clients to a signed URL at the object store, which is valid for a limited time.
    Redirect,
    /// The server redirects clients like `Redirect`, and the manifest also contains the signed URL.
    Direct,
}

/// The response body of `GET /{id}/manifest`: the metadata of a result set, and the list of its chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SetManifest {
    /// ID of the result set.
    pub id: String,
    /// Display name of the result set.
    pub name: String,
    /// State of the rows: ready, still being written, or failed.
    pub status: SetStatus,
    /// Number of rows. While rows are being written, the value is the number of rows written so far.
    pub rows: u64,
    /// Whether `rows` is exact. The field `exact` is `false` while rows are being written, and for a live query, whose
    /// data can change.
    pub exact: bool,
    /// Stored size of the rows in bytes, if it is known.
    pub bytes: Option<u64>,
    /// Digest of the stored bytes: `sha-256:` and the hash in hexadecimal. Only a snapshot that is ready has a digest.
    pub digest: Option<String>,
    /// Columns of the result set.
    pub columns: Vec<ColumnDefinition>,
    /// Chunks of the snapshot, in order. The list is empty if the result set is not a snapshot, or is not ready.
    pub chunks: Vec<Chunk>,
    /// The limit that caused the server to omit the last rows of the result set. The value is `None` if the result set
    /// has all rows.
    pub truncated: Option<Truncation>,
    /// The SQL query that created the result set, and the result sets that the query reads. The value is `None` if no
    /// query over other result sets created the set.
    pub lineage: Option<Lineage>,
    /// Formats in which the result set can be exported.
    pub formats: Vec<ExportFormat>,
    /// Operations that the result set supports.
    pub can: Capabilities,
    /// Way in which clients download the stored file.
    pub retrieval: RetrievalMode,
    /// Signed URL of the stored file at the object store, for [`RetrievalMode::Direct`].
    pub url: Option<String>,
    /// Time at which `url` expires. Request the manifest again to get a new URL.
    pub url_expires_at: Option<DateTime<Utc>>,
    /// Time at which the result set was created.
    pub created_at: DateTime<Utc>,
    /// Time at which the result set expires. The value is `None` if the result set is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// Message for users with the reason why the rows could not be saved, if the write failed.
    pub failure: Option<String>,
}

/// The operations that a result set supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of its own on the wire")]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether rows can be sorted.
    pub sort: bool,
    /// Whether rows can be filtered.
    pub filter: bool,
    /// Whether aggregates of the rows can be computed.
    pub aggregate: bool,
    /// Whether an SQL query over the result set can create a new set.
    pub query: bool,
    /// Whether statistics of the columns are available.
    pub stats: bool,
}

/// The response body of `GET /{id}/stats`: the statistics of the columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StatsBody {
    /// Statistics of each column of the result set.
    pub columns: Vec<ColumnStats>,
}

impl StatsBody {
    /// Creates the response body with the statistics in `columns`.
    pub fn new(columns: Vec<ColumnStats>) -> Self {
        Self { columns }
    }
}

/// The response body of `POST /{id}/query`: the new result set, and its first rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DerivedBody {
    /// ID of the new result set.
    pub id: String,
    /// URI of the new result set: `resource://…`.
    pub uri: String,
    /// URL of the new result set. If the request used a signed link, the URL contains a signed link to the new result
    /// set.
    pub url: String,
    /// Display name of the result set.
    pub name: String,
    /// State of the rows: ready, still being written, or failed.
    pub status: SetStatus,
    /// Number of rows. While rows are being written, the value is the number of rows written so far.
    pub total_count: u64,
    /// Whether `total_count` is exact.
    pub exact: bool,
    /// Columns of the result set.
    pub columns: Vec<ColumnDefinition>,
    /// First rows of the new result set. The server limits the number and the size of these rows.
    pub data: Vec<Row>,
    /// The limit that caused the server to omit the last rows of the result set. The value is `None` if the result set
    /// has all rows.
    pub truncated: Option<Truncation>,
    /// The SQL query that created the new result set, and the result sets that the query reads.
    pub lineage: Option<Lineage>,
    /// Time at which the result set expires.
    pub expires_at: Option<DateTime<Utc>>,
}
