//! All rows, in every format.

use std::{io::Cursor, sync::Arc};

use antiphon_results::{
    DualResponseError,
    snapshot::{ByteRange, ExportFormat, ExportRequest, SnapshotPage, SnapshotStore as _},
};
use antiphon_snapshot::{
    Snapshots,
    arrow::{array::AsArray as _, compute::concat_batches, datatypes::Int64Type, ipc::reader::StreamReader},
};
use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};

use crate::read_support::{Disk, Shelves, bytes as taken, every_kind, exported, id, numbered, write};

async fn fill(snapshots: &Snapshots) {
    let batches = (0..8).map(|number| numbered(number * 1_000..(number + 1) * 1_000)).collect();
    write(snapshots, "rs_set", batches).await;
}

/// Formats whose bytes are the same whenever they are written.
const ALL: [ExportFormat; 5] = ExportFormat::ALL;

#[tokio::test]
async fn lines_are_the_rows_of_all_pages() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        let text = String::from_utf8(
            exported(&shelf.snapshots, "rs_set", ExportRequest::new(ExportFormat::Ndjson)).await,
        );
        let rows = shelf.snapshots.page(&id("rs_set"), &SnapshotPage::new(0, u64::MAX)).await.unwrap();
        assert_eq!(rows.len(), 8_000);
        assert!(text.unwrap().split_terminator('\n').eq(rows.iter()));
    }
}

#[tokio::test]
async fn arrow_stream_has_the_rows_and_the_types() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        let stream = exported(&shelf.snapshots, "rs_set", ExportRequest::new(ExportFormat::Arrow)).await;
        let reader = StreamReader::try_new(Cursor::new(stream), None).unwrap();
        let schema = reader.schema();
        let batches: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
        let all = concat_batches(&schema, &batches).unwrap();
        let expected = concat_batches(&schema, &[numbered(0..8_000)]).unwrap();
        assert_eq!(all, expected);
        write(&shelf.snapshots, "rs_kinds", vec![every_kind()]).await;
        let stream = exported(&shelf.snapshots, "rs_kinds", ExportRequest::new(ExportFormat::Arrow)).await;
        let batch = StreamReader::try_new(Cursor::new(stream), None).unwrap().next().unwrap().unwrap();
        assert_eq!(batch.columns(), every_kind().columns());
    }
}

#[tokio::test]
async fn parquet_is_the_stored_file_itself() {
    let disk = Disk::new();
    fill(&disk.snapshots).await;
    let bytes = exported(&disk.snapshots, "rs_set", ExportRequest::new(ExportFormat::Parquet)).await;
    assert_eq!(bytes, std::fs::read(disk.data("rs_set")).unwrap());
}

#[tokio::test]
async fn parquet_has_the_length_and_the_digest_of_the_manifest() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        let request = ExportRequest::new(ExportFormat::Parquet);
        let export = shelf.replica().export(&id("rs_set"), &request).await.unwrap();
        let manifest = shelf.snapshots.manifest(&id("rs_set")).await.unwrap();
        assert_eq!(export.total, Some(manifest.bytes));
        let bytes = taken(export).await.unwrap();
        let digest =
            Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        assert_eq!(manifest.digest, format!("sha-256:{digest}"));
    }
}

#[tokio::test]
async fn parquet_of_some_columns_is_written_anew() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        let request = ExportRequest::new(ExportFormat::Parquet).with_columns(["third", "id"]);
        let bytes = exported(&shelf.snapshots, "rs_set", request.with_chunk(Some(1))).await;
        // What we wrote is what we can read.
        let reader =
            parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(bytes::Bytes::from(bytes), 5_000);
        let batch = reader.unwrap().next().unwrap().unwrap();
        assert_eq!((batch.num_rows(), batch.num_columns()), (3_000, 2));
        assert_eq!(batch.column(1).as_primitive::<Int64Type>().value(0), 3_000);
    }
}

