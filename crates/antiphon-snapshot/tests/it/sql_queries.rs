//! What queries give: names, types, rows that agree with plain Rust.

use antiphon_results::{
    DualResponseError, Owner,
    snapshot::{SnapshotStore as _, SnapshotWriteOptions},
};
use serde_json::json;

use crate::sql_rows::{ask, ask_of, colleges, id, kinds, opened, small, write};

async fn refusal(sql: &str) -> (String, String) {
    let snapshots = opened(small());
    write(&snapshots, "rs_q", vec![colleges(10)]).await;
    match ask(&snapshots, "rs_q", sql).await {
        Err(DualResponseError::Refused { rule, reason }) => (rule.into(), reason),
        other => panic!("{sql}: {other:?}"),
    }
}

#[tokio::test]
async fn whoever_misspells_is_told_what_was_meant() {
    let cases = [
        ("SELECT enrolment FROM result", "not_valid", "did you mean `enrollment`?"),
        ("SELECT revenue FROM result", "not_valid", "write \"Revenue\""),
        ("SELECT xyz FROM result", "not_valid", "the columns are `id`, `name`"),
        ("SELECT * FROM results", "unknown_table", "the tables are `result`"),
        ("SELECT now()", "unknown_function", "must always return the same rows"),
        ("SELECT nosuch(1)", "unknown_function", "date_trunc"),
        ("SELECT * FORM result", "not_valid", "FORM"),
        ("DELETE FROM result", "read_only", "SELECT or WITH"),
    ];
    for (sql, rule, expected) in cases {
        let (found, reason) = refusal(sql).await;
        assert_eq!(found, rule, "{reason}");
        assert!(reason.contains(expected), "{reason}");
        assert!(!reason.to_lowercase().contains("datafusion"), "{reason}");
    }
}

#[tokio::test]
async fn columns_of_one_name_get_names_of_their_own() {
    let snapshots = opened(small());
    write(&snapshots, "rs_q", vec![kinds()]).await;
    let sql = "SELECT a.state, b.state, count(*), sum(1) FROM result a JOIN result b ON a.state = b.state WHERE a.state = 'CA' GROUP BY a.state, b.state";
    let rows = ask(&snapshots, "rs_q", sql).await.unwrap();
    assert_eq!(rows[0]["state"], "CA");
    assert_eq!(rows[0]["state_2"], "CA");
    assert_eq!(rows[0]["count(*)"], 1);
    let rows = ask(&snapshots, "rs_q", "SELECT max(state), max(result.region) FROM result").await.unwrap();
    assert_eq!(rows, [json!({"max(state)": "ZZ", "max(region)": "west"})]);
}

#[tokio::test]
async fn a_join_of_two_sets_is_that_of_their_rows() {
    let snapshots = opened(small());
    write(&snapshots, "rs_colleges", vec![colleges(500)]).await;
    write(&snapshots, "rs_states", vec![kinds()]).await;
    let sql = "SELECT s.region, count(*) AS n, sum(c.enrollment) AS students FROM Colleges c JOIN states s ON c.state = s.state GROUP BY s.region ORDER BY s.region";
    let rows =
        ask_of(&snapshots, &[("colleges", "rs_colleges"), ("States", "rs_states")], sql).await.unwrap();
    let mut expected = std::collections::BTreeMap::<&str, (i64, i64)>::new();
    for at in (0..500_i64).filter(|at| at % 11 != 0) {
        let region = match at * 7 % 5 {
            0 => "west",
            1 => "east",
            2 => "south",
            _ => continue,
        };
        let group = expected.entry(region).or_default();
        group.0 += 1;
        group.1 += if at % 13 == 0 { 0 } else { at * 7919 % 10_007 };
    }
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(region, (n, students))| json!({"region": region, "n": n, "students": students}))
        .collect();
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn every_type_comes_through_a_query_as_it_went_in() {
    let snapshots = opened(small());
    write(&snapshots, "rs_q", vec![colleges(50)]).await;
    let whole = crate::sql_rows::rows(&snapshots, "rs_q", &antiphon_results::snapshot::View::default()).await;
    assert_eq!(ask(&snapshots, "rs_q", "SELECT * FROM result ORDER BY id").await.unwrap(), whole);
    let stored = ask(&snapshots, "rs_q", "SELECT NULL AS nothing, INTERVAL '1 day' AS span, substr(name, 1, 3) AS short, DATE '2026-01-01' AS day FROM result LIMIT 1").await.unwrap();
    assert_eq!(stored[0]["short"], "Col");
    assert_eq!(stored[0]["day"], "2026-01-01");
    assert!(stored[0]["span"].as_str().unwrap().contains("1 day"), "{stored:?}");
}

#[tokio::test]
async fn a_query_over_an_answer_goes_on_from_it() {
    let snapshots = opened(small());
    write(&snapshots, "rs_q", vec![colleges(1_000)]).await;
    let tables = [("result".to_owned(), id("rs_q"))];
    let sql = "SELECT state, enrollment FROM result WHERE enrollment > 5000";
    let row_source = snapshots.query(&tables, sql, &Owner::nobody()).await.unwrap();
    let begun = snapshots.begin(&id("rs_first"), row_source, SnapshotWriteOptions::sample(5)).await.unwrap();
    let first = begun.rest.await.unwrap();
    let counted = ask(&snapshots, "rs_first", "SELECT count(*) AS n FROM result").await.unwrap();
    assert_eq!(counted, [json!({"n": first.rows})]);
}

#[tokio::test]
async fn a_set_that_is_not_there_cannot_be_asked() {
    let snapshots = opened(small());
    let asked = ask(&snapshots, "rs_none", "SELECT 1").await;
    assert!(matches!(asked, Err(DualResponseError::NotFound)), "{asked:?}");
}

#[tokio::test]
async fn two_tables_of_one_name_are_refused() {
    let snapshots = opened(small());
    write(&snapshots, "rs_q", vec![kinds()]).await;
    let asked = ask_of(&snapshots, &[("a", "rs_q"), ("A", "rs_q")], "SELECT 1").await;
    assert!(matches!(asked, Err(DualResponseError::Invalid(_))), "{asked:?}");
}
