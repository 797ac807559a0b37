use std::{
    fmt,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

use crate::error::{Error, Result};

/// The maximum size in bytes of one value, and of all entries of one append. For this limit, each entry counts with
/// its length plus [`ENTRY_COST`] bytes.
pub const MAX_VALUE: usize = 512 * 1024;

/// To compute the size of an append, this number of bytes is added to the length of each entry. So the number of empty
/// entries in one append is limited too.
pub const ENTRY_COST: usize = 16;

/// How long [`Store::remove_expired`] claims the records that it deletes.
const REMOVAL_LEASE: Duration = Duration::from_secs(60);

/// The number of records that [`Store::remove_expired`] deletes concurrently.
const REMOVED_ABREAST: usize = 32;

/// Records and logs that all replicas share.
///
/// # Contract
///
/// **Records.** A record is a value under a key, with a revision.
/// - A write is atomic. Every later read sees the write, through any handle.
/// - [`create`](Self::create) succeeds only if the key has no record. [`update`](Self::update) and
///   [`delete`](Self::delete) succeed only at the given revision. Otherwise these methods return [`Error::Conflict`]
///   and change nothing. If several writers write at one revision, exactly one of them succeeds.
/// - A revision is never used twice for a key, not even after the record was deleted and created again.
///
/// **Expiry.** A record that was written with a `ttl` expires after that time, by the backend's clock.
/// - [`get`](Self::get) and [`list`](Self::list) do not return an expired record, and [`update`](Self::update)
///   returns [`Error::Conflict`]. [`create`](Self::create) replaces the expired record.
/// - The store keeps an expired record until it is deleted. [`claim_expired`](Self::claim_expired) returns the expired
///   record to one claimer at a time. The claimer removes the data that belongs to the record, such as a log, and then
///   deletes the record at its revision. If the claimer does not delete the record, the claim expires, and the record
///   can be claimed again.
/// - If no other data belongs to the records, use [`remove_expired`](Self::remove_expired), which deletes many records
///   in one call. `remove_expired` does not delete live records and claimed records.
/// - A backend is allowed to drop an unclaimed record that expired long ago (at least one day).
/// - A record that was written without a `ttl` never expires, even if an earlier write had a `ttl`.
///
/// **Logs.** A log is a list of entries. An absent log is empty. Logs and records have separate namespaces.
/// - [`append`](Self::append) is atomic, and succeeds only if the log has exactly `at` entries. Otherwise `append`
///   returns [`Error::LogConflict`]. If several writers append at one position, exactly one of them succeeds.
/// - Entries are never changed. Logs do not expire. A log belongs to a record, and the claimer of the expired record
///   deletes the log.
///
/// **Limits.** Names follow the rules in [`name`](crate::name). A value and one append hold up to [`MAX_VALUE`] bytes.
/// For a larger value or append, the call returns [`Error::TooLarge`]. Empty values and entries are allowed. A `limit`
/// must be at least 1. A backend can return fewer items than `limit`, to keep a response small.
///
/// A *handle* is a value that implements this trait. A clone of a handle is another handle to the same data. A second
/// connection to the same engine is also another handle to the same data.
///
/// The module `conformance` (feature `conformance`) contains tests of this contract, which an implementation must
/// pass.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Returns the record under `key`, or `None` if the record does not exist or has expired.
    async fn get(&self, key: &str) -> Result<Option<Record>>;

    /// Creates a record, and returns its revision. Returns [`Error::Conflict`] if the key already has a record that
    /// has not expired.
    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision>;

    /// Replaces the value of a record, and returns the new revision. Returns [`Error::Conflict`] if the record does
    /// not have this `revision`.
    async fn update(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        revision: Revision,
    ) -> Result<Revision>;

    /// Deletes a record, which can be live or expired. Returns [`Error::Conflict`] if the record does not have this
    /// `revision`.
    async fn delete(&self, key: &str, revision: Revision) -> Result<()>;

    /// Returns up to `limit` records whose keys start with `prefix`, in an order that the backend chooses.
    ///
    /// A pass over all pages returns each record that exists during the whole pass at least once. If the record is not
    /// written during the pass, the pass returns it exactly once. A page can be shorter than `limit`, or even empty,
    /// without being the last page. Only the last page has no `next`.
    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>>;

    /// Claims up to `limit` expired records under `prefix`. For the duration of `lease`, no other caller receives
    /// these records.
    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>>;

    /// Deletes up to `limit` expired, unclaimed records under `prefix`, and returns the number of deleted records.
    ///
    /// Call this method until it returns 0. Use this method only if no other data belongs to the records, because the
    /// caller does not receive the deleted records.
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
                // The record was created again since the claim.
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    /// Appends `entries` to a log that has exactly `at` entries, and returns the new number of entries in the log.
    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64>;

    /// Returns up to `limit` entries of a log, starting at index `from`. If the log has an entry at index `from`,
    /// returns at least one entry.
    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>>;

    /// Deletes a log. If the log does not exist, the call succeeds.
    async fn delete_log(&self, log: &str) -> Result<()>;

    /// Returns the time of the clock that expires records. Compare a time that several replicas use with this time,
    /// because the clock of a replica can be wrong.
    ///
    /// The default implementation returns the time of this process, as for a store in memory. A wrapper returns the time
    /// of the wrapped store.
    async fn now(&self) -> Result<SystemTime> {
        Ok(SystemTime::now())
    }

    /// Returns whether the data survives a restart of this process and is visible to other processes.
    ///
    /// A store in memory returns `false`. A wrapper returns the value of the wrapped store.
    fn is_shared(&self) -> bool {
        true
    }
}

/// A value with its key and its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Bytes,
    /// The revision to pass to [`Store::update`] and [`Store::delete`].
    pub revision: Revision,
}

impl Record {
    /// Creates a record. Implementations of a backend use this function.
    pub fn new(key: impl Into<String>, value: Bytes, revision: Revision) -> Self {
        Self { key: key.into(), value, revision }
    }
}

/// The version of a record. Compare two revisions for equality only. Their order has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revision(pub u64);

/// The position at which a listing continues. Only the backend that created the cursor can interpret it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items of the page.
    pub items: Vec<T>,
    /// The position at which the next page starts. `None` on the last page.
    pub next: Option<Cursor>,
}

/// Checks the size of a value. Implementations of a backend use this function.
///
/// # Errors
///
/// Returns [`Error::TooLarge`] if the value has more than [`MAX_VALUE`] bytes.
pub fn check_value(bytes: usize) -> Result<()> {
    fits("a value", bytes, MAX_VALUE)
}

/// Checks the size of the entries of one append. Implementations of a backend use this function.
///
/// # Errors
///
/// Returns [`Error::TooLarge`] if the lengths of the entries, plus [`ENTRY_COST`] bytes for each entry, exceed
/// [`MAX_VALUE`] bytes.
pub fn check_entries(entries: &[Bytes]) -> Result<()> {
    fits("an append", entries.iter().map(|entry| entry.len() + ENTRY_COST).sum(), MAX_VALUE)
}

pub(crate) fn fits(place: &'static str, bytes: usize, limit: usize) -> Result<()> {
    if bytes > limit { Err(Error::TooLarge { place, bytes, limit }) } else { Ok(()) }
}
