//! Filters and SQL over a set of more rows than a batch has, with bounds of memory and time.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use antiphon_results::{
    DualResponseError, Owner,
    snapshot::{SnapshotId, SnapshotPage, SnapshotStore as _, SnapshotWriteOptions, View},
};
use antiphon_snapshot::{
    Batches, SnapshotConfig, Snapshots,
    arrow::array::{ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray},
};
use futures_util::stream;

use crate::run;

fn id() -> SnapshotId {
    SnapshotId::new(&Owner::nobody(), "rs_set")
}

/// More rows than the engine takes at a time: a query that costs something for each row shows it.
const ROWS: i32 = 10_000;

/// The most bytes of memory that this process may have, with everything it has read and written.
const MAX_RESIDENT: usize = 1024 * 1024 * 1024;

/// Rows with a column of each kind that is filtered differently.
async fn snapshots() -> &'static Snapshots {
    static SNAPSHOTS: OnceLock<Snapshots> = OnceLock::new();
    if let Some(snapshots) = SNAPSHOTS.get() {
        return snapshots;
    }
    // What is too much is so soon: less than `run` waits for.
    let config =
        SnapshotConfig::default().with_pool_bytes(64 * 1024 * 1024).with_query_time(Duration::from_secs(2));
    let snapshots = Snapshots::open_with("memory:", [], config).expect("memory is there");
    let columns: [(&str, ArrayRef); 5] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..i64::from(ROWS)))),
        (
            "name",
            Arc::new((0..ROWS).map(|n| (n % 7 > 0).then(|| format!("name {n}"))).collect::<StringArray>()),
        ),
        ("fee", Arc::new(Float64Array::from_iter_values((0..ROWS).map(|n| f64::from(n) / 3.0)))),
        ("public", Arc::new((0..ROWS).map(|n| Some(n % 2 == 0)).collect::<BooleanArray>())),
        ("founded", Arc::new(Date32Array::from_iter_values(0..ROWS))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("they are as long as each other");
    let row_source = Batches::new(batch.schema(), stream::iter([Ok(batch)])).into();
    let begun = snapshots.begin(&id(), row_source, SnapshotWriteOptions::sample(1)).await.expect("it begins");
    begun.rest.await.expect("it is written");
    SNAPSHOTS.get_or_init(|| snapshots)
}

/// What is refused is refused for a reason that has a name; nothing breaks.
fn unbroken<T>(outcome: Result<T, DualResponseError>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error @ (DualResponseError::Snapshot(_) | DualResponseError::Storage(_))) => {
            panic!("something broke inside: {error:?}")
        }
        Err(_) => None,
    }
}

/// An order and a choice of rows, as a request's body has them.
pub fn filter(data: &[u8]) {
    let Ok(view) = serde_json::from_slice::<View>(data) else { return };
    run(async {
        let snapshots = snapshots().await;
        let Some(count) = unbroken(snapshots.prepare(&id(), &view).await) else { return };
        assert!(count <= u64::from(ROWS.unsigned_abs()), "no more rows than there are");
        let page = SnapshotPage::new(0, 10).with_view(view);
        if let Some(rows) = unbroken(snapshots.page(&id(), &page).await) {
            assert_eq!(rows.len() as u64, count.min(10));
        }
    });
}

/// A query, read, planned, and run until its first rows are there.
pub fn sql(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    run(async {
        let snapshots = snapshots().await;
        let tables = [("result".to_owned(), id())];
        let Some(rows) = unbroken(snapshots.query(&tables, text, &Owner::nobody()).await) else { return };
        let answer = SnapshotId::new(&Owner::nobody(), "rs_answer");
        let _ = unbroken(snapshots.begin(&answer, rows, SnapshotWriteOptions::sample(1)).await);
    });
    let resident = resident();
    assert!(resident < MAX_RESIDENT, "the process has {resident} bytes of memory");
}

/// How many bytes of memory this process has, where the system says so.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