#[tokio::test]
async fn table_has_the_rules_of_all_tables() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        write(&shelf.snapshots, "rs_kinds", vec![every_kind()]).await;
        let columns =
            ["big", "truth", "real", "money", "day", "moment", "text", "bytes", "json", "parts", "nothing"];
        let request = ExportRequest::new(ExportFormat::Csv).with_columns(columns);
        let text = String::from_utf8(exported(&shelf.snapshots, "rs_kinds", request.clone()).await).unwrap();
        let expected = [
            "big,truth,real,money,day,moment,text,bytes,json,parts,nothing\r\n",
            "9223372036854775807,true,0.1,12345678901234567890123456.7890,2022-01-08,2023-11-14T22:13:20.250Z,'=1+1,AP8=,",
            "\"{\"\"b\"\": [1, 2]}\",\"{\"\"a\"\":1,\"\"é\"\":\"\"x\"\"}\",\r\n",
            "-9223372036854775808,false,,-0.5000,1969-12-31,1969-12-31T23:59:59.999999Z,",
            "\"\u{2028}\"\"\\\u{1}\r\n,🎉\",\"\",not json,\"{\"\"a\"\":null,\"\"é\"\":\"\"ü\"\"}\",\r\n",
            ",,,,,,,,,,\r\n",
        ];
        assert_eq!(text, expected.concat());
        let raw = exported(&shelf.snapshots, "rs_kinds", request.with_csv_safe(false)).await;
        assert!(String::from_utf8(raw).unwrap().contains("Z,=1+1,"));
        let alone = ExportRequest::new(ExportFormat::Csv).with_columns(["text"]);
        let text = String::from_utf8(exported(&shelf.snapshots, "rs_kinds", alone).await).unwrap();
        assert!(text.ends_with("\r\n\"\"\r\n"), "a line with nothing on it would be no row");
    }
}

#[tokio::test]
async fn every_range_is_a_part_of_the_whole_in_every_format() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        let set = "rs_large";
        let batches = (0..8).map(|number| numbered(number * 1_000..(number + 1) * 1_000));
        write(&shelf.snapshots, set, batches.collect()).await;
        // Of workbooks there are no parts: they are given whole.
        for format in ALL.into_iter().filter(|format| *format != ExportFormat::Xlsx) {
            let request = ExportRequest::new(format);
            let whole = exported(&shelf.snapshots, set, request.clone()).await;
            let total = whole.len() as u64;
            // One who has learned nothing yet, and one who has.
            for snapshots in [shelf.replica(), shelf.snapshots.clone()] {
                for (range, part) in [
                    (ByteRange::From { first: 0, last: Some(0) }, 0..1),
                    (ByteRange::From { first: 0, last: None }, 0..whole.len()),
                    (
                        ByteRange::From { first: total / 3, last: Some(total / 2) },
                        whole.len() / 3..whole.len() / 2 + 1,
                    ),
                    (
                        ByteRange::From { first: total - 9, last: Some(u64::MAX) },
                        whole.len() - 9..whole.len(),
                    ),
                    (ByteRange::Last(total / 4), whole.len() - whole.len() / 4..whole.len()),
                    (ByteRange::Last(u64::MAX), 0..whole.len()),
                ] {
                    let request = request.clone().with_range(Some(range));
                    let export = snapshots.export(&id(set), &request).await.unwrap();
                    assert_eq!((export.total, export.start), (Some(total), part.start as u64), "{format:?}");
                    assert_eq!(export.length, Some(part.len() as u64));
                    assert!(taken(export).await.unwrap() == whole[part], "{format:?} {range:?}");
                }
                for range in [ByteRange::From { first: total, last: None }, ByteRange::Last(0)] {
                    let request = request.clone().with_range(Some(range));
                    let error = snapshots.export(&id(set), &request).await.unwrap_err();
                    assert!(
                        matches!(&error, DualResponseError::Invalid(text) if text.starts_with("range")),
                        "{error:?}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn replicas_write_the_same_bytes_under_the_same_tag() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        write(
            &shelf.snapshots,
            "rs_set",
            (0..4).map(|number| numbered(number * 1_600..(number + 1) * 1_600)).collect(),
        )
        .await;
        let mut tags = std::collections::BTreeSet::new();
        for format in ALL {
            for request in [
                ExportRequest::new(format),
                ExportRequest::new(format).with_columns(["name", "id"]),
                ExportRequest::new(format).with_chunk(Some(2)),
            ] {
                let one = shelf.replica().export(&id("rs_set"), &request).await.unwrap();
                let two = shelf.replica().export(&id("rs_set"), &request).await.unwrap();
                assert_eq!(one.tag, two.tag);
                assert!(tags.insert(one.tag.clone()), "two exports have one tag");
                assert!(taken(one).await.unwrap() == taken(two).await.unwrap(), "{request:?}");
            }
        }
    }
}

#[tokio::test]
async fn chunks_one_after_the_other_are_the_whole() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        let whole = exported(&shelf.snapshots, "rs_set", ExportRequest::new(ExportFormat::Ndjson)).await;
        let chunks = shelf.snapshots.manifest(&id("rs_set")).await.unwrap().chunks.len() as u64;
        let mut parts = Vec::new();
        for chunk in 0..chunks {
            let request = ExportRequest::new(ExportFormat::Ndjson).with_chunk(Some(chunk));
            parts.extend(exported(&shelf.snapshots, "rs_set", request).await);
        }
        assert!(parts == whole);
        let request = ExportRequest::new(ExportFormat::Ndjson).with_chunk(Some(chunks));
        let error = shelf.snapshots.export(&id("rs_set"), &request).await.unwrap_err();
        assert!(matches!(error, DualResponseError::Invalid(_)), "{error:?}");
    }
}

