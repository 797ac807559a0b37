use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

use crate::error::{Error, Result};

/// The most bytes of one value, and of all entries of one append, each of which counts for
/// [`ENTRY_COST`] more than it has.
pub const MAX_VALUE: usize = 512 * 1024;

/// What an entry of a log costs beside its bytes: so many empty ones are too many, too.
pub const ENTRY_COST: usize = 16;

/// How long [`Store::remove_expired`] holds the records that it deletes one by one.
const REMOVAL_LEASE: Duration = Duration::from_secs(60);

/// How many records it deletes at the same time.
const REMOVED_ABREAST: usize = 32;

/// Keeps records and logs that all replicas see.
///
/// # Contract
///
/// **Records.** A record is a value under a key, with a revision.
/// - A write is atomic and visible to every later read, from whatever opening of the store.
/// - [`create`](Self::create) succeeds only where no record is; [`update`](Self::update) and
///   [`delete`](Self::delete) only at the given revision; else [`Error::Conflict`], and nothing is changed.
///   Of any number of writers at one revision, exactly one wins.
/// - A revision is never used twice for a key, not even after the record was deleted and created again.
///
/// **Expiry.** A record written with a `ttl` has expired when that time is over, by the backend's clock.
/// - An expired record is not read, not listed and not updated. [`create`](Self::create) takes its place.
/// - It is *kept* until somebody deletes it: [`claim_expired`](Self::claim_expired) gives it to one claimer
///   at a time, who removes what hangs on it and then deletes it at its revision. A claim that does not lead
///   to a deletion lapses, and the record can be claimed again.
/// - Where nothing hangs on records, [`remove_expired`](Self::remove_expired) deletes many of them at once. It
///   leaves alone what lives and what somebody has claimed.
/// - A backend may drop what has been expired for very long (a day at least), if nobody claims it.
/// - A write without a `ttl` never expires, whatever the record had before.
///
/// **Logs.** A log is a list of entries; an absent one is empty. Logs and records do not share names.
/// - [`append`](Self::append) is all or nothing, and succeeds only if the log has exactly `at` entries;
///   else [`Error::LogConflict`]. Of any number of writers at one place, exactly one wins.
/// - Entries are never changed. Logs do not expire: they hang on a record, and whoever claims that one
///   deletes them.
///
/// **Limits.** Names follow [`name`](crate::name); a value, and one append, hold up to [`MAX_VALUE`] bytes;
/// more is [`Error::TooLarge`]. Empty values and entries are allowed. A `limit` is at least 1; a backend may give
/// less than it, to keep an answer small.
///
/// Cloning or opening a store again gives another handle on the same data.
///
/// The contract is written as tests in `conformance` (the feature of that name); what passes them is a store.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The record under `key`, if there is one that has not expired.
    async fn get(&self, key: &str) -> Result<Option<Record>>;

    /// Writes a record where none is.
    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision>;

    /// Replaces the record that is at `revision`.
    async fn update(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        revision: Revision,
    ) -> Result<Revision>;

    /// Removes the record that is at `revision`, expired or not.
    async fn delete(&self, key: &str, revision: Revision) -> Result<()>;

    /// Records whose keys begin with `prefix`, up to `limit` of them, in the backend's own order.
    ///
    /// Going through all pages shows every record that was there all the while at least once, and
    /// exactly once if nobody wrote it meanwhile. A page may be shorter than `limit`, even empty, and not
    /// be the last: the last has no `next`.
    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>>;

    /// Takes up to `limit` expired records under `prefix`, which nobody else is then given for `lease`.
    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>>;

    /// Deletes up to `limit` expired records under `prefix` that nobody has claimed, and returns how many there
    /// were. Call it until it returns 0. Use it only for records on which nothing hangs: the caller does not see
    /// which records go.
    ///
    /// The default implementation claims the records and deletes them one by one.
    async fn remove_expired(&self, prefix: &str, limit: usize) -> Result<usize> {
        let expired = self.claim_expired(prefix, REMOVAL_LEASE, limit).await?;
        let deletions =
            expired.into_iter().map(|record| async move { self.delete(&record.key, record.revision).await });
        let deleted: Vec<_> = stream::iter(deletions).buffer_unordered(REMOVED_ABREAST).collect().await;
        let mut removed = 0;
        for deletion in deleted {
            match deletion {
                Ok(()) => removed += 1,
                // Somebody has created the record anew.
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    /// Adds `entries` to a log that has exactly `at` of them, and returns how many it then has.
    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64>;

    /// Entries of a log from number `from` on, up to `limit` of them: at least one, if there is any.
    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>>;

    /// Removes a log, if there is one.
    async fn delete_log(&self, log: &str) -> Result<()>;

    /// Whether other processes can see what is written, and this one after a restart. A store in memory says no; a wrapper
    /// says what it wraps says.
    fn is_shared(&self) -> bool {
        true
    }
}

/// A value, where it is and at which revision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Bytes,
    /// What it must be written or deleted at.
    pub revision: Revision,
}

impl Record {
    /// For those who write a backend.
    pub fn new(key: impl Into<String>, value: Bytes, revision: Revision) -> Self {
        Self { key: key.into(), value, revision }
    }
}

/// Which writing of a record it is. Two are equal or not; their order means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revision(pub u64);

/// Where a listing goes on. Only the backend that made it can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// A part of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is in it.
    pub items: Vec<T>,
    /// Where the next one begins; `None` on the last.
    pub next: Option<Cursor>,
}

/// Refuses what no backend has to take. For those who write one.
pub fn check_value(bytes: usize) -> Result<()> {
    fits("a value", bytes, MAX_VALUE)
}

/// Refuses an append that no backend has to take. For those who write one.
pub fn check_entries(entries: &[Bytes]) -> Result<()> {
    fits("an append", entries.iter().map(|entry| entry.len() + ENTRY_COST).sum(), MAX_VALUE)
}

pub(crate) fn fits(place: &'static str, bytes: usize, limit: usize) -> Result<()> {
    if bytes > limit { Err(Error::TooLarge { place, bytes, limit }) } else { Ok(()) }
}
