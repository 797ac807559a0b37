use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Truncation;
use crate::column::ColumnDefinition;

/// What is known of a snapshot, and where its parts are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// How many rows there are, exactly.
    pub rows: u64,
    /// How many bytes they are as they are stored.
    pub bytes: u64,
    /// What they are: `sha-256:` and the digest of the stored bytes in hexadecimal.
    pub digest: String,
    /// When they were all there.
    pub written_at: DateTime<Utc>,
    /// The columns.
    pub columns: Vec<ColumnDefinition>,
    /// The parts, in order: each can be got alone, and in any order.
    pub chunks: Vec<Chunk>,
    /// Why rows are missing at the end, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
}

impl Manifest {
    /// A snapshot of these columns without rows, for those who write a store.
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

/// A part of a snapshot: rows that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Which, counted from 0.
    pub index: u64,
    /// Its first row.
    pub row_offset: u64,
    /// How many rows it has.
    pub row_count: u64,
    /// How many bytes it is as it is stored.
    pub bytes: u64,
}
