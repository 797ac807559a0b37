//! Snapshots on a disk of their own, and rows of every kind.

use std::{collections::HashMap, sync::Arc};

use antiphon_results::{
    DualResponseError, Owner,
    snapshot::{Export, ExportRequest, SnapshotId, SnapshotStore as _, SnapshotWriteOptions, Written},
};
use antiphon_snapshot::{
    Batches, SnapshotConfig, Snapshots,
    arrow::{
        array::{
            ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
            NullArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
        },
        datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit},
    },
};
use futures_util::{StreamExt as _, stream};

use crate::places::{Place, Places};

/// A folder that goes when this does, and snapshots in it of small chunks and pages.
pub(crate) struct Disk {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) snapshots: Snapshots,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = open(folder.path());
        Self { folder, snapshots }
    }

    /// The same folder, seen by somebody who has read nothing yet.
    pub(crate) fn replica(&self) -> Snapshots {
        open(self.folder.path())
    }

    /// The file with the rows.
    pub(crate) fn data(&self, set: &str) -> std::path::PathBuf {
        let manifest = std::fs::read(self.path(set, "manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        self.path(set, manifest["data"].as_str().unwrap())
    }

    pub(crate) fn path(&self, set: &str, file: &str) -> std::path::PathBuf {
        self.folder.path().join("all").join(set).join(file)
    }
}

fn open(folder: &std::path::Path) -> Snapshots {
    Snapshots::open_with(&format!("file://{}", folder.display()), [], small()).unwrap()
}

/// Small chunks and pages.
fn small() -> SnapshotConfig {
    SnapshotConfig::default().with_chunk_rows(3_000).with_page_rows(256)
}

/// The same wherever others can see it: tests that look at no files run on each of them.
pub(crate) struct Shelf {
    pub(crate) snapshots: Snapshots,
    place: Place,
}

impl Shelf {
    /// The same place, seen by somebody who has read nothing yet.
    pub(crate) fn replica(&self) -> Snapshots {
        self.place.open_with(small())
    }
}

/// One shelf after the other.
pub(crate) struct Shelves(Places);

impl Shelves {
    pub(crate) fn new() -> Self {
        Self(Places::shared())
    }

    pub(crate) async fn next(&mut self) -> Option<Shelf> {
        let place = self.0.next().await?;
        Some(Shelf { snapshots: place.open_with(small()), place })
    }
}

pub(crate) fn id(set: &str) -> SnapshotId {
    SnapshotId::new(&Owner::nobody(), set)
}

pub(crate) async fn write(snapshots: &Snapshots, set: &str, batches: Vec<RecordBatch>) -> Written {
    let schema = batches[0].schema();
    let row_source = Batches::new(schema, stream::iter(batches.into_iter().map(Ok))).into();
    let begun = snapshots.begin(&id(set), row_source, SnapshotWriteOptions::sample(3)).await.unwrap();
    begun.rest.await.unwrap()
}

pub(crate) async fn bytes(export: Export) -> Result<Vec<u8>, DualResponseError> {
    let mut body = export.body;
    let mut bytes = Vec::new();
    while let Some(part) = body.next().await {
        bytes.extend_from_slice(&part?);
    }
    Ok(bytes)
}

pub(crate) async fn exported(snapshots: &Snapshots, set: &str, request: ExportRequest) -> Vec<u8> {
    bytes(snapshots.export(&id(set), &request).await.unwrap()).await.unwrap()
}

/// Numbers from one to another, and text made of them.
pub(crate) fn numbered(rows: std::ops::Range<i64>) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("third", DataType::Float64, true),
    ]);
    let names = rows.clone().map(|row| (row % 7 != 0).then(|| format!("row \"{row}\", of many\n")));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.clone())),
        Arc::new(names.collect::<StringArray>()),
        Arc::new(
            rows.map(|row| (row % 5 != 0).then_some(f64::from(i32::try_from(row).unwrap()) / 3.0))
                .collect::<Float64Array>(),
        ),
    ];
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

fn every_schema() -> SchemaRef {
    let zone = Some("+00:00".into());
    let json = HashMap::from([("antiphon:json".to_owned(), "true".to_owned())]);
    let parts: Fields =
        vec![Field::new("a", DataType::Int64, true), Field::new("é", DataType::Utf8, true)].into();
    Arc::new(Schema::new(vec![
        Field::new("big", DataType::Int64, true),
        Field::new("truth", DataType::Boolean, true),
        Field::new("real", DataType::Float64, true),
        Field::new("money", DataType::Decimal128(38, 4), true),
        Field::new("day", DataType::Date32, true),
        Field::new("local", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("moment", DataType::Timestamp(TimeUnit::Microsecond, zone), true),
        Field::new("text", DataType::Utf8, true),
        Field::new("bytes", DataType::Binary, true),
        Field::new("json", DataType::Utf8, true).with_metadata(json),
        Field::new("parts", DataType::Struct(parts), true),
        Field::new("nothing", DataType::Null, true),
    ]))
}

/// A row of each kind's usual values, one of its odd ones, one of nothing.
pub(crate) fn every_kind() -> RecordBatch {
    let moments = vec![Some(1_700_000_000_250_000), Some(-1), None];
    let DataType::Struct(parts) = every_schema().field(10).data_type().clone() else { unreachable!() };
    let parts = StructArray::new(
        parts,
        vec![
            Arc::new(Int64Array::from(vec![Some(1), None, None])),
            Arc::new(StringArray::from(vec![Some("x"), Some("ü"), None])),
        ],
        Some(vec![true, true, false].into()),
    );
    let money =
        Decimal128Array::from(vec![Some(123_456_789_012_345_678_901_234_567_890_i128), Some(-5_000), None]);
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(i64::MAX), Some(i64::MIN), None])),
        Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        Arc::new(Float64Array::from(vec![Some(0.1), Some(f64::NAN), None])),
        Arc::new(money.with_precision_and_scale(38, 4).unwrap()),
        Arc::new(Date32Array::from(vec![Some(19_000), Some(-1), None])),
        Arc::new(TimestampMicrosecondArray::from(moments.clone())),
        Arc::new(TimestampMicrosecondArray::from(moments).with_timezone("+00:00")),
        Arc::new(StringArray::from(vec![Some("=1+1"), Some("\u{2028}\"\\\u{1}\r\n,🎉"), None])),
        Arc::new(BinaryArray::from(vec![Some(&b"\x00\xff"[..]), Some(&b""[..]), None])),
        Arc::new(StringArray::from(vec![Some("{\"b\":\n[1, 2]}"), Some("not json"), None])),
        Arc::new(parts),
        Arc::new(NullArray::new(3)),
    ];
    RecordBatch::try_new(every_schema(), arrays).unwrap()
}
