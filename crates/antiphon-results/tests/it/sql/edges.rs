//! Where it is easy to be wrong with a database: odd values, readers who leave, callers who err.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use antiphon_results::{
    Access, BoxError, ColumnDefinition, ColumnType, Consistency, CreateOptions, DualResponseError,
    DualResponseServer, DualResponseServerOptions, PageOptions, Row, Rows, Sort, Source,
    client::{
        DualResponseClient, DualResponseClientOptions, Fetch, FetchAllOptions, FetchRequest, FetchResponse,
        StreamOptions,
    },
    source::{PageRequest, Query, SqlError, SqlQuery},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::{Database, Spec, after, chain, check_type, read, table};

#[tokio::test]
async fn a_date_of_zeros_is_a_date() {
    let Some(db) = Database::mariadb().await else { return };
    check_type(
        &db,
        "DATE",
        "'0000-00-00'",
        ColumnDefinition::new("v", ColumnType::Date),
        "\"0000-00-00\"",
        true,
    )
    .await;
}

#[tokio::test]
async fn a_moment_of_zeros_is_a_moment() {
    let Some(db) = Database::mariadb().await else { return };
    check_type(
        &db,
        "DATETIME",
        "'0000-00-00 00:00:00'",
        ColumnDefinition::new("v", ColumnType::Timestamp),
        "\"0000-00-00T00:00:00\"",
        true,
    )
    .await;
}

