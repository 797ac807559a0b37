//! Contract tests for the listing of records in pages.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Stores, all, bytes};

/// Tests that a prefix matches only whole segments.
pub async fn listing_keeps_to_its_prefix(stores: &Stores) {
    let store = stores.open().await;
    for key in ["a", "a/1", "a/2/x", "ab/1", "b/1", "A/1"] {
        store.create(key, bytes(key), None).await.unwrap();
    }
    let keys = async |prefix| {
        let mut keys: Vec<_> = all(&*store, prefix, 10).await.into_iter().map(|record| record.key).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys("a/").await, ["a/1", "a/2/x"]);
    assert_eq!(keys("a/2/").await, ["a/2/x"]);
    assert_eq!(keys("").await, ["A/1", "a", "a/1", "a/2/x", "ab/1", "b/1"]);
    assert!(keys("c/").await.is_empty());
}

/// Tests that a pass over all pages returns every record once, with its value.
pub async fn listing_in_pages_shows_each_record_once(stores: &Stores) {
    const RECORDS: usize = 123;
    let store = stores.open().await;
    for number in 0..RECORDS {
        store.create(&format!("list/{number:04}"), bytes(format!("{number}")), None).await.unwrap();
        store.create(&format!("else/{number:04}"), Bytes::new(), None).await.unwrap();
    }
    for limit in [1, 7, RECORDS, RECORDS + 1] {
        let mut records = all(&*store, "list/", limit).await;
        records.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(records.len(), RECORDS, "in pages of {limit}");
        for (number, record) in records.iter().enumerate() {
            assert_eq!(record.key, format!("list/{number:04}"));
            assert_eq!(record.value, bytes(format!("{number}")));
        }
    }
}

/// Tests that the next page skips no record if the records of the previous page are deleted.
pub async fn listing_goes_on_while_records_are_deleted(stores: &Stores) {
    const RECORDS: usize = 50;
    let store = stores.open().await;
    for number in 0..RECORDS {
        store.create(&format!("list/{number}"), Bytes::new(), None).await.unwrap();
    }
    let mut seen = BTreeSet::new();
    let mut after = None;
    loop {
        let page = store.list("list/", after.as_ref(), 4).await.unwrap();
        for record in page.items {
            store.delete(&record.key, record.revision).await.unwrap();
            assert!(seen.insert(record.key.clone()), "`{}` was listed twice", record.key);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), RECORDS);
    assert!(all(&*store, "", 10).await.is_empty());
}

/// Tests that a listed record has its current value and revision.
pub async fn listed_revision_can_be_written_at(stores: &Stores) {
    let store = stores.open().await;
    let first = store.create("key/a", bytes("first"), None).await.unwrap();
    store.update("key/a", bytes("second"), None, first).await.unwrap();
    let listed = all(&*store, "key/", 10).await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].value, bytes("second"));
    store.update("key/a", bytes("third"), None, listed[0].revision).await.unwrap();
}
