use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Truncation;
use crate::column::ColumnDefinition;

/// The metadata of a snapshot, and its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// Exact number of rows.
    pub rows: u64,
    /// Stored size in bytes.
    pub bytes: u64,
    /// Digest of the stored bytes: `sha-256:` and hexadecimal.
    pub digest: String,
    /// Time at which the snapshot was complete.
    pub written_at: DateTime<Utc>,
    /// Columns.
    pub columns: Vec<ColumnDefinition>,
    /// Parts in order. Each can be fetched separately, in any order.
    pub chunks: Vec<Chunk>,
    /// Reason for missing rows at the end, if rows are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
}

impl Manifest {
    /// Creates the manifest of a snapshot without rows. Use it to implement a store.
    pub fn new(columns: Vec<ColumnDefinition>, digest: impl Into<String>, written_at: DateTime<Utc>) -> Self {
        Self {
            rows: 0,
            bytes: 0,
            digest: digest.into(),
            written_at,
            columns,
            chunks: Vec::new(),
            truncated: None,
        }
    }
}

/// A part of a snapshot: consecutive rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Index, counted from 0.
    pub index: u64,
    /// Position of the first row.
    pub row_offset: u64,
    /// Number of rows.
    pub row_count: u64,
    /// Stored size in bytes.
    pub bytes: u64,
}
