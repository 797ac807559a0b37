//! Contract tests for [`Store`].

mod expiry;
mod listing;
mod logs;
mod records;

use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

pub use self::{expiry::*, listing::*, logs::*, records::*};
use super::Stores;
use crate::store::{Record, Store};

/// A duration so short that a test can wait until the duration is over.
pub(super) const SHORT: Duration = Duration::from_millis(300);
/// A duration that is longer than the run of any test.
pub(super) const LONG: Duration = Duration::from_secs(600);
/// The interval between two checks for an expected change.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn bytes(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

pub(super) async fn value(store: &dyn Store, key: &str) -> Option<Bytes> {
    store.get(key).await.unwrap().map(|record| record.value)
}

pub(super) async fn until_expired(store: &dyn Store, key: &str) {
    while store.get(key).await.unwrap().is_some() {
        sleep(POLL_INTERVAL).await;
    }
}

pub(super) async fn claim_one(store: &dyn Store, prefix: &str, lease: Duration) -> Record {
    loop {
        if let Some(record) = store.claim_expired(prefix, lease, 1).await.unwrap().pop() {
            return record;
        }
        sleep(POLL_INTERVAL).await;
    }
}

pub(super) async fn all(store: &dyn Store, prefix: &str, limit: usize) -> Vec<Record> {
    let mut records = Vec::new();
    let mut after = None;
    loop {
        let page = store.list(prefix, after.as_ref(), limit).await.unwrap();
        assert!(page.items.len() <= limit, "a page has no more than was asked for");
        records.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return records,
        }
    }
}

pub(super) async fn whole_log(store: &dyn Store, log: &str) -> Vec<Bytes> {
    let mut entries = Vec::new();
    loop {
        let more = store.read(log, entries.len() as u64, 100).await.unwrap();
        if more.is_empty() {
            return entries;
        }
        entries.extend(more);
    }
}
