//! Groups and measures against plain Rust.

use std::collections::BTreeMap;

use antiphon_results::{
    DualResponseError,
    snapshot::{Aggregate, SnapshotStore as _},
};
use antiphon_snapshot::Snapshots;
use serde_json::{Value, json};

use crate::sql_rows::{colleges, id, opened, small, write};

async fn grouped(snapshots: &Snapshots, aggregate: Value) -> Result<Vec<Value>, DualResponseError> {
    let aggregate: Aggregate = serde_json::from_value(aggregate).unwrap();
    Ok(snapshots.aggregate(&id("rs_groups"), &aggregate).await?.read().unwrap())
}

async fn groups() -> Snapshots {
    let snapshots = opened(small());
    write(&snapshots, "rs_groups", vec![colleges(20_000)]).await;
    snapshots
}

/// The number of a JSON value, whether it is written as one or as text.
fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap()
}

#[tokio::test]
async fn groups_come_in_their_order_with_what_is_missing_last() {
    #[derive(Default)]
    struct Group {
        rows: i64,
        known: i64,
        sum: i64,
        revenue: f64,
    }
    let snapshots = groups().await;
    let found = grouped(&snapshots, json!({
        "groups": [{"column": "state"}],
        "measures": [{"op": "count"}, {"op": "count", "column": "enrollment"}, {"op": "sum", "column": "enrollment"}, {"op": "mean", "column": "Revenue"}],
    }))
    .await
    .unwrap();
    let mut expected: BTreeMap<(bool, Option<&str>), Group> = BTreeMap::new();
    for at in 0..20_000_i64 {
        let state =
            (at % 11 != 0).then(|| ["CA", "NY", "TX", "VT", "WA"][usize::try_from(at * 7 % 5).unwrap()]);
        let enrollment = (at % 13 != 0).then(|| at * 7919 % 10_007);
        let group = expected.entry((state.is_none(), state)).or_default();
        group.rows += 1;
        group.known += i64::from(enrollment.is_some());
        group.sum += enrollment.unwrap_or(0);
        group.revenue += f64::from(i32::try_from(at % 1000).unwrap()) / 8.0;
    }
    assert_eq!(found.len(), expected.len());
    for (row, ((_, state), Group { rows, known, sum, revenue })) in found.iter().zip(expected) {
        assert_eq!(row.get("state").and_then(Value::as_str), state);
        assert_eq!(row["m0"], rows);
        assert_eq!(row["m1"], known);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        {
            assert!((number(&row["m2"]) - sum as f64).abs() < 0.5, "{row}");
            assert!((number(&row["m3"]) - revenue / rows as f64).abs() < 1e-6, "{row}");
        }
    }
}

#[tokio::test]
async fn without_groups_there_is_one_row() {
    let snapshots = groups().await;
    let found = grouped(&snapshots, json!({})).await.unwrap();
    assert_eq!(found, [json!({"m0": 20_000})]);
    let found = grouped(&snapshots, json!({
        "measures": [{"op": "min", "column": "founded"}, {"op": "max", "column": "name"}, {"op": "distinct", "column": "state"}],
        "filter": [{"column": "id", "op": "lt", "value": 100}],
    }))
    .await
    .unwrap();
    assert_eq!(found, [json!({"m0": "1970-01-01", "m1": "College 99", "m2": 5})]);
}

