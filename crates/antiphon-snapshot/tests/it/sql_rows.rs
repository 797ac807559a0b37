//! What the tests of queries and views share: rows in, rows out.

use std::{sync::Arc, time::Duration};

use antiphon_results::{
    DualResponseError, Owner,
    snapshot::{SnapshotId, SnapshotPage, SnapshotStore as _, SnapshotWriteOptions, View},
};
use antiphon_snapshot::{
    Batches, SnapshotConfig, Snapshots,
    arrow::{
        array::{
            ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
            ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
        },
        datatypes::Int64Type,
    },
};
use futures_util::stream;
use serde_json::Value;

pub(crate) const MIB: usize = 1024 * 1024;

/// A set of nobody's.
pub(crate) fn id(set: &str) -> SnapshotId {
    SnapshotId::new(&Owner::nobody(), set)
}

/// A small pool and little time, so that what is too much is so soon.
pub(crate) fn small() -> SnapshotConfig {
    SnapshotConfig::default()
        .with_pool_bytes(64 * MIB)
        .with_query_time(Duration::from_secs(5))
        .with_chunk_rows(8192)
        .with_page_rows(1024)
}

/// The same with time enough for a store that is far away.
pub(crate) fn patient() -> SnapshotConfig {
    small().with_query_time(Duration::from_secs(30))
}

pub(crate) fn opened(config: SnapshotConfig) -> Snapshots {
    Snapshots::open_with("memory:", [], config).unwrap()
}

pub(crate) async fn write(snapshots: &Snapshots, set: &str, batches: Vec<RecordBatch>) {
    let schema = batches[0].schema();
    let row_source = Batches::new(schema, stream::iter(batches.into_iter().map(Ok))).into();
    let begun = snapshots.begin(&id(set), row_source, SnapshotWriteOptions::sample(1)).await.unwrap();
    begun.rest.await.unwrap();
}

pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// All rows of a view, as JSON.
pub(crate) async fn rows(snapshots: &Snapshots, set: &str, view: &View) -> Vec<Value> {
    let rows = snapshots.prepare(&id(set), view).await.unwrap();
    let page = SnapshotPage::new(0, rows.max(1)).with_view(view.clone());
    let page = snapshots.page(&id(set), &page).await.unwrap();
    assert_eq!(page.len() as u64, rows);
    page.read().unwrap()
}

/// What a query gives over one set, which it knows as `result`.
pub(crate) async fn ask(
    snapshots: &Snapshots,
    set: &str,
    sql: &str,
) -> Result<Vec<Value>, DualResponseError> {
    ask_of(snapshots, &[("result", set)], sql).await
}

/// What a query gives over several sets.
pub(crate) async fn ask_of(
    snapshots: &Snapshots,
    tables: &[(&str, &str)],
    sql: &str,
) -> Result<Vec<Value>, DualResponseError> {
    let tables: Vec<_> = tables.iter().map(|(name, set)| ((*name).to_owned(), id(set))).collect();
    let row_source = snapshots.query(&tables, sql, &Owner::nobody()).await?;
    let answer = id(&format!("rs_answer_{}", unique()));
    let begun = snapshots.begin(&answer, row_source, SnapshotWriteOptions::sample(100)).await?;
    let written = begun.rest.await?;
    let page = SnapshotPage::new(0, written.rows.max(1));
    let rows = snapshots.page(&answer, &page).await?.read().unwrap();
    snapshots.delete(&answer).await?;
    Ok(rows)
}

fn unique() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Colleges: a bit of everything, 20,000 rows in chunks of 8192.
pub(crate) fn colleges(rows: i64) -> RecordBatch {
    const STATES: [&str; 5] = ["CA", "NY", "TX", "VT", "WA"];
    let state = |at: i64| STATES[usize::try_from(at * 7 % 5).unwrap()];
    let start = 1_767_225_600_000_000;
    let lists = (0..rows).map(|at| Some(vec![Some(at % 3), Some(at % 5)]));
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("name", Arc::new(StringArray::from_iter_values((0..rows).map(|at| format!("College {at}"))))),
        ("state", Arc::new((0..rows).map(|at| (at % 11 != 0).then(|| state(at))).collect::<StringArray>())),
        (
            "enrollment",
            Arc::new((0..rows).map(|at| (at % 13 != 0).then(|| at * 7919 % 10_007)).collect::<Int64Array>()),
        ),
        (
            "Revenue",
            Arc::new(Float64Array::from_iter_values(
                (0..rows).map(|at| f64::from(i32::try_from(at % 1000).unwrap()) / 8.0),
            )),
        ),
        (
            "fee",
            Arc::new(
                Decimal128Array::from_iter_values((0..rows).map(|at| i128::from(at % 500) * 101))
                    .with_precision_and_scale(12, 2)
                    .unwrap(),
            ),
        ),
        (
            "public",
            Arc::new((0..rows).map(|at| (at % 17 != 0).then_some(at % 2 == 0)).collect::<BooleanArray>()),
        ),
        (
            "founded",
            Arc::new(Date32Array::from_iter_values((0..rows).map(|at| i32::try_from(at % 20_000).unwrap()))),
        ),
        (
            "seen",
            Arc::new(
                TimestampMicrosecondArray::from_iter_values((0..rows).map(|at| start + at * 60_000_000))
                    .with_timezone("+00:00"),
            ),
        ),
        ("mark", Arc::new(BinaryArray::from_iter_values((0..rows).map(|at| (at % 7).to_be_bytes())))),
        ("tags", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
    ])
}

/// Kinds of colleges, to join with.
pub(crate) fn kinds() -> RecordBatch {
    batch(vec![
        ("state", Arc::new(StringArray::from(vec!["CA", "NY", "TX", "ZZ"]))),
        ("region", Arc::new(StringArray::from(vec![Some("west"), Some("east"), Some("south"), None]))),
    ])
}
