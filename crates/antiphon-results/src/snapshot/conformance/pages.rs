//! Contract tests for pages of snapshots: row `n` is the same for every reader.

use futures_util::stream;
use serde_json::{Value, json};

use super::{
    super::{RowSource, SnapshotPage, SnapshotStore, SnapshotWriteOptions},
    fixture::{Snapshots, id, page, row, rows, write},
};
use crate::{error::DualResponseError, rows::Rows};

const ROWS: u64 = 5_000;

/// Tests that one page with all rows returns the rows in the order of the source.
pub async fn rows_come_in_the_order_they_came(snapshots: &Snapshots) {
    let store = snapshots.filled(ROWS).await;
    assert_eq!(page(&*store, SnapshotPage::new(0, u64::MAX)).await, rows(0..ROWS));
}

/// Tests that consecutive pages of any size together have all rows.
pub async fn every_page_size_gives_the_same_rows(snapshots: &Snapshots) {
    let store = snapshots.filled(ROWS).await;
    for size in [97, 256, 1_000, 1_024, 4_095, 4_096, 4_097, ROWS] {
        let mut next = 0;
        while next < ROWS {
            let found = page(&*store, SnapshotPage::new(next, size)).await;
            assert_eq!(found, rows(next..ROWS.min(next + size)), "pages of {size}, from {next}");
            next += size;
        }
    }
}

/// Tests pages that start at the first row, in the middle, and after the last row.
pub async fn every_place_is_a_page(snapshots: &Snapshots) {
    snapshots.filled(ROWS).await;
    let store = snapshots.open().await;
    for offset in [0, 1, 255, 256, 4_095, 4_096, ROWS - 1, ROWS, ROWS + 1, u64::MAX] {
        for limit in [0, 1, 2, 1_000, u64::MAX] {
            let found = page(&*store, SnapshotPage::new(offset, limit)).await;
            let end = offset.saturating_add(limit).min(ROWS);
            assert_eq!(found, rows(offset.min(end)..end), "{limit} from {offset}");
        }
    }
}

/// Tests that a page has the requested columns in the requested order. Also tests that the error for an unknown column
/// contains the name of the column.
pub async fn columns_come_as_asked_for(snapshots: &Snapshots) {
    let store = snapshots.filled(10).await;
    let request = SnapshotPage::new(3, 1).with_columns(["text", "id"]);
    let found = store.page(&id("rs_set"), &request).await.unwrap();
    assert_eq!(found.get(0).unwrap(), r#"{"text":"zeile 3 \"ü\"","id":3}"#);
    let request = SnapshotPage::new(0, 1).with_columns(["id", "nowhere"]);
    let error = store.page(&id("rs_set"), &request).await.unwrap_err();
    assert!(matches!(&error, DualResponseError::Invalid(text) if text.contains("nowhere")), "{error:?}");
}

/// Tests that a page with a byte limit has at least one row. Also tests that the next page starts after the last row of
/// the limited page.
pub async fn large_page_may_stop_but_not_at_nothing(snapshots: &Snapshots) {
    let store = snapshots.filled(300).await;
    let mut next = 0;
    while next < 300 {
        let found = page(&*store, SnapshotPage::new(next, 100).with_max_bytes(500)).await;
        assert!(!found.is_empty());
        let end = next + found.len() as u64;
        assert_eq!(found, rows(next..end));
        next = end;
    }
}

/// Tests that every handle to the store returns the digest and the columns that the write returned.
pub async fn digest_is_the_same_for_every_opening(snapshots: &Snapshots) {
    let store = snapshots.open().await;
    let written = write(&*store, &id("rs_set"), 1_000).await;
    for _ in 0..2 {
        let manifest = snapshots.open().await.manifest(&id("rs_set")).await.unwrap();
        assert_eq!((manifest.digest, manifest.bytes), (written.digest.clone(), written.bytes));
        assert_eq!(manifest.columns, written.columns);
    }
}

/// Tests that the chunks contain all rows, in order and without a gap.
pub async fn chunks_are_all_rows(snapshots: &Snapshots) {
    let store = snapshots.filled(ROWS).await;
    let mut next = 0;
    for (index, chunk) in store.manifest(&id("rs_set")).await.unwrap().chunks.into_iter().enumerate() {
        assert_eq!((chunk.index, chunk.row_offset), (index as u64, next));
        next += chunk.row_count;
    }
    assert_eq!(next, ROWS);
}

/// Tests that a result set without rows is valid.
pub async fn set_without_rows_is_a_set(snapshots: &Snapshots) {
    let store = snapshots.filled(0).await;
    assert_eq!(store.manifest(&id("rs_set")).await.unwrap().rows, 0);
    assert!(page(&*store, SnapshotPage::new(0, 10)).await.is_empty());
}

/// Tests that unusual JSON values are the same after a write and a read, if no columns are declared.
pub async fn odd_values_come_back(snapshots: &Snapshots) {
    let odd = [
        json!({"n": 9_007_199_254_740_993_i64, "t": "", "l": [1, null, "x"], "o": {"a": {"b": []}}, "z": null}),
        json!({"n": -1, "t": "\u{0}\u{1f}\"\\\u{2028}🎉", "l": [], "o": {}, "z": null}),
        json!({"n": null, "t": null, "l": null, "o": null, "z": null}),
    ];
    let store = snapshots.open().await;
    let parts = odd.each_ref().map(|value| Ok(Rows::try_from(std::slice::from_ref(value)).unwrap()));
    let row_source = RowSource::rows(stream::iter(parts));
    let begun = store.begin(&id("rs_set"), row_source, SnapshotWriteOptions::default()).await.unwrap();
    begun.rest.await.unwrap();
    let found: Vec<Value> = page(&*store, SnapshotPage::new(0, 10)).await;
    assert_eq!(found, odd);
    assert_ne!(row(0), row(1), "the rows of other laws can be told apart");
}