#[tokio::test]
async fn any_whole_number_is_a_count() {
    let mut bad = vec![];
    for db in Database::all().await {
        for count in [
            "SELECT CAST(7 AS DECIMAL(10,0))",
            "SELECT sum(a) FROM (SELECT 3 AS a UNION ALL SELECT 4) AS s",
            "SELECT 7",
        ] {
            let q =
                db.query(Spec { sql: "SELECT 1 AS v".into(), count: Some(count.into()), ..Spec::default() });
            match q.count(&Value::Null).await {
                Ok(7) => {}
                Ok(n) => bad.push(format!("{db:?} {count}: {n}")),
                Err(e) => bad.push(format!("{} {count}: {}", &format!("{db:?}")[..8], chain(&e))),
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Seconds of CPU that this process has used.
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}

const ENDLESS: &str =
    "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n) SELECT max(v) AS v FROM n";

#[tokio::test]
async fn sqlite_stops_a_statement_that_waited_for_its_connection() {
    let db = Database::sqlite().await;
    let Database::Sqlite(pool) = &db else { unreachable!() };
    let q = db.query(Spec {
        sql: ENDLESS.into(),
        timeout: Some(Duration::from_millis(500)),
        columns: vec![ColumnDefinition::integer("v")],
        ..Spec::default()
    });
    // Prepared first, so that only the statement itself waits.
    let _ = read(&*q, &Value::Null, PageRequest::new(0, 1)).await;
    let held = pool.acquire().await.unwrap();
    let (r, ()) = tokio::join!(read(&*q, &Value::Null, PageRequest::new(0, 1)), async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        drop(held);
    });
    assert!(matches!(r.unwrap_err().downcast_ref::<SqlError>(), Some(SqlError::Timeout { .. })));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = cpu();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let used = cpu() - before;
    assert!(used < 0.5, "still burning: {used} s of CPU in 2 s");
}

#[tokio::test]
async fn sqlite_stops_a_statement_whose_reader_left() {
    let db = Database::sqlite().await;
    let q = db.query(Spec { sql: ENDLESS.into(), timeout: Some(Duration::from_secs(2)), ..Spec::default() });
    let _ = tokio::time::timeout(Duration::from_millis(300), read(&*q, &Value::Null, PageRequest::new(0, 1)))
        .await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let before = cpu();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let used = cpu() - before;
    let quick = db.query(Spec {
        sql: "SELECT 1 AS v".into(),
        timeout: Some(Duration::from_secs(3)),
        ..Spec::default()
    });
    let next = read(&*quick, &Value::Null, PageRequest::new(0, 1)).await;
    assert!(used < 0.5 && next.is_ok(), "still burning: {used} s of CPU in 2 s; next: {next:?}");
}

#[tokio::test]
async fn readers_who_leave_keep_no_connection() {
    let Some(db) = Database::postgres().await else { return };
    let q = db.query(Spec { sql: "SELECT 1 AS v FROM pg_sleep(20)".into(), ..Spec::default() });
    for _ in 0..3 {
        let _ =
            tokio::time::timeout(Duration::from_millis(300), read(&*q, &Value::Null, PageRequest::new(0, 1)))
                .await;
    }
    let quick = db.query(Spec {
        sql: "SELECT 1 AS v".into(),
        timeout: Some(Duration::from_secs(5)),
        ..Spec::default()
    });
    let next = read(&*quick, &Value::Null, PageRequest::new(0, 1)).await;
    assert!(next.is_ok(), "{}", chain(&next.unwrap_err()));
}

#[tokio::test]
async fn a_tiny_exponent_is_refused() {
    let Some(db) = Database::postgres().await else { return };
    let q =
        db.query(Spec { sql: "SELECT $1::numeric AS v".into(), parameters: vec!["n"], ..Spec::default() });
    let r = read(&*q, &json!({"n": "1e-2147483648"}), PageRequest::new(0, 1)).await;
    assert!(r.is_err());
}

#[test]
fn a_refused_row_leaves_nothing_behind() {
    let mut rows = Rows::new();
    rows.push_json("{\"a\":1}").unwrap();
    assert!(rows.push_json("{\"a\":\n}").is_err());
    rows.push_json("{\"a\":2}").unwrap();
    assert_eq!(rows.as_json(), "{\"a\":1},{\"a\":2}");
}

#[test]
fn a_row_with_line_breaks_keeps_its_digits() {
    let mut rows = Rows::new();
    rows.push_json("{\"b\":12345678901234567890.5,\n\"a\":1.10}").unwrap();
    assert_eq!(rows.get(0).unwrap(), "{\"b\":12345678901234567890.5, \"a\":1.10}");
}

#[tokio::test]
async fn keyset_pages_miss_none_that_stayed() {
    let db = Database::sqlite().await;
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let ids: Vec<String> = (1..=100).map(|i| format!("({})", i * 100)).collect();
    db.execute(&format!("INSERT INTO t VALUES {}", ids.join(","))).await;
    let Database::Sqlite(pool) = &db else { unreachable!() };
    let q = SqlQuery::sqlite(pool.clone(), "SELECT id FROM t")
        .with_columns([ColumnDefinition::integer("id")])
        .with_key(["id"]);
    let server =
        DualResponseServer::new(DualResponseServerOptions::new("https://x.example/r").with_query("q", q))
            .unwrap();
    let id = server
        .create_response(CreateOptions::new("x", Source::query("q", json!({}))))
        .await
        .unwrap()
        .resource_id;
    let mut seen = vec![];
    let mut page = server.page(&id, &Access::Program, PageOptions::new(0, 50)).await.unwrap();
    db.execute("INSERT INTO t VALUES (5001),(5002),(5003),(5004),(5005)").await;
    loop {
        seen.extend(page.rows.read::<Row>().unwrap().iter().map(|r| r["id"].as_u64().unwrap()));
        assert_eq!(page.consistency, Consistency::Keyset);
        let Some(c) = page.cursor.clone() else { break };
        page = server.page(&id, &Access::Program, PageOptions::new(0, 50).with_cursor(c)).await.unwrap();
    }
    let missed: Vec<u64> = (1..=100).map(|i| i * 100).filter(|i| !seen.contains(i)).collect();
    assert!(missed.is_empty(), "missed {missed:?}");
}

#[tokio::test]
async fn a_number_declared_boolean_is_one() {
    let db = Database::sqlite().await;
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v REAL)").await;
    db.execute("INSERT INTO t VALUES (1, 0.5), (2, 0.5), (3, 0.5)").await;
    let q = db.query(Spec {
        sql: "SELECT * FROM t".into(),
        columns: vec![ColumnDefinition::integer("id"), ColumnDefinition::boolean("v")],
        key: vec!["id"],
        ..Spec::default()
    });
    let sort = Sort::ascending("v");
    let rows = read(&*q, &Value::Null, PageRequest::new(0, 1).with_sort(Some(sort.clone()))).await.unwrap();
    let row: Row = serde_json::from_str(rows.get(0).unwrap()).unwrap();
    let next = read(&*q, &Value::Null, after(1, Some(&sort), vec![row["v"].clone(), row["id"].clone()]))
        .await
        .unwrap();
    assert!(next.as_json().contains("\"id\":2"), "{} then {}", rows.as_json(), next.as_json());
}

#[tokio::test]
async fn what_callers_do_wrong_is_invalid() {
    let mut bad = vec![];
    for db in Database::all().await {
        let name = table();
        db.execute(&format!("CREATE TABLE {name} (id INTEGER PRIMARY KEY, j VARCHAR(20))")).await;
        db.execute(&format!("INSERT INTO {name} VALUES (1, '1'), (2, '2'), (3, '3')")).await;
        let spec = Spec {
            sql: format!("SELECT * FROM {name}"),
            columns: vec![ColumnDefinition::integer("id"), ColumnDefinition::new("j", ColumnType::Json)],
            key: vec!["id"],
            ..Spec::default()
        };
        let server = DualResponseServer::new(
            DualResponseServerOptions::new("https://x.example/r").with_query("q", db.query(spec)),
        )
        .unwrap();
        let id = server
            .create_response(CreateOptions::new("x", Source::query("q", json!({}))))
            .await
            .unwrap()
            .resource_id;
        let cursor = |v: Value| BASE64_URL_SAFE_NO_PAD.encode(v.to_string());
        let asks = [
            ("sort by json", PageOptions::new(0, 5).with_sort(Sort::ascending("j"))),
            ("cursor null", PageOptions::new(0, 5).with_cursor(cursor(json!({"o": 1, "k": [null]})))),
            ("cursor text", PageOptions::new(0, 5).with_cursor(cursor(json!({"o": 1, "k": ["x"]})))),
            ("cursor huge", PageOptions::new(0, 5).with_cursor(cursor(json!({"o": 1, "k": [1e300]})))),
            ("offset", PageOptions::new(u64::MAX, 5)),
        ];
        for (what, ask) in asks {
            if let Err(error) = server.page(&id, &Access::Program, ask).await
                && !matches!(error, DualResponseError::Invalid(_))
            {
                bad.push(format!("{} {what}: {error:?}", &format!("{db:?}")[..8]));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[tokio::test]
async fn types_without_an_order_are_not_sorted_by() {
    let Some(db) = Database::postgres().await else { return };
    let mut bad = vec![];
    for (t, v) in [("xml", "'<a/>'"), ("point", "'(1,2)'"), ("json", "'1'")] {
        let q = db.query(Spec {
            sql: format!("SELECT 1 AS id, {v}::{t} AS v"),
            columns: vec![ColumnDefinition::integer("id"), ColumnDefinition::string("v")],
            key: vec!["id"],
            ..Spec::default()
        });
        let e = read(&*q, &Value::Null, PageRequest::new(0, 1).with_sort(Some(Sort::ascending("v"))))
            .await
            .unwrap_err();
        if !matches!(e.downcast_ref::<SqlError>(), Some(SqlError::Invalid(_))) {
            bad.push(format!("{t}: {}", chain(&e)));
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[tokio::test]
async fn odd_json_in_one_cell_spoils_no_set() {
    let Some(db) = Database::postgres().await else { return };
    let Database::Postgres(pool) = &db else { unreachable!() };
    let mut bad = vec![];
    for v in [
        "'1e400'::json",
        "'1e400'::jsonb",
        "'\"\\ud800\"'::json",
        "(repeat('[', 200) || repeat(']', 200))::json",
        "ARRAY[1e400::numeric]",
    ] {
        let q = SqlQuery::postgres(pool.clone(), format!("SELECT 1 AS id, {v} AS v"))
            .with_columns([ColumnDefinition::integer("id"), ColumnDefinition::new("v", ColumnType::Json)])
            .with_key(["id"]);
        let server =
            DualResponseServer::new(DualResponseServerOptions::new("https://x.example/r").with_query("q", q))
                .unwrap();
        if let Err(e) = server.create_response(CreateOptions::new("x", Source::query("q", json!({})))).await {
            bad.push(format!("{v}: {e:?}"));
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Answers with three hundred rows of a megabyte.
#[derive(Debug)]
struct Big;
#[async_trait::async_trait]
impl Fetch for Big {
    async fn fetch(&self, _: FetchRequest) -> Result<FetchResponse, BoxError> {
        let mut h = http::HeaderMap::new();
        h.insert("content-type", "application/x-ndjson".parse().unwrap());
        let row = bytes::Bytes::from(format!("{{\"a\":\"{}\"}}\n", "x".repeat(1 << 20)));
        let body = futures_util::stream::iter((0..300).map(move |_| Ok(row.clone())));
        Ok(FetchResponse::new(http::StatusCode::OK, h, Box::pin(body)))
    }
}

#[tokio::test]
async fn a_batch_is_bounded_in_bytes() {
    let c = DualResponseClient::new(
        DualResponseClientOptions::new().with_base_url("https://x.example/r").with_fetch(Big),
    )
    .unwrap();
    let p = c
        .parse_structured(
            &json!({"results": [], "resource": {"uri": "resource://abc"}, "metadata": {"total_count": 300}}),
        )
        .unwrap();
    let mut s = p.fetch_stream_text(StreamOptions::new());
    let (mut most, mut rows) = (0, 0);
    while let Some(b) = s.next().await {
        let b = b.unwrap();
        most = most.max(b.bytes());
        rows += b.len();
    }
    assert_eq!(rows, 300);
    assert!(most <= (64 << 20) + (2 << 20), "a batch of {} MiB, and max_body is 64 MiB", most >> 20);
}

/// A query whose table loses rows between its pages.
#[derive(Debug)]
struct Shifty(Arc<dyn Query>, Database, AtomicU64);
#[async_trait::async_trait]
impl Query for Shifty {
    fn columns(&self) -> &[ColumnDefinition] {
        self.0.columns()
    }
    fn key(&self) -> &[String] {
        self.0.key()
    }
    fn sorts(&self) -> bool {
        self.0.sorts()
    }
    async fn count(&self, p: &Value) -> Result<u64, BoxError> {
        self.0.count(p).await
    }
    async fn page(&self, p: &Value, r: &PageRequest) -> Result<Rows, BoxError> {
        // 0 is the preview, 1 the first page; before the second somebody deletes rows that were read already.
        if self.2.fetch_add(1, Ordering::SeqCst) == 2 {
            self.1.execute("DELETE FROM t WHERE id <= 3").await;
        }
        self.0.page(p, r).await
    }
}

#[tokio::test]
async fn fetch_all_misses_none_that_stayed() {
    let db = Database::sqlite().await;
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let ids: Vec<String> = (1..=30).map(|i| format!("({i})")).collect();
    db.execute(&format!("INSERT INTO t VALUES {}", ids.join(","))).await;
    let q = db.query(Spec {
        sql: "SELECT id FROM t".into(),
        columns: vec![ColumnDefinition::integer("id")],
        key: vec!["id"],
        ..Spec::default()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/resources", listener.local_addr().unwrap());
    let server = DualResponseServer::new(
        DualResponseServerOptions::new(&base).with_query("q", Shifty(q, db.clone(), AtomicU64::default())),
    )
    .unwrap();
    let app = axum::Router::new().nest("/resources", server.router());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let made = server.create_response(CreateOptions::new("x", Source::query("q", json!({})))).await.unwrap();
    let c = DualResponseClient::new(DualResponseClientOptions::new().with_base_url(&base)).unwrap();
    let set = c.parse_structured(&made.to_structured_content()).unwrap();
    let rows = set.fetch_all(FetchAllOptions::new().with_batch_size(10)).await.unwrap();
    let seen: Vec<u64> = rows.iter().map(|r| r["id"].as_u64().unwrap()).collect();
    let missed: Vec<u64> = (1..=30).filter(|i| !seen.contains(i)).collect();
    assert!(missed.is_empty(), "missed {missed:?} of a set with a key, and no error");
}
