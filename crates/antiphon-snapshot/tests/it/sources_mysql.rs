//! Rows from MariaDB.

use antiphon_results::snapshot::{SnapshotPage, SnapshotStore as _};
use antiphon_snapshot::{Snapshots, from_mysql};
use serde_json::{Value, json};
use sqlx::MySqlPool;

use crate::ingest_support::{self, id, kinds, read, service, write};

#[tokio::test]
async fn every_type_of_mariadb_is_kept() {
    let Some(url) = service("ANTIPHON_TEST_MARIADB_URL") else { return };
    let pool = MySqlPool::connect(&url).await.unwrap();
    let table = format!("antiphon_types_{}", std::process::id());
    let create = format!(
        "CREATE TABLE {table} (id INT PRIMARY KEY, tiny TINYINT(1), big BIGINT UNSIGNED, f FLOAT, d DOUBLE, \
         money DECIMAL(30, 4), t TEXT, b BLOB, day DATE, local DATETIME(6), at TIMESTAMP(6) NULL, span TIME, \
         y YEAR, e ENUM('a', 'b'), nothing INT)"
    );
    sqlx::query(sqlx::AssertSqlSafe(create)).execute(&pool).await.unwrap();
    let insert = format!(
        "INSERT INTO {table} VALUES (1, 2, 18446744073709551615, 0.1, 0.1, 12345678901234567890.1234, 'ü\"', \
         x'ff00', '2024-02-29', '2024-01-01 00:00:00.123456', '2024-01-01 00:00:00', '-01:02:03', 2024, 'b', NULL), \
         (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    );
    sqlx::query(sqlx::AssertSqlSafe(insert)).execute(&pool).await.unwrap();
    let snapshots = Snapshots::open("memory:").unwrap();
    let query = from_mysql(pool.clone(), format!("SELECT * FROM {table} WHERE id < ? ORDER BY id")).bind(3);
    let written = write(&snapshots, "rs_mysql", query.into()).await;
    sqlx::query(sqlx::AssertSqlSafe(format!("DROP TABLE {table}"))).execute(&pool).await.unwrap();
    let expected = [
        ("id", "integer"),
        ("tiny", "integer"),
        ("big", "integer"),
        ("f", "number"),
        ("d", "number"),
        ("money", "number"),
        ("t", "string"),
        ("b", "string"),
        ("day", "date"),
        ("local", "timestamp"),
        ("at", "timestamp"),
        ("span", "string"),
        ("y", "integer"),
        ("e", "string"),
        ("nothing", "integer"),
    ];
    assert_eq!(kinds(&written.columns), expected);
    let rows = snapshots.page(&id("rs_mysql"), &SnapshotPage::new(0, 1)).await.unwrap();
    for digits in ["18446744073709551615", "12345678901234567890.1234"] {
        assert!(rows.get(0).unwrap().contains(digits), "{}", rows.get(0).unwrap());
    }
    let read = read(&snapshots, "rs_mysql").await;
    let row = &read[0];
    assert_eq!((&row["tiny"], &row["f"], &row["y"]), (&json!(2), &json!(0.1), &json!(2024)));
    assert_eq!((&row["t"], &row["e"], &row["span"]), (&json!("ü\""), &json!("b"), &json!("-01:02:03")));
    let later = from_mysql(pool, "SELECT CAST('26:00:01.5' AS TIME(6)) AS span");
    write(&snapshots, "rs_later", later.into()).await;
    assert_eq!(ingest_support::read(&snapshots, "rs_later").await[0]["span"], "26:00:01.500000");
    assert_eq!(row["day"], "2024-02-29");
    assert!(row["local"].as_str().unwrap().starts_with("2024-01-01T00:00:00.123456"), "{}", row["local"]);
    assert!(row["at"].as_str().unwrap().starts_with("2024-01-01T00:00:00"), "{}", row["at"]);
    assert!(read[1].iter().all(|(name, value)| name == "id" || *value == Value::Null), "{:?}", read[1]);
}
