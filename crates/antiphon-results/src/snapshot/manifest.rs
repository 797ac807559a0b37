use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Truncation;
use crate::column::ColumnDefinition;

/// The metadata of a complete snapshot, and the list of its chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// Exact number of rows in the snapshot.
    pub rows: u64,
    /// Size of the stored rows of the snapshot in bytes.
    pub bytes: u64,
    /// Digest of the stored bytes: `sha-256:` and the hash in hexadecimal.
    pub digest: String,
    /// Time at which the write of the snapshot was complete.
    pub written_at: DateTime<Utc>,
    /// Columns of the snapshot.
    pub columns: Vec<ColumnDefinition>,
    /// Chunks of the snapshot, in order. Each chunk can be fetched separately, in any order.
    pub chunks: Vec<Chunk>,
    /// The limit that caused the store to omit the last rows of the snapshot. The value is `None` if the snapshot has
    /// all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
}

impl Manifest {
    /// Creates the manifest of a snapshot without rows. Implementations of a snapshot store use this function.
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

/// A chunk of a snapshot: a number of consecutive rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Index of the chunk, counted from 0.
    pub index: u64,
    /// Position of the chunk's first row in the snapshot.
    pub row_offset: u64,
    /// Number of rows in the chunk.
    pub row_count: u64,
    /// Size of the stored rows of the chunk in bytes.
    pub bytes: u64,
}
