//! Turns and time: what one takes, another waits for, and what is dropped gives back.

use std::time::{Duration, Instant};

use antiphon_results::{
    DualResponseError, Owner,
    snapshot::{SnapshotStore as _, SnapshotWriteOptions},
};

use crate::sql_rows::{ask, colleges, id, opened, small, write};

const LONG: &str =
    "SELECT count(*) FROM result a JOIN result b ON a.public = b.public JOIN result c ON b.public = c.public";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_takes_too_long_is_stopped() {
    let config = small().with_query_time(Duration::from_millis(700));
    let snapshots = opened(config);
    write(&snapshots, "rs_long", vec![colleges(20_000)]).await;
    let begun = Instant::now();
    let asked = ask(&snapshots, "rs_long", LONG).await;
    assert!(matches!(asked, Err(DualResponseError::Timeout { .. })), "{asked:?}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_whose_turns_are_taken_is_told_to_come_back_and_served_after_one_is_dropped() {
    let config = small().with_query_time(Duration::from_mins(1)).with_queries_per_tenant(1);
    let snapshots = opened(config);
    write(&snapshots, "rs_turns", vec![colleges(20_000)]).await;
    let tables = [("result".to_owned(), id("rs_turns"))];
    let held = snapshots.query(&tables, LONG, &Owner::nobody()).await.unwrap();
    let waiting =
        tokio::time::timeout(Duration::from_millis(300), ask(&snapshots, "rs_turns", "SELECT 1 AS n")).await;
    assert!(waiting.is_err(), "{waiting:?}");
    drop(held);
    let served = ask(&snapshots, "rs_turns", "SELECT 1 AS n").await.unwrap();
    assert_eq!(served.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intake_that_is_dropped_half_way_gives_its_turn_back() {
    let config = small().with_queries(1);
    let snapshots = opened(config);
    write(&snapshots, "rs_half", vec![colleges(20_000)]).await;
    let tables = [("result".to_owned(), id("rs_half"))];
    for _ in 0..5 {
        let sql = "SELECT a.id, b.name FROM result a JOIN result b USING (state) ORDER BY b.name, a.id";
        let row_source = snapshots.query(&tables, sql, &Owner::nobody()).await.unwrap();
        let begun = tokio::time::timeout(
            Duration::from_millis(200),
            snapshots.begin(&id("rs_dropped"), row_source, SnapshotWriteOptions::sample(1)),
        )
        .await;
        drop(begun);
    }
    assert_eq!(ask(&snapshots, "rs_half", "SELECT 1 AS n").await.unwrap().len(), 1);
}
