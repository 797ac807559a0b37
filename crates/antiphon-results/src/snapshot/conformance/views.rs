//! Contract tests for sorted and filtered views, if the store supports them.

use serde_json::Value;

use super::{
    super::{ExportFormat, ExportRequest, Filter, FilterOp, SnapshotPage, View},
    fixture::{Snapshots, export, page, prepared, rows},
};
use crate::page::Sort;

const ROWS: u64 = 3_000;

fn by_group() -> View {
    View::sorted([Sort::descending("group")])
}

fn sorted() -> Vec<Value> {
    let mut expected = rows(0..ROWS);
    expected.sort_by_key(|row| std::cmp::Reverse(row["group"].as_u64()));
    expected
}

/// Tests that rows with equal sort values keep the order of the source.
pub async fn sorted_view_keeps_ties_in_order(snapshots: &Snapshots) {
    let store = snapshots.filled(ROWS).await;
    let Some(count) = prepared(&*store, &by_group()).await else { return };
    assert_eq!(count, ROWS);
    let expected = sorted();
    let mut found = Vec::new();
    while found.len() < expected.len() {
        let request = SnapshotPage::new(found.len() as u64, 700).with_view(by_group());
        found.extend(page(&*store, request).await);
    }
    assert_eq!(found, expected);
}

/// Tests that a filtered view has exactly the matching rows, in the order of the source.
pub async fn filtered_view_has_the_rows_that_fit(snapshots: &Snapshots) {
    let store = snapshots.filled(ROWS).await;
    let view = View::default().with_filter(Filter::new("group", FilterOp::Ge, 5)).with_filter(Filter::new(
        "text",
        FilterOp::NotNull,
        Value::Null,
    ));
    let Some(count) = prepared(&*store, &view).await else { return };
    let mut expected = rows(0..ROWS);
    expected.retain(|row| row["group"].as_u64() >= Some(5) && !row["text"].is_null());
    assert_eq!(count, expected.len() as u64);
    assert_eq!(page(&*store, SnapshotPage::new(0, u64::MAX).with_view(view)).await, expected);
}

/// Tests that a view is the same for every handle to the store.
pub async fn view_is_the_same_for_every_opening(snapshots: &Snapshots) {
    let store = snapshots.filled(ROWS).await;
    if prepared(&*store, &by_group()).await.is_none() {
        return;
    }
    let other = snapshots.open().await;
    let request = SnapshotPage::new(1_000, 50).with_view(by_group());
    assert_eq!(page(&*other, request).await, sorted()[1_000..1_050]);
    let request = ExportRequest::new(ExportFormat::Ndjson).with_view(by_group());
    let (one, two) = (export(&*store, request.clone(), None).await, export(&*other, request, None).await);
    let lines = one.unwrap();
    assert!(lines == two.unwrap());
    let found: Vec<Value> = lines
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(found, sorted());
}
