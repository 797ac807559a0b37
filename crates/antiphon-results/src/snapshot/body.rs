//! Request and response bodies that the server and the client share.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Chunk, ColumnStats, ExportFormat, Lineage, Truncation};
use crate::{column::ColumnDefinition, rows::Row};

/// The state of a set's rows.
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
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Writing => "writing",
            Self::Failed => "failed",
        }
    }
}

/// The way in which clients get the stored rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RetrievalMode {
    /// Through this server.
    #[default]
    Proxy,
    /// The server redirects to a URL at the object store, which is valid for a limited time.
    Redirect,
    /// The server redirects, and the manifest also contains the URL.
    Direct,
}

/// The response body of `GET /{id}/manifest`: the metadata of a set, and its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SetManifest {
    /// ID of the set.
    pub id: String,
    /// Display name.
    pub name: String,
    /// State of the rows.
    pub status: SetStatus,
    /// Number of rows, as far as it is known.
    pub rows: u64,
    /// Whether `rows` is exact. It is not exact while rows are being written, and not for data that can change.
    pub exact: bool,
    /// Stored size of the rows in bytes, if it is known.
    pub bytes: Option<u64>,
    /// Digest of the stored bytes: `sha-256:` and hexadecimal. Only a snapshot that is ready has one.
    pub digest: Option<String>,
    /// Columns.
    pub columns: Vec<ColumnDefinition>,
    /// Parts in order. Only a snapshot that is ready has parts.
    pub chunks: Vec<Chunk>,
    /// Reason for missing rows at the end, if rows are missing.
    pub truncated: Option<Truncation>,
    /// Source sets and query, if the set was derived from other sets.
    pub lineage: Option<Lineage>,
    /// Export formats.
    pub formats: Vec<ExportFormat>,
    /// Supported operations.
    pub can: Capabilities,
    /// Way in which clients get the stored rows.
    pub retrieval: RetrievalMode,
    /// URL of the stored rows at the object store, for [`RetrievalMode::Direct`].
    pub url: Option<String>,
    /// Expiry time of `url`. Request the manifest again to get a new URL.
    pub url_expires_at: Option<DateTime<Utc>>,
    /// Creation time.
    pub created_at: DateTime<Utc>,
    /// Expiry time. `None` if the set is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// Reason for people, if the write failed.
    pub failure: Option<String>,
}

/// The operations that a set supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of its own on the wire")]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether rows can be sorted.
    pub sort: bool,
    /// Whether rows can be filtered.
    pub filter: bool,
    /// Whether rows can be grouped and measured.
    pub aggregate: bool,
    /// Whether a query can create a new set.
    pub query: bool,
    /// Whether statistics of the columns are available.
    pub stats: bool,
}

/// The response body of `GET /{id}/stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StatsBody {
    /// Statistics of each column.
    pub columns: Vec<ColumnStats>,
}

impl StatsBody {
    /// Creates the body with the statistics of these columns.
    pub fn new(columns: Vec<ColumnStats>) -> Self {
        Self { columns }
    }
}

/// The response body of `POST /{id}/query`: the new set, and its first rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DerivedBody {
    /// ID of the new set.
    pub id: String,
    /// URI of the new set: `resource://…`.
    pub uri: String,
    /// URL of the new set. If the request used a signed link, the URL contains a signed link to the new set.
    pub url: String,
    /// Display name.
    pub name: String,
    /// State of the rows.
    pub status: SetStatus,
    /// Number of rows, as far as it is known.
    pub total_count: u64,
    /// Whether `total_count` is exact.
    pub exact: bool,
    /// Columns.
    pub columns: Vec<ColumnDefinition>,
    /// First rows, within limits.
    pub data: Vec<Row>,
    /// Reason for missing rows at the end, if rows are missing.
    pub truncated: Option<Truncation>,
    /// Source sets and query.
    pub lineage: Option<Lineage>,
    /// Expiry time.
    pub expires_at: Option<DateTime<Utc>>,
}
