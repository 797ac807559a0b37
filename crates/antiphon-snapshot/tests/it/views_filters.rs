//! Filtered views against the same filters in plain Rust.

use antiphon_results::{
    Sort,
    snapshot::{Filter, FilterOp, SnapshotStore as _, View},
};
use serde_json::{Value, json};

use crate::{
    places::Places,
    sql_rows::{colleges, id, patient, rows, write},
};

fn filter(column: &str, op: FilterOp, value: Value) -> View {
    View::default().with_filter(Filter::new(column, op, value))
}

fn text<'a>(row: &'a Value, column: &str) -> Option<&'a str> {
    row[column].as_str()
}

#[tokio::test]
async fn filters_choose_what_they_say() {
    type Check = fn(&Value) -> bool;
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let config = patient().with_chunk_rows(1_000);
        let snapshots = place.open_with(config);
        write(&snapshots, "rs_filters", vec![colleges(3_000)]).await;
        let whole = rows(&snapshots, "rs_filters", &View::default()).await;
        let cases: Vec<(View, Check)> = vec![
            (filter("id", FilterOp::Lt, json!(17)), |row| row["id"].as_i64().unwrap() < 17),
            (filter("id", FilterOp::Ge, json!("2990")), |row| row["id"].as_i64().unwrap() >= 2_990),
            (filter("enrollment", FilterOp::Eq, json!(7919)), |row| row["enrollment"] == 7919),
            (filter("enrollment", FilterOp::Ne, json!(7919)), |row| {
                !row["enrollment"].is_null() && row["enrollment"] != 7919
            }),
            (filter("enrollment", FilterOp::Le, json!(100)), |row| {
                row["enrollment"].as_i64().is_some_and(|n| n <= 100)
            }),
            (filter("enrollment", FilterOp::IsNull, Value::Null), |row| row["enrollment"].is_null()),
            (filter("enrollment", FilterOp::NotNull, Value::Null), |row| !row["enrollment"].is_null()),
            (filter("tags", FilterOp::NotNull, Value::Null), |row| !row["tags"].is_null()),
            (filter("state", FilterOp::In, json!(["CA", "VT"])), |row| {
                matches!(text(row, "state"), Some("CA" | "VT"))
            }),
            (filter("state", FilterOp::In, json!([])), |_| false),
            (filter("name", FilterOp::Contains, json!("EGE 77")), |row| {
                text(row, "name").unwrap().contains("ege 77")
            }),
            (filter("name", FilterOp::Contains, json!("%")), |row| text(row, "name").unwrap().contains('%')),
            (filter("name", FilterOp::Contains, json!("College_1")), |_| false),
            (filter("name", FilterOp::StartsWith, json!("College 29")), |row| {
                text(row, "name").unwrap().starts_with("College 29")
            }),
            (filter("name", FilterOp::StartsWith, json!("college")), |_| false),
            (filter("Revenue", FilterOp::Gt, json!(124.5)), |row| row["Revenue"].as_f64().unwrap() > 124.5),
            (filter("public", FilterOp::Eq, json!(true)), |row| row["public"] == true),
            (filter("founded", FilterOp::Lt, json!("1970-01-11")), |row| {
                text(row, "founded").unwrap() < "1970-01-11"
            }),
            (filter("seen", FilterOp::Ge, json!("2026-01-02T12:00:00Z")), |row| {
                row["id"].as_i64().unwrap() >= 2_160
            }),
            (filter("seen", FilterOp::Lt, json!("2026-01-01T02:00:00+01:00")), |row| {
                row["id"].as_i64().unwrap() < 60
            }),
            (filter("fee", FilterOp::Eq, json!(2.02)), |row| row["id"].as_i64().unwrap() % 500 == 2),
            (filter("fee", FilterOp::Eq, json!("2.02")), |row| row["id"].as_i64().unwrap() % 500 == 2),
            (filter("mark", FilterOp::Eq, json!("AAAAAAAAAAM=")), |row| row["id"].as_i64().unwrap() % 7 == 3),
        ];
        for (view, check) in cases {
            let expected: Vec<_> = whole.iter().filter(|row| check(row)).collect();
            let found = rows(&snapshots, "rs_filters", &view).await;
            // In the order they came in.
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{view:?}");
        }
    }
}

#[tokio::test]
async fn filters_are_all_true_and_the_rest_is_sorted() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open_with(patient());
        write(&snapshots, "rs_both", vec![colleges(20_000)]).await;
        let mut view = View::sorted([Sort::descending("enrollment")]);
        view = view.with_filter(Filter::new("state", FilterOp::Eq, "NY"));
        view = view.with_filter(Filter::new("enrollment", FilterOp::Lt, 5000));
        let found = rows(&snapshots, "rs_both", &view).await;
        let mut expected: Vec<_> = rows(&snapshots, "rs_both", &View::default())
            .await
            .into_iter()
            .filter(|row| row["state"] == "NY" && row["enrollment"].as_i64().is_some_and(|n| n < 5000))
            .collect();
        expected.sort_by_key(|row| std::cmp::Reverse(row["enrollment"].as_i64()));
        assert!(expected.len() > 1000);
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn a_filter_that_nothing_passes_is_a_view_without_rows() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open_with(patient());
        write(&snapshots, "rs_nothing", vec![colleges(100)]).await;
        let none = filter("id", FilterOp::Gt, json!(1_000_000));
        assert_eq!(snapshots.prepare(&id("rs_nothing"), &none).await.unwrap(), 0);
        assert!(rows(&snapshots, "rs_nothing", &none).await.is_empty());
    }
}
