//! A table that changes while its rows are read: those that were saved are of one instant, live ones are of several.

use antiphon_results::{
    Source,
    snapshot::{SnapshotStore as _, SnapshotWriteOptions},
    source::SqlQuery,
};
use antiphon_snapshot::{Snapshots, from_postgres};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sqlx::{PgPool, postgres::PgPoolOptions};

use crate::{
    ingest_support::{id, read, service},
    served::House,
};

const ROWS: i64 = 2_000;
const PAGE: usize = 500;

async fn pool() -> Option<PgPool> {
    let url = service("ANTIPHON_TEST_POSTGRES_URL")?;
    Some(PgPoolOptions::new().max_connections(3).connect(&url).await.unwrap())
}

/// Pages of a set, the table being changed before each but the first; and how many rows each page says there are.
async fn paged(house: &House, pool: &PgPool, set: &str) -> (Vec<i64>, Vec<u64>) {
    let (mut ids, mut totals) = (Vec::new(), Vec::new());
    for offset in (0..).step_by(PAGE) {
        let (status, page) = house.json(&format!("{set}/rows?offset={offset}&limit={PAGE}")).await;
        assert_eq!(status, 200, "{page}");
        let rows = page["data"].as_array().unwrap();
        ids.extend(rows.iter().map(|row| row["id"].as_i64().unwrap()));
        totals.push(page["total_count"].as_u64().unwrap());
        if rows.len() < PAGE || ids.len() > 10 * PAGE {
            break;
        }
        // The first rows go, and as many come at the end; of the others the amounts change.
        let changes = [
            "DELETE FROM antiphon_drift WHERE id IN (SELECT id FROM antiphon_drift ORDER BY id LIMIT 100)",
            "INSERT INTO antiphon_drift SELECT n + (SELECT max(id) FROM antiphon_drift), 0 FROM generate_series(1, 70) AS n",
            "UPDATE antiphon_drift SET amount = amount + 1",
        ];
        for change in changes {
            sqlx::query(change).execute(pool).await.unwrap();
        }
    }
    (ids, totals)
}

#[tokio::test]
async fn saved_rows_are_of_one_instant_and_live_ones_drift() {
    let Some(pool) = pool().await else { return };
    for statement in [
        "DROP TABLE IF EXISTS antiphon_drift",
        "CREATE TABLE antiphon_drift (id bigint PRIMARY KEY, amount bigint NOT NULL)",
        "INSERT INTO antiphon_drift SELECT n, n * 10 FROM generate_series(0, 1999) AS n",
    ] {
        sqlx::query(statement).execute(&pool).await.unwrap();
    }
    let sql = "SELECT id, amount FROM antiphon_drift ORDER BY id";
    let live = SqlQuery::postgres(pool.clone(), sql);
    let snapshots = Snapshots::open("memory:").unwrap();
    let house = House::with(&snapshots, |options| options.with_query("drift", live)).await;
    let saved = house.make(Source::snapshot(from_postgres(pool.clone(), sql))).await;
    let live = house.make(Source::query("drift", json!({}))).await;
    assert_eq!((saved.total_count, saved.exact, live.total_count), (2_000, true, 2_000));
    let manifest = house.settled(&saved.resource_id).await;
    let export = format!("{}/export?format=ndjson", saved.resource_id);
    let before = house.get(&export).send().await.unwrap().bytes().await.unwrap();

    let instant: Vec<i64> = (0..ROWS).collect();
    let (ids, totals) = paged(&house, &pool, &saved.resource_id).await;
    assert_eq!(ids, instant, "each row once, in order, whatever became of it");
    assert!(totals.iter().all(|total| *total == 2_000), "{totals:?}");
    let after = house.get(&export).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(Sha256::digest(&before), Sha256::digest(&after));
    let amounts = after.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for (line, number) in amounts.zip(0_i64..) {
        assert_eq!(
            serde_json::from_slice::<Value>(line).unwrap(),
            json!({"id": number, "amount": number * 10})
        );
    }
    let again = house.settled(&saved.resource_id).await;
    assert!(manifest["digest"].is_string());
    assert_eq!((&again["digest"], &again["rows"]), (&manifest["digest"], &json!(2_000)));

    // The same on the table itself: a page begins where so many rows are before it now.
    let now: Vec<i64> =
        sqlx::query_scalar("SELECT id FROM antiphon_drift ORDER BY id").fetch_all(&pool).await.unwrap();
    let (ids, _) = paged(&house, &pool, &live.resource_id).await;
    let missed = now.iter().filter(|id| !ids.contains(id)).count();
    assert!(missed >= 100, "rows that were there all the time were never seen: {missed}");
    sqlx::query("DROP TABLE antiphon_drift").execute(&pool).await.unwrap();
}

#[tokio::test]
async fn rows_that_change_while_they_are_saved_are_saved_as_they_were() {
    let Some(pool) = pool().await else { return };
    for statement in [
        "DROP TABLE IF EXISTS antiphon_moved",
        "CREATE TABLE antiphon_moved (id bigint PRIMARY KEY, amount bigint NOT NULL)",
        "INSERT INTO antiphon_moved SELECT n, 1 FROM generate_series(0, 49999) AS n",
    ] {
        sqlx::query(statement).execute(&pool).await.unwrap();
    }
    let snapshots = Snapshots::open("memory:").unwrap();
    let row_source = from_postgres(pool.clone(), "SELECT id, amount FROM antiphon_moved ORDER BY id").into();
    let begun = snapshots.begin(&id("rs_moved"), row_source, SnapshotWriteOptions::default()).await.unwrap();
    // The first rows were read, the others were not: all is moved from the last to the first, and half of it goes.
    for change in [
        "UPDATE antiphon_moved SET amount = 50000 WHERE id = 0",
        "DELETE FROM antiphon_moved WHERE id >= 25000",
        "INSERT INTO antiphon_moved SELECT n, 7 FROM generate_series(60000, 60999) AS n",
    ] {
        sqlx::query(change).execute(&pool).await.unwrap();
    }
    let written = begun.rest.await.unwrap();
    assert_eq!(written.rows, 50_000);
    let rows = read(&snapshots, "rs_moved").await;
    assert!(rows.iter().zip(0_i64..).all(|(row, number)| row["id"] == number && row["amount"] == 1));
    assert_eq!(rows.len(), 50_000);
    sqlx::query("DROP TABLE antiphon_moved").execute(&pool).await.unwrap();
}
