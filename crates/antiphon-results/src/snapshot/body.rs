//! What is said of a set over HTTP: both sides read it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Chunk, ColumnStats, ExportFormat, Lineage, Truncation};
use crate::{column::ColumnDefinition, rows::Row};

/// Whether all rows of a set are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SetStatus {
    /// All of them.
    #[default]
    Ready,
    /// They are still coming in.
    Writing,
    /// They never will be.
    Failed,
}

impl SetStatus {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Writing => "writing",
            Self::Failed => "failed",
        }
    }
}

/// How whoever wants the stored rows themselves gets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RetrievalMode {
    /// Through this server.
    #[default]
    Proxy,
    /// The server answers with an address at the object store that is good for a while.
    Redirect,
    /// The same, and the address is in the manifest too.
    Direct,
}

/// The answer to `GET /{id}/manifest`: what is known of a set, and where its parts are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SetManifest {
    /// The set's id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Whether all rows are there.
    pub status: SetStatus,
    /// How many rows there are, as far as is known.
    pub rows: u64,
    /// Whether that is exact: it is not while rows come in, and not of data that change.
    pub exact: bool,
    /// How many bytes they are as they are stored, where that is known.
    pub bytes: Option<u64>,
    /// What they are: `sha-256:` and the digest of the stored bytes. Only a snapshot that is ready has one.
    pub digest: Option<String>,
    /// The columns.
    pub columns: Vec<ColumnDefinition>,
    /// The parts, in order. Only a snapshot that is ready has any.
    pub chunks: Vec<Chunk>,
    /// Why rows are missing at the end, if they are.
    pub truncated: Option<Truncation>,
    /// What it was made from, if from other sets.
    pub lineage: Option<Lineage>,
    /// What it can be exported as.
    pub formats: Vec<ExportFormat>,
    /// What can be done with it.
    pub can: Capabilities,
    /// How the stored rows themselves are got.
    pub retrieval: RetrievalMode,
    /// Where they can be got without the server, where [`RetrievalMode::Direct`] is meant.
    pub url: Option<String>,
    /// Until when that address is good. Ask again for another.
    pub url_expires_at: Option<DateTime<Utc>>,
    /// When the set was made.
    pub created_at: DateTime<Utc>,
    /// When it ends; never, if it is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// Why it failed, for people, if it did.
    pub failure: Option<String>,
}

/// What can be done with a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of its own on the wire")]
#[non_exhaustive]
pub struct Capabilities {
    /// Its rows can be sorted.
    pub sort: bool,
    /// They can be filtered.
    pub filter: bool,
    /// They can be grouped and measured.
    pub aggregate: bool,
    /// A query over them makes a new set.
    pub query: bool,
    /// There are statistics of its columns.
    pub stats: bool,
}

/// The answer to `GET /{id}/stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StatsBody {
    /// What is in each column.
    pub columns: Vec<ColumnStats>,
}

impl StatsBody {
    /// Of these columns.
    pub fn new(columns: Vec<ColumnStats>) -> Self {
        Self { columns }
    }
}

/// The answer to `POST /{id}/query`: the new set, and its first rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DerivedBody {
    /// The new set's id.
    pub id: String,
    /// Its URI: `resource://…`.
    pub uri: String,
    /// Where it is fetched. Whoever asked with a signed link finds one in it that opens the new set.
    pub url: String,
    /// What people call it.
    pub name: String,
    /// Whether all its rows are there.
    pub status: SetStatus,
    /// How many rows there are, as far as is known.
    pub total_count: u64,
    /// Whether that is exact.
    pub exact: bool,
    /// Its columns.
    pub columns: Vec<ColumnDefinition>,
    /// The first rows, within bounds.
    pub data: Vec<Row>,
    /// Why rows are missing at the end, if they are.
    pub truncated: Option<Truncation>,
    /// What it was made from.
    pub lineage: Option<Lineage>,
    /// When it ends.
    pub expires_at: Option<DateTime<Utc>>,
}
