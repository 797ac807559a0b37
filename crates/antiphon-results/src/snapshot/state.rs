use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Truncation;

/// The state of a result set's snapshot, as saved in the store of result sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotState {
    /// Phase of the snapshot write.
    pub phase: Phase,
    /// Time of the writer's last heartbeat.
    pub heard_at: DateTime<Utc>,
    /// Digest of the stored bytes, if the snapshot is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The limit that caused the store to omit the last rows of the snapshot. The value is `None` if the snapshot has
    /// all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
    /// The SQL query that created the result set, and the result sets that the query reads. The value is `None` if no
    /// query over other result sets created the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
}

impl SnapshotState {
    /// Creates the state of a snapshot that is being written.
    pub fn writing(heard_at: DateTime<Utc>) -> Self {
        Self { phase: Phase::Writing, heard_at, digest: None, truncated: None, lineage: None }
    }
}

/// The phase of a snapshot write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// Rows are still being written.
    Writing,
    /// The snapshot is complete.
    Ready,
    /// The write failed.
    Failed {
        /// Message for users with the reason why the write failed, without internal details.
        reason: String,
    },
}

/// The origin of a result set that a query over other sets created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lineage {
    /// Result sets that the query read: the table name in the query, and the ID of each result set.
    pub sources: Vec<(String, String)>,
    /// SQL query that created the result set.
    pub query: String,
}

impl Lineage {
    /// Creates a lineage with these source result sets and this query.
    pub fn new(sources: Vec<(String, String)>, query: impl Into<String>) -> Self {
        Self { sources, query: query.into() }
    }
}
