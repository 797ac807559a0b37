use std::{
    fmt,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

use crate::error::{Error, Result};

/// The maximum size in bytes of one value, and of all entries of one append. The size of an append is the length of all
/// its entries, plus [`ENTRY_COST`] bytes for each entry.
pub const MAX_VALUE: usize = 512 * 1024;

/// The number of bytes that is added to the length of each entry to compute the size of an append. `ENTRY_COST` also
/// limits the number of empty entries in one append.
pub const ENTRY_COST: usize = 16;

/// How long [`Store::remove_expired`] claims the records that it deletes.
const REMOVAL_LEASE: Duration = Duration::from_secs(60);

/// The number of records that [`Store::remove_expired`] deletes concurrently.
const REMOVED_ABREAST: usize = 32;

/// Storage for records and logs that all replicas share.
///
/// # Contract
///
/// **Records.** A record is a value under a key, with a revision.
/// - A write is atomic. After a write has returned, every handle reads the written data.
/// - [`create`](Self::create) succeeds only if the key has no record. [`update`](Self::update) and
///   [`delete`](Self::delete) succeed only at the given revision. If the condition of a call is not met, `create`,
///   `update` and `delete` return [`Error::Conflict`] and change nothing. If several writers write at one revision,
///   exactly one of the writers succeeds.
/// - A revision is never used twice for a key, not even after the record was deleted and created again.
///
/// **Expiry.** A record that was written with a `ttl` expires when its `ttl` is over. The backend's clock determines
/// when the `ttl` is over.
/// - [`get`](Self::get) and [`list`](Self::list) do not return an expired record, and [`update`](Self::update)
///   returns [`Error::Conflict`]. [`create`](Self::create) replaces the expired record.
/// - The store keeps an expired record until the record is deleted. [`claim_expired`](Self::claim_expired) returns the
///   expired record to one claimer at a time. The claimer removes the data that belongs to the record, such as a log,
///   and then deletes the record at its revision. If the claimer does not delete the record, the claim expires, and the
///   record can be claimed again.
/// - If no other data belongs to the records, use [`remove_expired`](Self::remove_expired), which deletes many records
///   in one call. `remove_expired` does not delete live records and claimed records.
/// - A backend can drop an unclaimed record that expired at least one day ago.
/// - A record that was written without a `ttl` never expires, even if an earlier write had a `ttl`.
///
/// **Logs.** A log is a list of entries. A log that does not exist is read as an empty log. Logs and records have
/// separate namespaces.
/// - [`append`](Self::append) is atomic, and succeeds only if the log has exactly `at` entries. If the log has another
///   number of entries, `append` returns [`Error::LogConflict`]. If several writers append at one position, exactly one
///   of the writers succeeds.
/// - The entries of a log are never changed. Logs do not expire. A log belongs to a record, and the claimer of the
///   expired record deletes the log.
///
/// **Limits.** Names follow the rules in [`name`](crate::name). A value and one append hold up to [`MAX_VALUE`] bytes.
/// For a larger value or append, the call returns [`Error::TooLarge`]. Empty values and entries are allowed. A `limit`
/// must be at least 1. A backend can return fewer items than `limit`, to keep a response small.
///
/// A *handle* is a value that implements `Store`. A clone of a handle is another handle to the same data. A second
/// connection to the same engine is also another handle to the same data.
///
/// The module `conformance` (feature `conformance`) contains tests of the contract of `Store`, which every
/// implementation must pass.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Returns the record under `key`, or `None` if the record does not exist or has expired.
    async fn get(&self, key: &str) -> Result<Option<Record>>;

    /// Creates a record, and returns its revision. Returns [`Error::Conflict`] if the key already has a record that
    /// has not expired.
    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision>;

    /// Replaces the value of a record, and returns the new revision. Returns [`Error::Conflict`] if the record does not
    /// have the revision `revision`.
    async fn update(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        revision: Revision,
    ) -> Result<Revision>;

    /// Deletes a record, which can be live or expired. Returns [`Error::Conflict`] if the record does not have the
    /// revision `revision`.
    async fn delete(&self, key: &str, revision: Revision) -> Result<()>;

    /// Returns up to `limit` records whose keys start with `prefix`, in an order that the backend chooses.
    ///
    /// A pass over all pages returns each record that exists during the whole pass at least once. A pass returns a
    /// record exactly once if the record is not written during the pass. A page can be shorter than `limit`, or even
    /// empty, without being the last page. `next` is `None` only on the last page of a listing.
    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>>;

    /// Claims up to `limit` expired records under `prefix`. For the duration of `lease`, no other caller receives the
    /// claimed records.
    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>>;

    /// Deletes up to `limit` expired, unclaimed records under `prefix`, and returns the number of deleted records.
    ///
    /// Call `remove_expired` until it returns 0. Use `remove_expired` only if no other data belongs to the records,
    /// because the caller does not receive the deleted records.
    ///
    /// The default implementation claims the expired records and deletes these records one by one.
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
    /// `read` returns at least one entry.
    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>>;

    /// Deletes a log. If the log does not exist, the deletion also succeeds.
    async fn delete_log(&self, log: &str) -> Result<()>;

    /// Returns the time of the clock that expires records. If several replicas use a time, compare the time with the
    /// store's clock, because the clock of a replica can be wrong.
    ///
    /// The default implementation returns the time of this process, as for a store in memory. A wrapper of a store
    /// returns the time of the wrapped store.
    async fn now(&self) -> Result<SystemTime> {
        Ok(SystemTime::now())
    }

    /// Returns whether the data survives a restart of this process and is visible to other processes.
    ///
    /// A store in memory returns `false`. A wrapper of a store returns the value of the wrapped store.
    fn is_shared(&self) -> bool {
        true
    }
}

/// A value with its key and its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The key of the record.
    pub key: String,
    /// The value of the record.
    pub value: Bytes,
    /// The revision to pass to [`Store::update`] and [`Store::delete`].
    pub revision: Revision,
}

impl Record {
    /// Creates a record. Implementations of a backend create records with `Record::new`.
    pub fn new(key: impl Into<String>, value: Bytes, revision: Revision) -> Self {
        Self { key: key.into(), value, revision }
    }
}

/// The version of a record. Compare two revisions for equality only. The order of revisions has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revision(pub u64);

/// The position at which a listing continues. Only the backend that created a cursor can interpret the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items of the page.
    pub items: Vec<T>,
    /// The position at which the next page starts. The value is `None` on the last page.
    pub next: Option<Cursor>,
}

/// Checks the size of a value. Implementations of a backend use `check_value`.
///
/// # Errors
///
/// Returns [`Error::TooLarge`] if the value has more than [`MAX_VALUE`] bytes.
pub fn check_value(bytes: usize) -> Result<()> {
    fits("a value", bytes, MAX_VALUE)
}

/// Checks the size of the entries of one append. Implementations of a backend use `check_entries`.
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
