//! What was once answered wrong.

use std::{collections::HashMap, sync::Arc};

use antiphon_results::{
    ColumnType, DualResponseError, Owner, Sort,
    snapshot::{
        ByteRange, ExportFormat, ExportRequest, Filter, FilterOp, SnapshotStore as _, SnapshotWriteOptions,
        View,
    },
};
use antiphon_snapshot::{
    Snapshots,
    arrow::{
        array::{ArrayRef, Date64Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray},
        datatypes::{DataType, Field, Schema},
    },
    object_store::{ObjectStore, memory::InMemory},
};
use futures_util::TryStreamExt as _;
use serde_json::{Value, json};

use crate::{
    ingest_support::row_source,
    sql_rows::{MIB, ask, batch, colleges, id, opened, rows, small, write},
};

fn one(column: &str, op: FilterOp, value: Value) -> View {
    View::default().with_filter(Filter::new(column, op, value))
}

async fn refused(snapshots: &Snapshots, set: &str, view: &View) -> String {
    match snapshots.prepare(&id(set), view).await {
        Err(DualResponseError::Invalid(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_decimal_is_not_rounded_to_the_columns_places_before_it_is_compared() {
    let snapshots = opened(small());
    let fees = Decimal128Array::from(vec![99, 100, 101]).with_precision_and_scale(12, 2).unwrap();
    write(&snapshots, "rs_fees", vec![batch(vec![("fee", Arc::new(fees))])]).await;
    for value in [json!(1.004), json!("1.004"), json!("1004e-3")] {
        let text = refused(&snapshots, "rs_fees", &one("fee", FilterOp::Lt, value)).await;
        assert!(text.contains("2 decimal places"), "{text}");
    }
    for value in [json!(1), json!(1.0), json!("1.000"), json!("10e-1")] {
        assert_eq!(rows(&snapshots, "rs_fees", &one("fee", FilterOp::Le, value)).await.len(), 2);
    }
}

/// NaN of both signs, in chunks with other numbers and alone.
fn floats() -> RecordBatch {
    let values = [1.0, f64::NAN, 2.0, -f64::NAN, 9.0, f64::INFINITY, f64::NAN, f64::NAN, 10.0, 11.0];
    let mut values: Vec<_> = values.into_iter().map(Some).collect();
    values.extend([None, Some(f64::NEG_INFINITY)]);
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..12))),
        ("x", Arc::new(Float64Array::from(values))),
    ])
}

#[tokio::test]
async fn what_rows_show_as_nothing_is_nothing_to_filters() {
    for chunk in [2, 8192] {
        let config = small().with_chunk_rows(chunk);
        let snapshots = opened(config);
        write(&snapshots, "rs_floats", vec![floats()]).await;
        let whole = rows(&snapshots, "rs_floats", &View::default()).await;
        let ids = |rows: Vec<Value>| rows.iter().map(|row| row["id"].as_i64().unwrap()).collect::<Vec<_>>();
        let found = async |op, value| ids(rows(&snapshots, "rs_floats", &one("x", op, value)).await);
        let nothing: Vec<_> = whole.iter().filter(|row| row["x"].is_null()).cloned().collect();
        assert_eq!(found(FilterOp::IsNull, Value::Null).await, ids(nothing));
        assert_eq!(found(FilterOp::NotNull, Value::Null).await, [0, 2, 4, 8, 9]);
        assert_eq!(found(FilterOp::Gt, json!(5)).await, [4, 8, 9]);
        assert_eq!(found(FilterOp::Lt, json!(5)).await, [0, 2]);
        assert_eq!(found(FilterOp::Ne, json!(9)).await, [0, 2, 8, 9]);
        assert_eq!(found(FilterOp::In, json!([9, 1])).await, [0, 4]);
        refused(&snapshots, "rs_floats", &one("x", FilterOp::Eq, json!("NaN"))).await;
    }
}

#[tokio::test]
async fn what_rows_show_as_nothing_is_last_in_every_order() {
    let snapshots = opened(small());
    write(&snapshots, "rs_floats", vec![floats()]).await;
    for (sort, numbers) in [(Sort::ascending("x"), [0, 2, 4, 8, 9]), (Sort::descending("x"), [9, 8, 4, 2, 0])]
    {
        let found = rows(&snapshots, "rs_floats", &View::sorted([sort])).await;
        let ids: Vec<_> = found.iter().map(|row| row["id"].as_i64().unwrap()).collect();
        assert_eq!(ids, [&numbers[..], &[1, 3, 5, 6, 7, 10, 11]].concat());
    }
}

