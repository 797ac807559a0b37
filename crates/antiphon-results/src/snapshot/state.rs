use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Truncation;

/// The state of a set's snapshot, as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotState {
    /// Phase of the write.
    pub phase: Phase,
    /// Time of the writer's last heartbeat.
    pub heard_at: DateTime<Utc>,
    /// Digest, if the snapshot is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Reason for missing rows at the end, if rows are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
    /// Source sets and query, if the set was derived from other sets.
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
        /// Reason for people, without internal details.
        reason: String,
    },
}

/// The origin of a derived set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lineage {
    /// Source sets: the name in the query, and the ID.
    pub sources: Vec<(String, String)>,
    /// Query.
    pub query: String,
}

impl Lineage {
    /// Creates a lineage with these source sets and this query.
    pub fn new(sources: Vec<(String, String)>, query: impl Into<String>) -> Self {
        Self { sources, query: query.into() }
    }
}