#[tokio::test]
async fn empty_set_is_exported_in_every_format() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        write(&shelf.snapshots, "rs_none", vec![numbered(0..0)]).await;
        for format in ALL {
            let whole = exported(&shelf.snapshots, "rs_none", ExportRequest::new(format)).await;
            match format {
                ExportFormat::Ndjson => assert!(whole.is_empty()),
                ExportFormat::Csv => assert_eq!(whole, b"id,name,third\r\n"),
                _ => assert!(!whole.is_empty()),
            }
        }
    }
}

#[tokio::test]
async fn dropped_export_stops() {
    let disk = Disk::new();
    write(
        &disk.snapshots,
        "rs_long",
        (0..20).map(|number| numbered(number * 3_000..(number + 1) * 3_000)).collect(),
    )
    .await;
    let request = ExportRequest::new(ExportFormat::Ndjson);
    let mut export = disk.snapshots.export(&id("rs_long"), &request).await.unwrap();
    assert!(export.body.next().await.unwrap().is_ok());
    let runtime = tokio::runtime::Handle::current().metrics();
    // It waits for whoever takes the next part, and so do the chunks it has begun; nobody will.
    assert!(runtime.num_alive_tasks() > 0);
    drop(export);
    while runtime.num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn large_rows_come_a_few_at_a_time() {
    use antiphon_snapshot::arrow::{
        array::{RecordBatch, StringArray},
        datatypes::{DataType, Field, Schema},
    };

    // Stored it is next to nothing: the same text again and again.
    let schema = Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, false)]));
    let text = "x".repeat(200_000);
    let texts = StringArray::from_iter_values(std::iter::repeat_n(&text, 250));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(texts)]).unwrap();
    let disk = Disk::new();
    write(&disk.snapshots, "rs_heavy", vec![batch]).await;
    let mut export =
        disk.snapshots.export(&id("rs_heavy"), &ExportRequest::new(ExportFormat::Ndjson)).await.unwrap();
    let mut total = 0;
    while let Some(part) = export.body.next().await {
        let part = part.unwrap();
        assert!(part.len() < 20_000_000, "{} bytes at once", part.len());
        total += part.len();
    }
    assert_eq!(total, 250 * (200_000 + "{'text':''}\n".len()));
}
