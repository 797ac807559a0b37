//! Patterns that cost much, and queries that block their threads.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antiphon_results::{
    DualResponseError, Owner,
    snapshot::{RowSource, SnapshotId, SnapshotPage, SnapshotStore as _, SnapshotWriteOptions, View},
};
use antiphon_snapshot::{
    Batches, Snapshots,
    arrow::array::{Int64Array, StringArray},
};
use futures_util::stream;

use crate::{
    hostile_sql::resident,
    sql_rows::{MIB, ask, batch, id, opened, small, write},
};

/// One match costs a scan to the end of the value, and each letter is a match: a second a value, in one step.
const SLOW: &str = "SELECT sum(regexp_count(text, '.*[^A-Z]|[A-Z]')) AS n FROM result";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pattern_of_each_row_is_rejected_within_bounds_of_memory_and_time() {
    let snapshots = opened(small());
    let numbers = batch(vec![("n", Arc::new(Int64Array::from_iter_values(0..100_000)))]);
    write(&snapshots, "rs_numbers", vec![numbers]).await;
    let (before, begun) = (resident(), Instant::now());
    for sql in [
        r"SELECT sum(regexp_count('x', '\pL{100}' || CAST(n AS TEXT))) FROM result",
        r"SELECT count(*) FROM result WHERE 'x' ~ ('\pL{100}' || CAST(n AS TEXT))",
        r"SELECT sum(regexp_count('x', '\pL{1000}\pL{1000}\pL{1000}')) FROM result",
    ] {
        let asked = ask(&snapshots, "rs_numbers", sql).await;
        let Err(DualResponseError::Refused { rule: "pattern", reason }) = &asked else {
            panic!("{sql}: {asked:?}")
        };
        assert!(reason.contains("literal") || reason.contains("bytes"), "{reason}");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 * MIB, "the process grew by {} MiB", grown / MIB);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

async fn with_long_texts(time: Duration) -> Snapshots {
    let config = small().with_query_time(time).with_chunk_rows(32).with_page_rows(32);
    let snapshots = opened(config);
    let texts = StringArray::from_iter_values((0..128).map(|_| "A".repeat(32 * 1024)));
    write(&snapshots, "rs_long", vec![batch(vec![("text", Arc::new(texts))])]).await;
    snapshots
}

async fn page(snapshots: &Snapshots) {
    let page = SnapshotPage::new(100, 1).with_view(View::default());
    assert_eq!(snapshots.page(&id("rs_long"), &page).await.unwrap().len(), 1);
}

/// Waits until the query has blocked a thread for each of its two partitions.
async fn blocked() {
    let begun = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let states = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
        states.filter(|stat| stat.contains("(antiphon-query) R")).count()
    };
    let until = Instant::now() + Duration::from_secs(10);
    while begun() < 2 {
        assert!(Instant::now() < until, "the query does not work");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_while_a_query_blocks_its_threads() {
    let time = Duration::from_secs(3);
    let snapshots = with_long_texts(time).await;
    let (began, slow) = (Instant::now(), snapshots.clone());
    let slow = tokio::spawn(async move { ask(&slow, "rs_long", SLOW).await });
    blocked().await;
    let (mut longest, mut answered) = (Duration::ZERO, 0);
    while !slow.is_finished() {
        let asked = Instant::now();
        let of = snapshots.clone();
        tokio::spawn(async move { page(&of).await }).await.unwrap();
        longest = longest.max(asked.elapsed());
        answered += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(longest < Duration::from_secs(1), "a page took {longest:?}");
    assert!(answered > 10, "{answered} pages in {:?}", began.elapsed());
    let stopped = slow.await.unwrap();
    assert!(matches!(stopped, Err(DualResponseError::Timeout { .. })), "{stopped:?}");
    assert!(began.elapsed() < time + Duration::from_secs(5), "{:?}", began.elapsed());
    // The step that is not over keeps its turn, and the pages are still answered.
    let asked = Instant::now();
    page(&snapshots).await;
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn query_of_another_tenant_is_answered_while_one_blocks_its_threads() {
    let snapshots = with_long_texts(Duration::from_secs(20)).await;
    let owner = Owner::principal("other").with_tenant("other");
    let others = SnapshotId::new(&owner, "rs_other");
    let numbers = batch(vec![("n", Arc::new(Int64Array::from_iter_values(0..10)))]);
    let row_source: RowSource = Batches::new(numbers.schema(), stream::iter([Ok(numbers)])).into();
    snapshots.begin(&others, row_source, SnapshotWriteOptions::default()).await.unwrap().rest.await.unwrap();
    let slow = snapshots.clone();
    let slow = tokio::spawn(async move { ask(&slow, "rs_long", SLOW).await });
    blocked().await;
    let asked = Instant::now();
    let tables = [("result".to_owned(), others)];
    let row_source = snapshots.query(&tables, "SELECT sum(n) AS n FROM result", &owner).await.unwrap();
    let answer = SnapshotId::new(&owner, "rs_answer");
    let begun = snapshots.begin(&answer, row_source, SnapshotWriteOptions::sample(1)).await.unwrap();
    assert_eq!(begun.rest.await.unwrap().rows, 1);
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert!(!slow.is_finished(), "the slow query must still run for this test to say anything");
    slow.abort();
}