#[tokio::test]
async fn numbers_are_taken_together_by_width_and_moments_by_time() {
    let snapshots = groups().await;
    let found =
        grouped(&snapshots, json!({"groups": [{"column": "id", "bucket": {"width": 5000}}]})).await.unwrap();
    let expected: Vec<_> = (0..4).map(|at| json!({"id": at * 5000, "m0": 5000})).collect();
    assert_eq!(found, expected);
    let found = grouped(&snapshots, json!({"groups": [{"column": "Revenue", "bucket": {"width": 62.5}}]}))
        .await
        .unwrap();
    assert_eq!(found, [json!({"Revenue": 0.0, "m0": 10_000}), json!({"Revenue": 62.5, "m0": 10_000})]);
    let found = grouped(&snapshots, json!({"groups": [{"column": "seen", "bucket": "day"}]})).await.unwrap();
    assert_eq!(found.len(), 14);
    assert!(found[0]["seen"].as_str().unwrap().starts_with("2026-01-01T00:00:00"), "{}", found[0]);
    assert_eq!(found[0]["m0"], 1440);
    let found = grouped(&snapshots, json!({"groups": [{"column": "founded", "bucket": "year"}], "limit": 2}))
        .await
        .unwrap();
    assert_eq!(
        found,
        [json!({"founded": "1972-01-01", "m0": 366}), json!({"founded": "1976-01-01", "m0": 366})]
    );
    let found =
        grouped(&snapshots, json!({"groups": [{"column": "founded", "bucket": "week"}]})).await.unwrap();
    // 1970 began on a Thursday.
    assert_eq!(found[0], json!({"founded": "1969-12-29", "m0": 4}));
}

#[tokio::test]
async fn a_limit_takes_those_with_the_greatest_first_measure() {
    let snapshots = groups().await;
    let found = grouped(
        &snapshots,
        json!({
            "groups": [{"column": "id"}],
            "measures": [{"op": "max", "column": "id"}],
            "limit": 3,
        }),
    )
    .await
    .unwrap();
    let ids: Vec<_> = found.iter().map(|row| row["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, [19_999, 19_998, 19_997]);
}

#[tokio::test]
async fn more_groups_than_may_be_are_not_cut_but_refused() {
    let snapshots = groups().await;
    let found = grouped(&snapshots, json!({"groups": [{"column": "id"}]})).await;
    assert!(matches!(found, Err(DualResponseError::TooLarge(_))), "{found:?}");
    let found = grouped(&snapshots, json!({"groups": [{"column": "id"}], "limit": 1_000_000})).await.unwrap();
    assert_eq!(found.len(), 10_000);
}

#[tokio::test]
async fn what_cannot_be_grouped_or_measured_is_said_in_words() {
    let snapshots = groups().await;
    let cases = [
        (json!({"groups": [{"column": "stat"}]}), "does not exist"),
        (json!({"groups": [{"column": "tags"}]}), "nested"),
        (json!({"groups": [{"column": "state"}, {"column": "state"}]}), "twice"),
        (json!({"groups": [{"column": "id"}, {"column": "name"}, {"column": "state"}]}), "is 2 `groups`"),
        (json!({"groups": [{"column": "name", "bucket": {"width": 1}}]}), "has no numbers"),
        (json!({"groups": [{"column": "id", "bucket": {"width": 0}}]}), "above 0"),
        (json!({"groups": [{"column": "id", "bucket": "day"}]}), "no dates or timestamps"),
        (json!({"measures": [{"op": "sum", "column": "name"}]}), "has no numbers"),
        (json!({"measures": [{"op": "sum"}]}), "a measure has no `column`"),
        (json!({"measures": [{"op": "max", "column": "tags"}]}), "only be counted"),
    ];
    for (aggregate, expected) in cases {
        match grouped(&snapshots, aggregate.clone()).await {
            Err(DualResponseError::Invalid(text)) => assert!(text.contains(expected), "{text}"),
            other => panic!("{aggregate}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_sum_may_be_more_than_a_column_holds() {
    use antiphon_snapshot::arrow::array::Int64Array;
    let snapshots = opened(small());
    let column = std::sync::Arc::new(Int64Array::from(vec![i64::MAX; 3]));
    write(&snapshots, "rs_groups", vec![crate::sql_rows::batch(vec![("n", column)])]).await;
    let found = grouped(&snapshots, json!({"measures": [{"op": "sum", "column": "n"}]})).await.unwrap();
    assert!((number(&found[0]["m0"]) - 27_670_116_110_564_327_421.0).abs() < 1e6, "{found:?}");
}
