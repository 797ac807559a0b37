//! What stands under the keys, and what the keys are.

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

/// What everything is kept under, so that one claim finds all that has expired.
pub(super) const ROOT: &str = "results/";

/// The most bytes of a resource. Beside them there is room for marks, and for counts that grow.
pub(super) const MAX_RESOURCE: usize = Retrying::<dyn Store>::MAX_VALUE - 8 * 1024;

/// How long a set is kept at most after its end, if nobody removes it.
const BACKSTOP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How many writers leave a mark.
const MARKS: usize = 32;

/// An id that can be part of a key. All others name nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id<'a>(pub(super) &'a str);

impl<'a> Id<'a> {
    pub(super) fn new(id: &'a str) -> Option<Self> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        ((1..=64).contains(&id.len()) && id.bytes().all(good)).then_some(Self(id))
    }

    /// For an id that this process has made.
    pub(super) fn made(id: &'a str) -> Result<Self> {
        Self::new(id).ok_or_else(|| {
            DualResponseError::Invalid(
                "the id of a result set is 1 to 64 letters, digits, `_` or `-`".to_owned(),
            )
        })
    }

    /// Where the set is, and after it what became of it.
    pub(super) fn set(self) -> String {
        format!("{ROOT}sets/{}", self.0)
    }

    /// Where its alarm is.
    pub(super) fn alarm(self) -> String {
        format!("{ROOT}ends/{}", self.0)
    }

    /// The log of its rows.
    pub(super) fn rows(self) -> String {
        format!("{ROOT}rows/{}", self.0)
    }
}

/// What stands in the place of a set: the set, or what became of it.
///
/// Both are one record, so that one conditional write decides who has removed a set, and why, and no crash
/// can come between the two.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kept {
    Set(Box<Set>),
    Gone(Buried),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Set {
    pub(super) resource: Resource,
    /// What the last writers wrote last. Where an answer was lost, this tells what became of the write.
    #[serde(default)]
    marks: Vec<Mark>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Buried {
    #[serde(flatten)]
    pub(super) gone: TombstoneEntry,
    /// Which call it was that removed it.
    pub(super) by: String,
}

/// One write, of all those that anybody makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) writer: String,
    pub(super) number: u64,
}

impl Kept {
    /// A set nobody has changed yet.
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

    /// Leaves a mark in place of the writer's last.
    pub(super) fn leave(&mut self, mark: Mark) {
        self.marks.retain(|left| left.writer != mark.writer);
        self.marks.push(mark);
        let old = self.marks.len().saturating_sub(MARKS);
        self.marks.drain(..old);
    }
}

/// How long the record of a resource is kept: far beyond the end of the set, for it is the alarm that ends it.
pub(super) fn backstop(resource: &Resource) -> Option<Duration> {
    resource.expires_at.map(|end| until(end, Utc::now()).saturating_add(BACKSTOP))
}

/// How long it is from `at` to `end`; no time at all, if that is over.
pub(super) fn until(end: DateTime<Utc>, at: DateTime<Utc>) -> Duration {
    (end - at).to_std().unwrap_or_default()
}

/// Refuses a resource that cannot be kept.
pub(super) fn check_size(resource: &Resource) -> Result<()> {
    let bytes = serde_json::to_vec(resource).map_err(storage)?.len();
    if bytes > MAX_RESOURCE { Err(DualResponseError::TooLarge(too_large(bytes))) } else { Ok(()) }
}

fn too_large(bytes: usize) -> String {
    format!(
        "the result set is {bytes} bytes without its rows, and a shared store keeps {MAX_RESOURCE}; give it less \
         metadata, fewer columns or a smaller preview"
    )
}

/// Whether somebody else has written first, and nothing was done.
pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Conflict { .. })
}
