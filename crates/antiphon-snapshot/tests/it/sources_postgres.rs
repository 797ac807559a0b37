//! Rows from PostgreSQL.

use antiphon_results::{
    DualResponseError,
    snapshot::{SnapshotPage, SnapshotStore as _, SnapshotWriteOptions},
};
use antiphon_snapshot::{Snapshots, from_postgres};
use serde_json::{Value, json};
use sqlx::{PgPool, postgres::PgPoolOptions};

use crate::ingest_support::{id, kinds, read, service, write};

async fn pool() -> Option<PgPool> {
    let url = service("ANTIPHON_TEST_POSTGRES_URL")?;
    Some(PgPoolOptions::new().max_connections(2).connect(&url).await.unwrap())
}

#[tokio::test]
async fn every_type_of_postgres_is_kept() {
    let Some(pool) = pool().await else { return };
    sqlx::query("DROP TYPE IF EXISTS antiphon_mood").execute(&pool).await.unwrap();
    sqlx::query("CREATE TYPE antiphon_mood AS ENUM ('sad', 'glad')").execute(&pool).await.unwrap();
    let sql = "SELECT 1::int2 AS i2, 2::int4 AS i4, 9223372036854775807::int8 AS i8, 0.1::float4 AS f4, \
        'NaN'::float8 AS f8, 12345678901234567890.123456789::numeric AS num, true AS b, 'ü\"'::text AS t, \
        'x'::char(3) AS c, 'n'::name AS name, '6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid AS uuid, \
        '\\xff00'::bytea AS bytes, '2024-02-29'::date AS day, '2024-01-01 00:00:00.123456'::timestamp AS local, \
        '2024-01-01 02:00:00+02'::timestamptz AS at, '{\"a\": [1, null]}'::jsonb AS j, ARRAY[1, NULL, 3] AS list, \
        'glad'::antiphon_mood AS mood, NULL::int4 AS nothing, '1 day'::interval AS span, '10.0.0.1'::inet AS ip, \
        $1 AS bound -- the end\n;";
    let snapshots = Snapshots::open("memory:").unwrap();
    let written = write(&snapshots, "rs_pg", from_postgres(pool.clone(), sql).bind("given").into()).await;
    let expected = [
        ("i2", "integer"),
        ("i4", "integer"),
        ("i8", "integer"),
        ("f4", "number"),
        ("f8", "number"),
        ("num", "number"),
        ("b", "boolean"),
        ("t", "string"),
        ("c", "string"),
        ("name", "string"),
        ("uuid", "string"),
        ("bytes", "string"),
        ("day", "date"),
        ("local", "timestamp"),
        ("at", "timestamp"),
        ("j", "json"),
        ("list", "json"),
        ("mood", "string"),
        ("nothing", "integer"),
        ("span", "string"),
        ("ip", "string"),
        ("bound", "string"),
    ];
    assert_eq!(kinds(&written.columns), expected);
    let rows = snapshots.page(&id("rs_pg"), &SnapshotPage::new(0, 1)).await.unwrap();
    assert!(rows.get(0).unwrap().contains("12345678901234567890.123456789"), "{}", rows.get(0).unwrap());
    let row = &read(&snapshots, "rs_pg").await[0];
    assert_eq!(row["i8"], json!(i64::MAX));
    assert_eq!(row["f4"], json!(0.1));
    assert_eq!(row["f8"], Value::Null);
    assert_eq!((&row["t"], &row["c"], &row["mood"]), (&json!("ü\""), &json!("x  "), &json!("glad")));
    assert_eq!(row["day"], "2024-02-29");
    assert!(row["local"].as_str().unwrap().starts_with("2024-01-01T00:00:00.123456"), "{}", row["local"]);
    assert!(row["at"].as_str().unwrap().starts_with("2024-01-01T00:00:00"), "{}", row["at"]);
    assert_eq!(row["j"], json!({"a": [1, null]}));
    assert_eq!(row["list"], json!([1, null, 3]));
    assert_eq!(row["bound"], "given");
    sqlx::query("DROP TYPE antiphon_mood").execute(&pool).await.unwrap();
}

#[tokio::test]
async fn many_rows_come_in_order_and_the_connection_goes_back() {
    let Some(pool) = pool().await else { return };
    let sql = "SELECT n, n::numeric / 8 AS share, CASE WHEN n > 60000 THEN repeat('x', 10) END AS late \
        FROM generate_series(0, $1 - 1) AS n ORDER BY n";
    let snapshots = Snapshots::open("memory:").unwrap();
    let written =
        write(&snapshots, "rs_many", from_postgres(pool.clone(), sql).bind(70_000_i32).into()).await;
    assert_eq!(written.rows, 70_000);
    let rows = snapshots.page(&id("rs_many"), &SnapshotPage::new(65_000, 1)).await.unwrap();
    assert!(rows.get(0).unwrap().contains(r#""n":65000"#), "{}", rows.get(0).unwrap());
    assert_eq!(pool.size(), 1);
}

#[tokio::test]
async fn a_query_that_nobody_waits_for_any_more_ends_in_the_database_too() {
    let Some(pool) = pool().await else { return };
    // In a list it is made row by row; as a table it would be made whole first.
    let sql = "SELECT generate_series(1, 1000000000000) AS n, 'antiphon_endless' AS t";
    let snapshots = Snapshots::open("memory:").unwrap();
    let begun = snapshots
        .begin(&id("rs_endless"), from_postgres(pool.clone(), sql).into(), SnapshotWriteOptions::default())
        .await
        .unwrap();
    assert_eq!(begun.sample.len(), 15);
    drop(begun);
    let running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%antiphon_endless%' \
        AND pid <> pg_backend_pid()";
    for _ in 0..500 {
        if sqlx::query_scalar::<_, i64>(running).fetch_one(&pool).await.unwrap() == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the query goes on");
}

#[tokio::test]
async fn two_columns_of_one_name_and_an_error_in_the_middle_are_told() {
    let Some(pool) = pool().await else { return };
    let snapshots = Snapshots::open("memory:").unwrap();
    let twice = from_postgres(pool.clone(), "SELECT 1 AS a, 2 AS a").into();
    let error = snapshots.begin(&id("rs_twice"), twice, SnapshotWriteOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("two columns have the name `a`"), "{error}");
    let breaks =
        from_postgres(pool, "SELECT 1 / (50000 - n) AS a FROM generate_series(1, 100000) AS n").into();
    let begun = snapshots.begin(&id("rs_breaks"), breaks, SnapshotWriteOptions::default()).await.unwrap();
    let error = begun.rest.await.unwrap_err();
    assert!(
        matches!(&error, DualResponseError::Query(source) if source.to_string().contains("division")),
        "{error:?}"
    );
    assert_eq!(snapshots.usage(None).await.unwrap(), 0);
}
