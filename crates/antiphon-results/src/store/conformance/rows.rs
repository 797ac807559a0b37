//! Contract tests for stored rows.

use serde_json::json;

use super::{
    super::{Removal, ResourceStore},
    fixture::{Stores, clean_up, live, over},
};
use crate::rows::Rows;

/// Returns `count` test rows. Each row contains the number of the row, and a text of `letters(number)` letters.
fn numbered(count: usize, letters: impl Fn(usize) -> usize) -> Rows {
    let mut rows = Rows::new();
    for number in 0..count {
        rows.push(&json!({"n": number, "ü": "x".repeat(letters(number))})).unwrap();
    }
    rows
}

async fn put(store: &dyn ResourceStore, id: &str, rows: &Rows) {
    store.put_rows(id, rows.clone()).await.unwrap();
}

async fn assert_page(store: &dyn ResourceStore, id: &str, rows: &Rows, offset: u64, limit: u64) {
    let page = store.rows(id, offset, limit).await.unwrap();
    let place = |number| usize::try_from(number).unwrap_or(usize::MAX);
    assert!(page == rows.slice(place(offset), place(limit)), "{limit} rows from {offset} on are {page:?}");
}

/// Tests pages that start at the first row, in the middle, and after the last row.
pub async fn rows_are_read_at_every_place(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    let rows = numbered(23, |_| 1);
    put(&*one, "set", &rows).await;
    one.save(live(stores, "set")).await.unwrap();
    for offset in [0, 1, 2, 10, 21, 22, 23, 24, 1000, u64::MAX - 1, u64::MAX] {
        for limit in [0, 1, 2, 13, 22, 23, 24, 1000, u64::MAX] {
            assert_page(&*two, "set", &rows, offset, limit).await;
        }
    }
}

/// Tests that the store returns many rows, which need more than one write, in order.
pub async fn many_rows_are_read_in_order(stores: &Stores) {
    const ROWS: usize = 30_000;
    let store = stores.open().await;
    let rows = numbered(ROWS, |number| number % 7);
    put(&*store, "set", &rows).await;
    store.save(live(stores, "set")).await.unwrap();
    assert_page(&*store, "set", &rows, 0, u64::MAX).await;
    for offset in [0, 999, 1000, 8_191, 8_192, 11_000, 12_345, 20_000, 29_990, 29_999, 30_000] {
        assert_page(&*store, "set", &rows, offset, 100).await;
    }
    assert_page(&*store, "set", &rows, 9_000, 5_000).await;
}

/// Tests that the store keeps empty rows, unusual rows, and rows so large that one write can contain only one row.
pub async fn rows_of_every_size_are_kept(stores: &Stores) {
    let store = stores.open().await;
    let sizes = [0, 300_000, 1, 300_000, 300_000, 150_000, 7, 262_144, 0, 400_000];
    let mut rows = numbered(sizes.len(), |number| sizes[number]);
    for row in
        ["{}", "{\"\":\"\\u0000 \u{1F980}\u{2028}\"}", "{\"a\" : 1.10 , \"b\":[ ]}", "{\"n\":1e400}", "{}"]
    {
        rows.push_json(row).unwrap();
    }
    put(&*store, "set", &rows).await;
    store.save(live(stores, "set")).await.unwrap();
    assert_page(&*store, "set", &rows, 0, u64::MAX).await;
    for offset in 0..rows.len() as u64 {
        assert_page(&*store, "set", &rows, offset, 2).await;
    }
}

/// Tests that every result set has its own rows.
pub async fn rows_of_sets_are_apart(stores: &Stores) {
    let store = stores.open().await;
    let (few, more) = (numbered(3, |_| 2), numbered(5, |_| 4));
    for (id, rows) in [("set", &few), ("set-1", &more), ("SET", &more)] {
        put(&*store, id, rows).await;
        store.save(live(stores, id)).await.unwrap();
    }
    for (id, rows) in [("set", &few), ("set-1", &more), ("SET", &more), ("se", &Rows::new())] {
        assert_page(&*store, id, rows, 0, 10).await;
    }
}

/// Tests that every kind of removal removes the rows of the result set, and no other rows.
pub async fn rows_of_a_deleted_set_are_gone(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    let rows = numbered(10, |_| 10);
    for set in [live(stores, "deleted"), over(stores, "over"), live(stores, "kept")] {
        put(&*one, &set.id, &rows).await;
        one.save(set).await.unwrap();
    }
    assert!(one.delete("deleted", Removal::Deleted).await.unwrap());
    clean_up(stores, &*one, &["over"]).await;
    for store in [one, two] {
        assert_page(&*store, "deleted", &Rows::new(), 0, 10).await;
        assert_page(&*store, "over", &Rows::new(), 0, 10).await;
        assert_page(&*store, "kept", &rows, 0, 10).await;
    }
}

/// Tests that a result set can have no rows.
pub async fn no_rows_are_no_rows(stores: &Stores) {
    let store = stores.open().await;
    put(&*store, "set", &Rows::new()).await;
    store.save(live(stores, "set")).await.unwrap();
    for (offset, limit) in [(0, 0), (0, 10), (5, 10)] {
        assert_page(&*store, "set", &Rows::new(), offset, limit).await;
    }
    assert!(store.get("set").await.unwrap().is_some());
    assert!(store.delete("set", Removal::Deleted).await.unwrap());
}
