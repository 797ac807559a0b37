//! Rows from MariaDB.

use antiphon_results::{
    snapshot::{SnapshotPage, SnapshotStore as _},
    source::{PageRequest, Query as _, SqlQuery},
};
use antiphon_snapshot::{Snapshots, from_mysql};
use serde_json::{Value, json};
use sqlx::MySqlPool;

use crate::ingest_support::{self, id, kinds, read, service, write};

#[tokio::test]
async fn every_type_of_mariadb_is_kept() {
    let Some(url) = service("ANTIPHON_TEST_MARIADB_URL") else { return };
    let pool = Box::pin(MySqlPool::connect(&url)).await.unwrap();
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

/// A type of MariaDB, a value of it, and the kind of the column and the value as both paths show them.
const TYPES: &[(&str, &str, &str, &str)] = &[
    ("TINYINT", "-128", "integer", "-128"),
    ("TINYINT(1)", "2", "integer", "2"),
    ("TINYINT(1) UNSIGNED", "200", "integer", "200"),
    ("SMALLINT UNSIGNED", "65535", "integer", "65535"),
    ("MEDIUMINT", "-8388608", "integer", "-8388608"),
    ("INT UNSIGNED", "4294967295", "integer", "4294967295"),
    ("BIGINT", "-9223372036854775808", "integer", "-9223372036854775808"),
    ("BIGINT UNSIGNED", "18446744073709551615", "integer", "18446744073709551615"),
    ("YEAR", "2025", "integer", "2025"),
    ("BIT(10)", "b'1000000001'", "integer", "513"),
    ("FLOAT", "0.1", "number", "0.1"),
    ("DOUBLE", "0.1", "number", "0.1"),
    ("DECIMAL(10,2)", "12.50", "number", "12.5"),
    ("DECIMAL(30,10)", "12345678901234567890.0123456789", "number", "12345678901234567890.0123456789"),
    ("CHAR(5)", "'ab'", "string", "ab"),
    ("VARCHAR(9)", "'😀'", "string", "😀"),
    ("VARCHAR(9) COLLATE utf8mb4_bin", "'Ab'", "string", "Ab"),
    ("VARCHAR(9) CHARACTER SET latin1", "'é'", "string", "é"),
    ("VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin", "'é'", "string", "é"),
    ("TEXT COLLATE utf8mb4_bin", "'x'", "string", "x"),
    ("LONGTEXT COLLATE utf8mb4_bin", "'x'", "string", "x"),
    ("JSON", "'{\"a\": 1}'", "string", "{\"a\": 1}"),
    ("ENUM('z','a')", "'z'", "string", "z"),
    ("ENUM('z','a') COLLATE utf8mb4_bin", "'a'", "string", "a"),
    ("SET('z','a') COLLATE utf8mb4_bin", "'z,a'", "string", "z,a"),
    ("UUID", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "string", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("BINARY(4)", "x'00ff10'", "string", "AP8QAA=="),
    ("VARBINARY(4)", "x'00ff10'", "string", "AP8Q"),
    ("BLOB", "''", "string", ""),
    ("DATE", "'2024-02-29'", "date", "2024-02-29"),
    ("DATE", "'0000-00-00'", "string", "0000-00-00"),
    ("DATETIME", "'2025-01-15 00:00:00'", "timestamp", "2025-01-15T00:00:00"),
    ("DATETIME(6)", "'2025-01-15 10:30:00.000001'", "timestamp", "2025-01-15T10:30:00.000001"),
    ("DATETIME", "'0000-00-00 00:00:00'", "string", "0000-00-00T00:00:00"),
    ("TIMESTAMP(3)", "'2025-01-15 10:30:00.25'", "timestamp", "2025-01-15T10:30:00.25Z"),
    ("TIMESTAMP", "'0000-00-00 00:00:00'", "string", "0000-00-00T00:00:00Z"),
    ("TIME", "'00:00:00'", "string", "00:00:00"),
    ("TIME", "'10:30:00'", "string", "10:30:00"),
    ("TIME(6)", "'-838:59:59.999999'", "string", "-838:59:59.999999"),
];

/// A value without what JSON lets a writer choose: numbers as text, fractions without zeros at the end.
fn plain(value: &Value, kind: &str) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    if kind == "number" && text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let Some((moment, rest)) = (kind == "timestamp").then(|| text.split_once('.')).flatten() else {
        return text;
    };
    let zone = if rest.ends_with('Z') { "Z" } else { "" };
    let fraction = rest.trim_end_matches('Z').trim_end_matches('0');
    if fraction.is_empty() { format!("{moment}{zone}") } else { format!("{moment}.{fraction}{zone}") }
}

#[tokio::test]
async fn query_and_snapshot_give_the_same_value_for_every_type() {
    let Some(url) = service("ANTIPHON_TEST_MARIADB_URL") else { return };
    let pool = Box::pin(MySqlPool::connect(&url)).await.unwrap();
    let snapshots = Snapshots::open("memory:").unwrap();
    let execute = async |sql: String| {
        // `raw_sql`, so that dates of zeros are taken: `sqlx` allows them in its sessions.
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap();
    };
    let mut wrong = Vec::new();
    for (at, (column, literal, kind, expected)) in TYPES.iter().enumerate() {
        let table = format!("antiphon_both_{}_{at}", std::process::id());
        execute(format!("CREATE TABLE {table} (id INT PRIMARY KEY, v {column} NULL)")).await;
        execute(format!("INSERT INTO {table} VALUES (1, {literal}), (2, NULL)")).await;
        let sql = format!("SELECT id, v FROM {table} ORDER BY id");
        let set = format!("rs_{at}");
        let written = write(&snapshots, &set, from_mysql(pool.clone(), sql.clone()).into()).await;
        let saved = snapshots.page(&id(&set), &SnapshotPage::new(0, 2)).await.unwrap();
        let query = SqlQuery::mysql(pool.clone(), sql).with_columns(written.columns.clone());
        let paged = query.page(&Value::Null, &PageRequest::new(0, 2)).await.unwrap();
        execute(format!("DROP TABLE {table}")).await;
        for (path, rows) in [("snapshot", saved), ("query", paged)] {
            let shown = plain(&serde_json::from_str::<Value>(rows.get(0).unwrap()).unwrap()["v"], kind);
            let nothing = rows.read::<serde_json::Map<String, Value>>().unwrap()[1]["v"].clone();
            // Numbers of more digits than a double has are text in pages of a query.
            let digits = rows.get(0).unwrap().contains(expected);
            if (shown != *expected && !digits) || nothing != Value::Null {
                wrong.push(format!("{path} of {column} {literal}: {} {nothing}", rows.get(0).unwrap()));
            }
        }
        let found = kinds(&written.columns)[1].1;
        if found != *kind {
            wrong.push(format!("snapshot of {column} {literal} is {found}, not {kind}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), TYPES.len(), wrong.join("\n"));
}

#[tokio::test]
async fn date_of_zeros_after_ordinary_dates_loses_nothing() {
    let Some(url) = service("ANTIPHON_TEST_MARIADB_URL") else { return };
    let pool = Box::pin(MySqlPool::connect(&url)).await.unwrap();
    let table = format!("antiphon_zeros_{}", std::process::id());
    let execute = async |sql: String| {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap();
    };
    execute(format!("CREATE TABLE {table} (id INT PRIMARY KEY, day DATE, local DATETIME(3))")).await;
    let rows: Vec<_> =
        (0..9_000).map(|at| format!("({at}, '2024-02-29', '2024-02-29 01:02:03.5')")).collect();
    execute(format!("INSERT INTO {table} VALUES {}", rows.join(","))).await;
    execute(format!("INSERT INTO {table} VALUES (9000, '0000-00-00', '0000-00-00'), (9001, NULL, NULL)"))
        .await;
    let snapshots = Snapshots::open("memory:").unwrap();
    let query = from_mysql(pool.clone(), format!("SELECT * FROM {table} ORDER BY id"));
    write(&snapshots, "rs_zeros", query.into()).await;
    execute(format!("DROP TABLE {table}")).await;
    let read = read(&snapshots, "rs_zeros").await;
    assert_eq!((&read[0]["day"], &read[9_000]["day"]), (&json!("2024-02-29"), &json!("0000-00-00")));
    assert_eq!(read[9_000]["local"], "0000-00-00T00:00:00");
    assert!(read[0]["local"].as_str().unwrap().starts_with("2024-02-29T01:02:03.5"), "{:?}", read[0]);
    assert_eq!((&read[9_001]["day"], &read[9_001]["local"]), (&Value::Null, &Value::Null));
}
