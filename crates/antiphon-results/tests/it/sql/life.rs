//! Statements that take too long, and servers that go away.

use std::time::{Duration, Instant};

use antiphon_results::source::{PageRequest, SqlError};
use serde_json::Value;

use super::{Database, Spec, chain, read};

/// Never ends by itself, within reason.
fn endless(database: &Database) -> String {
    match database {
        Database::Postgres(_) => "SELECT 1 AS v FROM pg_sleep(600)".into(),
        Database::Mariadb(_) => {
            let all = "information_schema.columns";
            format!(
                "SELECT a.table_name AS v FROM {all} a, {all} b, {all} c, {all} d ORDER BY rand() LIMIT 9"
            )
        }
        Database::Sqlite(_) => {
            "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n) SELECT max(v) AS v FROM n".into()
        }
    }
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_given_up_and_the_pool_goes_on() {
    for database in Database::all().await {
        let limit = Duration::from_millis(300);
        let slow = database.query(Spec { sql: endless(&database), timeout: Some(limit), ..Spec::default() });
        for _ in 0..4 {
            let start = Instant::now();
            let error = read(&*slow, &Value::Null, PageRequest::new(0, 1)).await.unwrap_err();
            let told = error.downcast_ref::<SqlError>();
            assert!(matches!(told, Some(SqlError::Timeout { .. })), "{database:?}: {}", chain(&error));
            let error = slow.count(&Value::Null).await.unwrap_err();
            let told = error.downcast_ref::<SqlError>();
            assert!(matches!(told, Some(SqlError::Timeout { .. })), "{database:?}: {}", chain(&error));
            assert!(start.elapsed() < Duration::from_secs(20), "{database:?} took {:?}", start.elapsed());
        }
        // More were given up than the pool has connections, and none is missing.
        let quick = database.query(Spec { sql: "SELECT 1 AS v".into(), ..Spec::default() });
        let rows = read(&*quick, &Value::Null, PageRequest::new(0, 1)).await.unwrap();
        assert_eq!(rows.as_json(), r#"{"v":1}"#);
    }
}

/// The guard against long statements must not hit the next user of the connection.
#[tokio::test]
async fn sqlite_forgets_the_limit_of_a_statement_that_ended() {
    let database = Database::sqlite().await;
    let limit = Duration::from_millis(100);
    let quick = database.query(Spec { sql: "SELECT 1 AS v".into(), timeout: Some(limit), ..Spec::default() });
    read(&*quick, &Value::Null, PageRequest::new(0, 1)).await.unwrap();
    let Database::Sqlite(pool) = &database else { unreachable!() };
    let start = Instant::now();
    while start.elapsed() < limit * 3 {
        let sql = "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 300000) SELECT max(v) FROM n";
        let found: i64 = sqlx::query_scalar(sql).fetch_one(pool).await.unwrap();
        assert_eq!(found, 300_000);
    }
}

#[tokio::test]
async fn a_full_pool_is_waited_for_no_longer_than_the_limit() {
    let database = Database::sqlite().await;
    let Database::Sqlite(pool) = &database else { unreachable!() };
    let held = pool.acquire().await.unwrap();
    let limit = Duration::from_millis(50);
    let query = database.query(Spec { sql: "SELECT 1 AS v".into(), timeout: Some(limit), ..Spec::default() });
    let error = read(&*query, &Value::Null, PageRequest::new(0, 1)).await.unwrap_err();
    assert_eq!(error.to_string(), "the SQL statement exceeded its timeout of 50ms");
    drop(held);
    assert_eq!(read(&*query, &Value::Null, PageRequest::new(0, 1)).await.unwrap().len(), 1);
}

/// Ends the session that runs the statement with this mark in it, as soon as there is one.
async fn kill(database: &Database, mark: &str) {
    loop {
        let killed = match database {
            Database::Postgres(pool) => {
                let sql = "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE query LIKE '%' || $1 || '%' AND state = 'active' AND pid <> pg_backend_pid() \
                           AND wait_event = 'PgSleep') AS killed";
                sqlx::query_scalar::<_, i64>(sql).bind(mark).fetch_one(pool).await.unwrap()
            }
            Database::Mariadb(pool) => {
                let sql = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist \
                           WHERE info LIKE concat('%', ?, '%') AND id <> connection_id() AND command = 'Execute'";
                let ids: Vec<i64> = sqlx::query_scalar(sql).bind(mark).fetch_all(pool).await.unwrap();
                for id in &ids {
                    database.execute(&format!("KILL CONNECTION {id}")).await;
                }
                i64::try_from(ids.len()).unwrap()
            }
            Database::Sqlite(_) => unreachable!("it has no server"),
        };
        if killed > 0 {
            return;
        }
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_in_the_middle_is_an_error_and_the_next_page_works() {
    for database in [Database::postgres().await, Database::mariadb().await].into_iter().flatten() {
        let mark = super::table();
        let sql = format!("{} /* {mark} */", endless(&database));
        let slow = database.query(Spec { sql, ..Spec::default() });
        let (read_out, ()) =
            tokio::join!(read(&*slow, &Value::Null, PageRequest::new(0, 1)), kill(&database, &mark));
        let error = read_out.unwrap_err();
        assert_eq!(error.to_string(), "the database could not read the rows", "{}", chain(&error));
        assert!(!error.to_string().contains(&mark));
        let quick = database.query(Spec { sql: "SELECT 1 AS v".into(), ..Spec::default() });
        assert_eq!(read(&*quick, &Value::Null, PageRequest::new(0, 1)).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_column_that_changed_its_type_is_not_read_as_what_it_was() {
    let Some(database) = Database::postgres().await else { return };
    let name = super::table();
    database.execute(&format!("CREATE TABLE {name} (v integer)")).await;
    database.execute(&format!("INSERT INTO {name} VALUES (7)")).await;
    let query = database.query(Spec { sql: format!("SELECT * FROM {name}"), ..Spec::default() });
    let page = || read(&*query, &Value::Null, PageRequest::new(0, 1));
    assert_eq!(page().await.unwrap().as_json(), r#"{"v":7}"#);
    database.execute(&format!("ALTER TABLE {name} ALTER v TYPE text")).await;
    // Each connection of the pool has the old statement, too, and may refuse once.
    let mut tries = 0;
    let text = loop {
        match page().await {
            Ok(rows) => break rows.as_json().to_owned(),
            Err(error) => {
                tries += 1;
                assert!(tries < 10, "it never comes back: {error:?}");
            }
        }
    };
    assert_eq!(text, r#"{"v":"7"}"#);
}
