//! Arrow batches of any schema.

use std::sync::Arc;

use antiphon_results::{
    DualResponseError,
    snapshot::{SnapshotStore as _, SnapshotWriteOptions},
};
use antiphon_snapshot::{
    Batches, SnapshotConfig, Snapshots,
    arrow::{
        array::{
            Array as _, ArrayRef, BinaryArray, BinaryViewArray, Decimal128Array, DictionaryArray, Int32Array,
            Int64Array, ListArray, NullArray, RecordBatch, StringArray, StringViewArray, StructArray,
            TimestampMicrosecondArray, UInt64Array,
        },
        datatypes::{DataType, Field, Int32Type, Schema, TimeUnit},
    },
};
use futures_util::stream;

use crate::{
    ingest_support::{id, kinds, read},
    places::Places,
};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

async fn take(
    snapshots: &Snapshots,
    set: &str,
    batch: RecordBatch,
) -> Result<antiphon_results::snapshot::Written, DualResponseError> {
    let row_source = Batches::new(batch.schema(), stream::iter([Ok(batch)])).into();
    snapshots.begin(&id(set), row_source, SnapshotWriteOptions::default()).await?.rest.await
}

#[tokio::test]
async fn every_type_is_kept_and_views_and_dictionaries_become_plain() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let dictionary: DictionaryArray<Int32Type> = ["x", "y"].into_iter().collect();
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
        let structs = StructArray::from(vec![(
            Arc::new(Field::new("inner", DataType::Utf8View, true)),
            Arc::new(StringViewArray::from(vec![Some("deep"), None])) as ArrayRef,
        )]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("view", Arc::new(StringViewArray::from(vec!["a text that is longer than a view", "b"]))),
            ("bytes", Arc::new(BinaryViewArray::from(vec![b"\xff\x00".as_slice(), b""]))),
            ("dictionary", Arc::new(dictionary)),
            ("list", Arc::new(list)),
            ("struct", Arc::new(structs)),
            ("nothing", Arc::new(NullArray::new(2))),
            ("unsigned", Arc::new(UInt64Array::from(vec![u64::MAX, 0]))),
            (
                "money",
                Arc::new(Decimal128Array::from(vec![12345, -1]).with_precision_and_scale(38, 2).unwrap()),
            ),
            ("at", Arc::new(TimestampMicrosecondArray::from(vec![0, 1]).with_timezone("UTC"))),
        ];
        let written = take(&snapshots, "rs_types", batch(columns)).await.unwrap();
        let expected = [
            ("view", "string"),
            ("bytes", "string"),
            ("dictionary", "string"),
            ("list", "json"),
            ("struct", "json"),
            ("nothing", "json"),
            ("unsigned", "integer"),
            ("money", "number"),
            ("at", "timestamp"),
        ];
        assert_eq!(kinds(&written.columns), expected);
        let read = read(&snapshots, "rs_types").await;
        assert_eq!(read[0]["view"], "a text that is longer than a view");
        assert_eq!(read[1]["dictionary"], "y");
        assert_eq!(read[0]["list"], serde_json::json!([1, null]));
        assert_eq!(read[0]["struct"]["inner"], "deep");
        assert_eq!(read[0]["unsigned"].as_u64(), Some(u64::MAX));
        assert!(read[0]["nothing"].is_null());
    }
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_by_its_name() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let runs = DataType::RunEndEncoded(
            Arc::new(Field::new("run_ends", DataType::Int32, false)),
            Arc::new(Field::new("values", DataType::Utf8, true)),
        );
        let same = |name: &str| Field::new(name, DataType::Int32, true);
        let cases = [
            (vec![Field::new("odd", runs, true)], "column `odd` has type"),
            (vec![same("a"), same("a")], "two columns have the name `a`"),
            (vec![same("")], "no name"),
            ((0..1001).map(|number| same(&format!("c{number}"))).collect(), "more than 1000 columns"),
        ];
        for (fields, expected) in cases {
            let row_source = Batches::new(Arc::new(Schema::new(fields)), stream::empty()).into();
            let error = snapshots
                .begin(&id("rs_bad"), row_source, SnapshotWriteOptions::default())
                .await
                .unwrap_err();
            assert!(
                matches!(&error, DualResponseError::Invalid(text) if text.contains(expected)),
                "{error:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_batch_of_another_schema_ends_the_snapshot() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let announced = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]));
        let others = [
            batch(vec![("a", Arc::new(Int64Array::from(vec![1])))]),
            batch(vec![
                ("a", Arc::new(Int32Array::from(vec![1]))),
                ("b", Arc::new(Int32Array::from(vec![1]))),
            ]),
            batch(vec![("a", Arc::new(Int32Array::from(vec![None])))]),
        ];
        for other in others {
            let good = batch(vec![("a", Arc::new(Int32Array::from_iter_values(0..20)))]);
            let row_source = Batches::new(Arc::clone(&announced), stream::iter([Ok(good), Ok(other)])).into();
            let begun =
                snapshots.begin(&id("rs_mixed"), row_source, SnapshotWriteOptions::default()).await.unwrap();
            let error = begun.rest.await.unwrap_err();
            assert!(matches!(error, DualResponseError::Invalid(_)), "{error:?}");
            assert_eq!(snapshots.usage(None).await.unwrap(), 0);
        }
    }
}

#[tokio::test]
async fn one_row_of_twenty_mebibytes_is_taken() {
    let mut state = 7_u64;
    let mut large = Vec::new();
    while large.len() < 20 << 20 {
        // Bytes that do not compress.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        large.extend(state.to_le_bytes());
    }
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let config = SnapshotConfig::default().with_chunk_bytes(8 << 20);
        let snapshots = place.open_with(config);
        let values = vec![large.as_slice(), b"small"];
        let batch = batch(vec![("blob", Arc::new(BinaryArray::from(values)))]);
        let written = take(&snapshots, "rs_large", batch).await.unwrap();
        assert_eq!(written.rows, 2);
        let manifest = snapshots.manifest(&id("rs_large")).await.unwrap();
        assert!(manifest.chunks.len() > 1, "{:?}", manifest.chunks);
        let page = antiphon_results::snapshot::SnapshotPage::new(1, 1);
        assert_eq!(snapshots.page(&id("rs_large"), &page).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn text_and_times_of_every_unit_come_back() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let schema = Arc::new(Schema::new(vec![
            Field::new("s", DataType::Timestamp(TimeUnit::Second, None), true),
            Field::new("t", DataType::Utf8, false),
        ]));
        let seconds = antiphon_snapshot::arrow::array::TimestampSecondArray::from(vec![Some(86_400), None]);
        let text = StringArray::from(vec!["", "ü"]);
        let batch = RecordBatch::try_new(schema, vec![Arc::new(seconds), Arc::new(text)]).unwrap();
        let written = take(&snapshots, "rs_units", batch).await.unwrap();
        assert_eq!((written.columns[0].nullable, written.columns[1].nullable), (Some(true), None));
        let read = read(&snapshots, "rs_units").await;
        assert!(read[0]["s"].as_str().unwrap().starts_with("1970-01-02T00:00:00"));
        assert_eq!((&read[1]["s"], &read[1]["t"]), (&serde_json::Value::Null, &serde_json::json!("ü")));
    }
}
