//! Filters and SQL over a small set.

use std::sync::{Arc, OnceLock};

use antiphon_results::{
    DualResponseError, Owner,
    snapshot::{IntakeOptions, SnapshotId, SnapshotPage, SnapshotStore as _, View},
};
use antiphon_snapshot::{
    Batches, Snapshots,
    arrow::array::{ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray},
};
use futures_util::stream;

use crate::run;

fn id() -> SnapshotId {
    SnapshotId::new(&Owner::nobody(), "rs_set")
}

/// Fifty rows with a column of each kind that is filtered differently.
async fn snapshots() -> &'static Snapshots {
    static SNAPSHOTS: OnceLock<Snapshots> = OnceLock::new();
    if let Some(snapshots) = SNAPSHOTS.get() {
        return snapshots;
    }
    let snapshots = Snapshots::open("memory:").expect("memory is there");
    let columns: [(&str, ArrayRef); 5] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..50))),
        (
            "name",
            Arc::new((0..50).map(|n| (n % 7 > 0).then(|| format!("name {n}"))).collect::<StringArray>()),
        ),
        ("fee", Arc::new(Float64Array::from_iter_values((0..50).map(|n| f64::from(n) / 3.0)))),
        ("public", Arc::new((0..50).map(|n| Some(n % 2 == 0)).collect::<BooleanArray>())),
        ("founded", Arc::new(Date32Array::from_iter_values(0..50))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("they are as long as each other");
    let intake = Batches::new(batch.schema(), stream::iter([Ok(batch)])).into();
    let begun = snapshots.begin(&id(), intake, IntakeOptions::sample(1)).await.expect("it begins");
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
        assert!(count <= 50, "no more rows than there are");
        let page = SnapshotPage::new(0, 10).with_view(view);
        if let Some(rows) = unbroken(snapshots.page(&id(), &page).await) {
            assert_eq!(rows.len() as u64, count.min(10));
        }
    });
}

/// A query, read and planned.
pub fn sql(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    run(async {
        let tables = [("result".to_owned(), id())];
        let _ = unbroken(snapshots().await.query(&tables, text, &Owner::nobody()).await);
    });
}