#[tokio::test]
async fn sum_of_whole_numbers_does_not_begin_again_from_below() {
    let snapshots = opened(small());
    let numbers = Int64Array::from(vec![i64::MAX, i64::MAX, 2, -7]);
    let kinds = StringArray::from(vec!["a", "a", "a", "b"]);
    write(&snapshots, "rs_sum", vec![batch(vec![("n", Arc::new(numbers)), ("kind", Arc::new(kinds))])]).await;
    let sql = "SELECT CAST(sum(n) AS VARCHAR) AS text, sum(n) AS n FROM result GROUP BY kind ORDER BY kind";
    let found = ask(&snapshots, "rs_sum", sql).await.unwrap();
    let texts: Vec<_> = found.iter().map(|row| row["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["18446744073709551616", "-7"]);
    assert_eq!(found[1]["n"], -7);
    let sql = "SELECT CAST(sum(n) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS VARCHAR) AS text, sum(0.5) OVER () AS halves FROM result";
    let found = ask(&snapshots, "rs_sum", sql).await.unwrap();
    assert_eq!(found[3]["text"], "18446744073709551614");
    assert_eq!(found[3]["halves"], 2.0);
}

#[tokio::test]
async fn other_bytes_have_another_tag() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut tags = Vec::new();
    for compression in [1, 9] {
        let config = small().with_compression(compression);
        let snapshots = Snapshots::on(Arc::clone(&store), config).unwrap();
        if compression == 1 {
            write(&snapshots, "rs_tags", vec![colleges(100)]).await;
        }
        let stored = ExportRequest::new(ExportFormat::Parquet);
        let some = stored.clone().with_columns(["id"]);
        let tag = async |request| snapshots.export(&id("rs_tags"), request).await.unwrap().tag;
        tags.push((tag(&stored).await, tag(&some).await));
    }
    assert_eq!(tags[0].0, tags[1].0, "the stored file is itself, whoever gives it");
    assert_ne!(tags[0].1, tags[1].1, "what is written anew is written otherwise");
}

#[tokio::test]
async fn queries_find_the_same_floats_however_rows_lie_in_chunks() {
    let mut answers = Vec::new();
    for chunk in [2, 3, 8192] {
        let config = small().with_chunk_rows(chunk);
        let snapshots = opened(config);
        write(&snapshots, "rs_floats", vec![floats()]).await;
        let sql = "SELECT count(*) FILTER (WHERE x > 5) AS a, (SELECT count(*) FROM result WHERE x > 5) AS b, (SELECT count(*) FROM result WHERE x < 5) AS c FROM result";
        answers.push(ask(&snapshots, "rs_floats", sql).await.unwrap());
    }
    assert_eq!(answers[0][0]["a"], answers[0][0]["b"]);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

fn marked() -> RecordBatch {
    let mark = HashMap::from([("ARROW:extension:name".to_owned(), "arrow.json".to_owned())]);
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("body", DataType::Utf8, true).with_metadata(mark),
    ]);
    let texts = [Some(r#"{"a":1}"#), Some(r#""a""#), Some("7"), None];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from_iter_values(0..4)), Arc::new(StringArray::from(texts.to_vec()))];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

#[tokio::test]
async fn json_stays_json_in_what_a_query_makes() {
    let snapshots = opened(small());
    write(&snapshots, "rs_json", vec![marked()]).await;
    let tables = [("result".to_owned(), id("rs_json"))];
    let sql = "SELECT id, body AS other, length(body) AS long FROM result ORDER BY id";
    let row_source = snapshots.query(&tables, sql, &Owner::nobody()).await.unwrap();
    let begun = snapshots.begin(&id("rs_made"), row_source, SnapshotWriteOptions::default()).await.unwrap();
    begun.rest.await.unwrap();
    let manifest = snapshots.manifest(&id("rs_made")).await.unwrap();
    let kinds: Vec<_> = manifest.columns.iter().map(|column| column.kind.clone()).collect();
    assert_eq!(kinds, [ColumnType::Integer, ColumnType::Json, ColumnType::Integer]);
    let made = rows(&snapshots, "rs_made", &View::default()).await;
    assert_eq!(made[0], json!({"id": 0, "other": {"a": 1}, "long": 7}));
}

#[tokio::test]
async fn json_is_compared_with_json() {
    let snapshots = opened(small());
    write(&snapshots, "rs_json", vec![marked()]).await;
    let found = async |op, value| {
        let found = rows(&snapshots, "rs_json", &one("body", op, value)).await;
        found.iter().map(|row| row["id"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(found(FilterOp::Eq, json!({"a": 1})).await, [0]);
    assert_eq!(found(FilterOp::Eq, json!("a")).await, [1]);
    assert_eq!(found(FilterOp::Ne, json!("a")).await, [0, 2]);
    assert_eq!(found(FilterOp::In, json!([7, "a"])).await, [1, 2]);
    assert_eq!(found(FilterOp::IsNull, Value::Null).await, [3]);
    for op in [FilterOp::Contains, FilterOp::StartsWith, FilterOp::Lt] {
        let text = refused(&snapshots, "rs_json", &one("body", op, json!("a"))).await;
        assert!(text.contains("contains JSON"), "{text}");
    }
}

#[tokio::test]
async fn a_member_that_comes_twice_is_refused_whichever_is_nothing() {
    for (number, row) in
        [r#"{"a":1,"a":null}"#, r#"{"a":null,"a":1}"#, r#"{"a":null,"a":null}"#, r#"{"a":1,"a":1}"#]
            .into_iter()
            .enumerate()
    {
        let snapshots = opened(small());
        let set = format!("rs_twice_{number}");
        let begun = snapshots.begin(&id(&set), row_source([row]), SnapshotWriteOptions::sample(0)).await;
        let ended = match begun {
            Ok(begun) => begun.rest.await.map(drop),
            Err(error) => Err(error),
        };
        assert!(ended.is_err(), "{row}");
    }
}

#[tokio::test]
async fn a_part_of_what_must_be_written_whole_is_the_whole() {
    let snapshots = opened(small());
    write(&snapshots, "rs_parts", vec![colleges(100)]).await;
    for request in [
        ExportRequest::new(ExportFormat::Parquet).with_columns(["id", "name"]),
        ExportRequest::new(ExportFormat::Xlsx),
    ] {
        if cfg!(not(feature = "xlsx")) && request.format == ExportFormat::Xlsx {
            continue;
        }
        let whole = snapshots.export(&id("rs_parts"), &request).await.unwrap();
        let tag = whole.tag.clone();
        let whole: Vec<_> = whole.body.try_collect().await.unwrap();
        let request = request.with_range(Some(ByteRange::From { first: 10, last: Some(19) }));
        let part = snapshots.export(&id("rs_parts"), &request).await.unwrap();
        assert_eq!((part.start, part.length, part.total, &part.tag), (0, None, None, &tag));
        let part: Vec<_> = part.body.try_collect().await.unwrap();
        assert_eq!(part.concat(), whole.concat());
    }
}

#[tokio::test]
async fn days_are_days_in_a_histogram() {
    let snapshots = opened(small());
    let days = Date64Array::from_iter_values((0..100).map(|day| day * 86_400_000));
    write(&snapshots, "rs_days", vec![batch(vec![("day", Arc::new(days))])]).await;
    let stats = snapshots.stats(&id("rs_days")).await.unwrap();
    let stats = serde_json::to_value(&stats).unwrap();
    assert_eq!(stats[0]["min"], "1970-01-01", "{stats}");
    assert!(!stats[0]["histogram"].as_array().unwrap().is_empty());
    assert!(!stats.to_string().contains("T00:00"), "{stats}");
}

/// The most memory this process ever had.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_text_that_repeats_is_unpacked_a_little_at_a_time() {
    let config = small().with_query_time(std::time::Duration::from_secs(30)).with_chunk_rows(65_536);
    let snapshots = opened(config);
    let text = "x".repeat(200_000);
    let part = |number: i64| {
        let texts = StringArray::from_iter_values(std::iter::repeat_n(&text, 20));
        batch(vec![
            ("id", Arc::new(Int64Array::from_iter_values(number * 20..number * 20 + 20))),
            ("text", Arc::new(texts)),
        ])
    };
    write(&snapshots, "rs_long", (0..100).map(part).collect()).await;
    let before = peak();
    let sql =
        "SELECT sum(octet_length(text)) AS bytes, count(*) AS n FROM result WHERE id >= 0 AND text <> 'y'";
    let found = ask(&snapshots, "rs_long", sql).await.unwrap();
    assert_eq!(found, [json!({"bytes": 400_000_000, "n": 2_000})]);
    let grown = peak() - before;
    assert!(grown < 160 * MIB, "it grew by {} MiB", grown / MIB);
}
