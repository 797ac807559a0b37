use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Truncation;

/// How far a set's snapshot is, as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotState {
    /// Whether it is there.
    pub phase: Phase,
    /// When whoever writes it was last heard of.
    pub heard_at: DateTime<Utc>,
    /// What it is, once it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Why rows are missing at the end, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
    /// What it was made from, if from other sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
}

impl SnapshotState {
    /// One that is being written.
    pub fn writing(heard_at: DateTime<Utc>) -> Self {
        Self { phase: Phase::Writing, heard_at, digest: None, truncated: None, lineage: None }
    }
}

/// Whether a snapshot is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// Rows are still coming in.
    Writing,
    /// All of it.
    Ready,
    /// It never will be.
    Failed {
        /// Why, for people: nothing from inside.
        reason: String,
    },
}

/// What a set was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lineage {
    /// The sets, by id, each with the name it had in the query.
    pub sources: Vec<(String, String)>,
    /// The query.
    pub query: String,
}

impl Lineage {
    /// Made from these sets by this query.
    pub fn new(sources: Vec<(String, String)>, query: impl Into<String>) -> Self {
        Self { sources, query: query.into() }
    }
}
