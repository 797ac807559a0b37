//! Rows from SQLite.

use antiphon_results::{
    DualResponseError,
    snapshot::{SnapshotStore as _, SnapshotWriteOptions},
};
use antiphon_snapshot::{Snapshots, from_sqlite};
use serde_json::{Value, json};
use sqlx::{SqlitePool, sqlite::SqlitePoolOptions};

use crate::ingest_support::{id, kinds, read, write};

async fn pool() -> SqlitePool {
    SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap()
}

#[tokio::test]
async fn values_are_what_sqlite_says_of_each() {
    let pool = pool().await;
    sqlx::query("CREATE TABLE t (i INTEGER, r REAL, s TEXT, b BLOB, mixed, empty INTEGER)")
        .execute(&pool)
        .await
        .unwrap();
    sqlx::query("INSERT INTO t VALUES (9223372036854775807, 0.1, 'ü\"', x'ff00', 1, NULL), (NULL, 9e999, NULL, NULL, 'text', NULL)")
        .execute(&pool)
        .await
        .unwrap();
    let snapshots = Snapshots::open("memory:").unwrap();
    let query = from_sqlite(pool.clone(), "SELECT *, ? AS bound FROM t ORDER BY rowid; ").bind("x");
    let written = write(&snapshots, "rs_sqlite", query.into()).await;
    let expected = [
        ("i", "integer"),
        ("r", "number"),
        ("s", "string"),
        ("b", "string"),
        ("mixed", "json"),
        ("empty", "integer"),
        ("bound", "string"),
    ];
    assert_eq!(kinds(&written.columns), expected);
    let read = read(&snapshots, "rs_sqlite").await;
    assert_eq!(read[0]["i"], json!(i64::MAX));
    assert_eq!(read[0]["r"], json!(0.1));
    assert_eq!(read[0]["s"], "ü\"");
    assert_eq!((&read[0]["mixed"], &read[1]["mixed"]), (&json!(1), &json!("text")));
    assert_eq!(read[1]["i"], Value::Null);
    // The connection is free again.
    sqlx::query("SELECT 1").execute(&pool).await.unwrap();
}

#[tokio::test]
async fn a_query_that_is_wrong_is_the_databases_error() {
    let snapshots = Snapshots::open("memory:").unwrap();
    let query = from_sqlite(pool().await, "SELECT nothing FROM nowhere");
    let error =
        snapshots.begin(&id("rs_wrong"), query.into(), SnapshotWriteOptions::default()).await.unwrap_err();
    assert!(matches!(error, DualResponseError::Query(_)), "{error:?}");
}
