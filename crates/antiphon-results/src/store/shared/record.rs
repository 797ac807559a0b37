//! The keys and the values of the records in the backend.

use std::time::Duration;

use antiphon_store::{Error, Record, Retrying, Revision, Store};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{
    super::{Resource, TombstoneEntry},
    storage,
};
use crate::error::{DualResponseError, Result};

/// The prefix of all keys. With a common prefix, one claim finds all records that have expired.
pub(super) const ROOT: &str = "results/";

/// Maximum size of a resource in bytes. The rest of a stored value is reserved for marks and for counts that become
/// longer.
pub(super) const MAX_RESOURCE: usize = Retrying::<dyn Store>::MAX_VALUE - 8 * 1024;

/// Maximum time that a result set is kept after its expiry time if no clean-up removes the set.
const BACKSTOP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Maximum number of writers whose last mark is kept in a record.
const MARKS: usize = 32;

/// An ID of a result set that is valid as a part of a key. The IDs of all result sets are valid parts of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id<'a>(pub(super) &'a str);

impl<'a> Id<'a> {
    pub(super) fn new(id: &'a str) -> Option<Self> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        ((1..=64).contains(&id.len()) && id.bytes().all(good)).then_some(Self(id))
    }

    /// Checks an ID that this process generated.
    pub(super) fn made(id: &'a str) -> Result<Self> {
        Self::new(id).ok_or_else(|| {
            DualResponseError::Invalid(
                "the ID of the result set is not valid: use 1 to 64 letters, digits, `_` or `-`".to_owned(),
            )
        })
    }

    /// Returns the key of the record that contains the result set, and after the removal its tombstone.
    pub(super) fn set(self) -> String {
        format!("{ROOT}sets/{}", self.0)
    }

    /// Returns the key of the alarm record.
    pub(super) fn alarm(self) -> String {
        format!("{ROOT}ends/{}", self.0)
    }

    /// Returns the name of the log that contains the rows.
    pub(super) fn rows(self) -> String {
        format!("{ROOT}rows/{}", self.0)
    }
}

/// The value under the key of a result set: the result set, or its tombstone.
///
/// The result set and its tombstone share one record. So one conditional write determines which call removed the
/// result set, and why. A crash cannot leave both the result set and the tombstone.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kept {
    Set(Box<Set>),
    Gone(Buried),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Set {
    pub(super) resource: Resource,
    /// The last mark of each writer that recently wrote the record. If the response to a write was lost, the mark shows
    /// whether the write succeeded.
    #[serde(default)]
    marks: Vec<Mark>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Buried {
    #[serde(flatten)]
    pub(super) gone: TombstoneEntry,
    /// Name of the call that removed the result set.
    pub(super) by: String,
}

/// The mark that identifies one write of one writer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) writer: String,
    pub(super) number: u64,
}

impl Kept {
    /// Creates the record of a new result set.
    pub(super) fn new(resource: Resource) -> Self {
        Self::Set(Box::new(Set { resource, marks: Vec::new() }))
    }

    pub(super) fn read(record: &Record) -> Result<(Self, Revision)> {
        let kept = serde_json::from_slice(&record.value).map_err(storage)?;
        Ok((kept, record.revision))
    }

    pub(super) fn write(&self) -> Result<Bytes> {
        serde_json::to_vec(self).map(Bytes::from).map_err(storage)
    }

    pub(super) fn into_set(self) -> Option<Box<Set>> {
        match self {
            Self::Set(set) => Some(set),
            Self::Gone(_) => None,
        }
    }
}

impl Set {
    pub(super) fn has(&self, mark: &Mark) -> bool {
        self.marks.contains(mark)
    }

    /// Adds a mark, and removes the writer's previous mark.
    pub(super) fn leave(&mut self, mark: Mark) {
        self.marks.retain(|left| left.writer != mark.writer);
        self.marks.push(mark);
        let old = self.marks.len().saturating_sub(MARKS);
        self.marks.drain(..old);
    }
}

/// Returns the lifetime of a resource's record. The record lives much longer than the result set, because normally the
/// alarm triggers the removal of the result set.
pub(super) fn backstop(resource: &Resource, now: DateTime<Utc>) -> Option<Duration> {
    resource.expires_at.map(|end| until(end, now).saturating_add(BACKSTOP))
}

/// Returns the time from `at` to `end`, or zero if `end` has passed.
pub(super) fn until(end: DateTime<Utc>, at: DateTime<Utc>) -> Duration {
    (end - at).to_std().unwrap_or_default()
}

/// Returns an error if a resource is too large for the store.
pub(super) fn check_size(resource: &Resource) -> Result<()> {
    let bytes = serde_json::to_vec(resource).map_err(storage)?.len();
    if bytes > MAX_RESOURCE { Err(DualResponseError::TooLarge(too_large(bytes))) } else { Ok(()) }
}

fn too_large(bytes: usize) -> String {
    format!(
        "the result set has {bytes} bytes without its rows, and a shared store accepts {MAX_RESOURCE} bytes; \
         use less metadata, fewer columns or a smaller preview"
    )
}

/// Returns whether a write failed because another writer was faster. A write with a conflict did not change the
/// record.
pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Conflict { .. })
}
