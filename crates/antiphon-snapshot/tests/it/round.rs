//! In and out again.

use std::sync::Arc;

use antiphon_results::{
    Owner,
    snapshot::{SnapshotId, SnapshotPage, SnapshotStore as _, SnapshotWriteOptions},
};
use antiphon_snapshot::{
    Batches, Snapshots,
    arrow::{
        array::{Int64Array, RecordBatch, StringArray},
        datatypes::{DataType, Field, Schema},
    },
};
use futures_util::stream;

#[tokio::test]
async fn rows_come_out_in_the_order_they_came_in() {
    let snapshots = Snapshots::open("memory:").unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
    ]));
    let batch = |from: i64| {
        let ids = Int64Array::from_iter_values(from..from + 1000);
        let names = StringArray::from_iter_values((from..from + 1000).map(|id| format!("row {id}")));
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(ids), Arc::new(names)]).unwrap()
    };
    let batches: Vec<_> = (0..200).map(|number| Ok(batch(number * 1000))).collect();
    let id = SnapshotId::new(&Owner::nobody(), "rs_order");
    let row_source = Batches::new(Arc::clone(&schema), stream::iter(batches)).into();
    let begun = snapshots.begin(&id, row_source, SnapshotWriteOptions::sample(15)).await.unwrap();
    assert_eq!(begun.sample.len(), 15);
    let written = begun.rest.await.unwrap();
    assert_eq!(written.rows, 200_000);
    for offset in [0, 1, 65_530, 131_072, 199_990] {
        let rows = snapshots.page(&id, &SnapshotPage::new(offset, 100)).await.unwrap();
        let expected = (200_000 - offset).min(100);
        assert_eq!(rows.len() as u64, expected);
        assert_eq!(rows.get(0).unwrap(), format!(r#"{{"id":{offset},"name":"row {offset}"}}"#));
    }
}
