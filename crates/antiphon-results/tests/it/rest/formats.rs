//! NDJSON, CSV, and what else rows may come as.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use antiphon_results::{BoxError, ColumnDefinition, CreateOptions, Rows, source::Source};
use axum::body::Body;
use serde_json::json;

use super::{House, people};

const NDJSON: (&str, &str) = ("accept", "application/x-ndjson");
const CSV: (&str, &str) = ("accept", "text/csv");

#[tokio::test]
async fn ndjson_streams_every_row() {
    let house = House::open();
    let path = house.people(2500).await;
    for (method, path) in [("POST", path.clone()), ("GET", format!("{path}/rows"))] {
        let answer = house.ask_with(method, &path, &[NDJSON], Body::empty()).await;
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
        assert_eq!(answer.header("antiphon-consistency"), Some("fixed"));
        let text = answer.text();
        assert_eq!(text.lines().count(), 2500);
        assert!(
            text.starts_with("{\"id\":1,\"name\":\"Person 1\"}\n") && text.ends_with("\"Person 2500\"}\n")
        );
    }
    let some = r#"{"offset":10,"limit":1500,"sort":{"field":"id","order":"desc"}}"#;
    let jsonl = house.ask_with("POST", &path, &[("accept", "application/jsonl")], some).await;
    assert_eq!(jsonl.header("content-type"), Some("application/jsonl"));
    assert!(jsonl.text().starts_with("{\"id\":2490,") && jsonl.text().lines().count() == 1500);
}

#[tokio::test]
async fn a_query_with_a_key_streams_by_key() {
    let house = House::open();
    let path = house.numbers(3100).await;
    let answer = house.ask_with("GET", &format!("{path}/rows"), &[NDJSON], Body::empty()).await;
    assert_eq!(answer.header("antiphon-consistency"), Some("keyset"));
    assert_eq!(answer.header("etag"), None, "rows that may change have no validator before they are read");
    assert_eq!(answer.text().lines().count(), 3100);
}

#[tokio::test]
async fn csv_cells_cannot_be_run() {
    let house = House::open();
    let mut rows = Rows::new();
    rows.push(&json!({"n": -5, "text": "=1+1"})).unwrap();
    rows.push(&json!({"n": 1.5, "text": "+49 30"})).unwrap();
    rows.push(&json!({"n": null, "text": "-2+3\",x"})).unwrap();
    rows.push(&json!({"n": true, "text": "@SUM(A1)"})).unwrap();
    rows.push(&json!({"n": {"a": [1]}, "text": "\tx"})).unwrap();
    rows.push(&json!({"n": "-12.50", "text": "\rx\n"})).unwrap();
    rows.push(&json!({"text": "", "extra": "not declared"})).unwrap();
    let columns = [ColumnDefinition::number("n"), ColumnDefinition::string("text")];
    let name = "Ünder \"../../etc\"\r\nX: y";
    let path = house.make(CreateOptions::new(name, Source::rows(rows)).with_columns(columns)).await;
    let answer = house.ask_with("POST", &path, &[CSV], Body::empty()).await;
    assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(
        answer.text(),
        "n,text\r\n-5,'=1+1\r\n1.5,'+49 30\r\n,\"'-2+3\"\",x\"\r\ntrue,'@SUM(A1)\r\n\"{\"\"a\"\":[1]}\",'\tx\r\n-12.50,\"'\rx\n\"\r\n,\"\"\r\n"
    );
    assert_eq!(
        answer.header("content-disposition"),
        Some(
            "attachment; filename=\"_nder _______etc___X_ y.csv\"; filename*=UTF-8''%C3%9Cnder%20_______etc___X_%20y.csv"
        )
    );
    let raw =
        house.ask_with("GET", &format!("{path}/rows?csv_safe=false&limit=1"), &[CSV], Body::empty()).await;
    assert_eq!(raw.text(), "n,text\r\n-5,=1+1\r\n");
}

#[tokio::test]
async fn csv_of_a_set_without_columns_takes_them_from_its_first_row() {
    let house = House::open();
    let execute = |_| async { Ok::<_, BoxError>(people(2)) };
    let source = Source::closures(execute, || async { Ok(2) });
    let path = house.make(CreateOptions::new("=", source).with_columns([])).await;
    let answer = house.ask_with("POST", &path, &[CSV], Body::empty()).await;
    assert_eq!(answer.text(), "id,name\r\n1,Person 1\r\n2,Person 2\r\n");
    assert!(answer.header("content-disposition").unwrap().starts_with("attachment; filename=\"rows.csv\""));
}

#[tokio::test]
async fn what_is_not_acceptable_is_406() {
    let house = House::open();
    let path = house.people(1).await;
    for accept in ["text/html", "*/*;q=0", "garbage", ""] {
        let answer = house.ask_with("POST", &path, &[("accept", accept)], Body::empty()).await;
        assert_eq!(answer.refusal(), (406, "INVALID_REQUEST".to_owned()), "{accept}");
    }
}

#[tokio::test]
async fn a_source_that_fails_at_once_is_an_error_and_not_a_stream() {
    let house = House::open();
    let failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&failing);
    let execute = move |_| {
        let fails = fails.load(Ordering::SeqCst);
        async move { if fails { Err("secret-host:5432 refused".into()) } else { Ok::<_, BoxError>(people(2)) } }
    };
    let path = house.make(CreateOptions::new("Live", Source::closures(execute, || async { Ok(2) }))).await;
    failing.store(true, Ordering::SeqCst);
    for headers in [&[][..], &[NDJSON], &[CSV]] {
        let answer = house.ask_with("POST", &path, headers, Body::empty()).await;
        assert_eq!(answer.refusal(), (502, "QUERY_EXECUTION_FAILED".to_owned()));
        assert!(!answer.text().contains("secret-host"), "what happened inside stays inside");
    }
}

#[tokio::test]
async fn a_source_that_panics_is_an_error_like_any_other() {
    let house = House::open();
    let panicking = Arc::new(AtomicBool::new(false));
    let panics = Arc::clone(&panicking);
    let execute = move |page: antiphon_results::source::PageRequest| {
        let panics = panics.load(Ordering::SeqCst) && page.offset != 1000;
        async move {
            assert!(!panics, "on purpose");
            Ok::<_, BoxError>(people(usize::try_from(page.limit).unwrap()))
        }
    };
    let path = house.make(CreateOptions::new("Live", Source::closures(execute, || async { Ok(5000) }))).await;
    panicking.store(true, Ordering::SeqCst);
    let answer = house.ask("POST", &path, Body::empty()).await;
    assert_eq!(answer.refusal(), (500, "INTERNAL_ERROR".to_owned()));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let broken = house.ask_with("POST", &path, &[NDJSON], r#"{"offset":1000}"#).await;
    assert_eq!((broken.status.as_u16(), broken.body), (200, None), "the second part panics: it breaks off");
}
