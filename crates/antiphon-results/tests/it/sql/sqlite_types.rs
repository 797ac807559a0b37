use antiphon_results::{ColumnDefinition, ColumnType, Sort, source::PageRequest};
use serde_json::Value;

use super::{Database, Spec, chain, check_type, read};

#[tokio::test]
async fn sqlite_values_are_what_they_are() {
    let database = Database::sqlite().await;
    let entries = [
        ("INTEGER", "9223372036854775807", ColumnType::Integer, "9223372036854775807"),
        ("INTEGER", "-9223372036854775808", ColumnType::Integer, "-9223372036854775808"),
        ("SMALLINT", "-5", ColumnType::Integer, "-5"),
        ("REAL", "0.1", ColumnType::Number, "0.1"),
        ("REAL", "9e999", ColumnType::Number, "\"Infinity\""),
        ("DOUBLE PRECISION", "-9e999", ColumnType::Number, "\"-Infinity\""),
        ("NUMERIC", "12.50", ColumnType::Number, "12.5"),
        ("DECIMAL(30,10)", "'12345678901234567890.0123456789'", ColumnType::Number, "1.2345678901234567e+19"),
        (
            "TEXT",
            "'12345678901234567890.0123456789'",
            ColumnType::Number,
            "\"12345678901234567890.0123456789\"",
        ),
        ("BOOLEAN", "1", ColumnType::Boolean, "true"),
        ("BOOLEAN", "0", ColumnType::Boolean, "false"),
        ("INTEGER", "7", ColumnType::Boolean, "true"),
        ("BOOLEAN", "1", ColumnType::Integer, "1"),
        (
            "TEXT",
            "'a''b' || char(34, 92, 10, 13, 1, 0, 128512)",
            ColumnType::String,
            "\"a'b\\\"\\\\\\n\\r\\u0001\\u0000😀\"",
        ),
        ("TEXT COLLATE NOCASE", "'Ab'", ColumnType::String, "\"Ab\""),
        ("DATE", "'2025-01-15'", ColumnType::Date, "\"2025-01-15\""),
        ("TIMESTAMP", "'2025-01-15T10:30:00Z'", ColumnType::Timestamp, "\"2025-01-15T10:30:00Z\""),
        ("BLOB", "x'00ff10'", ColumnType::String, "\"AP8Q\""),
        ("BLOB", "x''", ColumnType::String, "\"\""),
        ("", "'untyped'", ColumnType::String, "\"untyped\""),
        ("", "5", ColumnType::Integer, "5"),
        ("TEXT", "'{\"b\": 1.10,' || char(10) || '\"a\": 1}'", ColumnType::Json, "{\"b\": 1.10, \"a\": 1}"),
    ];
    for (column, literal, kind, expected) in entries {
        let is_sortable = kind != ColumnType::Json;
        let definition = ColumnDefinition::new("v", kind);
        check_type(&database, column, literal, definition, expected, is_sortable).await;
    }
}

/// To go on from them would give wrong pages, so there is none to go on from.
#[tokio::test]
async fn sqlite_bytes_where_none_are_declared_are_read_but_not_sorted_by() {
    let database = Database::sqlite().await;
    let query = database.query(Spec {
        sql: "SELECT 1 AS id, x'00' AS v UNION ALL SELECT 2, 'text'".into(),
        columns: vec![ColumnDefinition::integer("id"), ColumnDefinition::string("v")],
        key: vec!["id"],
        ..Spec::default()
    });
    let rows = read(&*query, &Value::Null, PageRequest::new(0, 9)).await.unwrap();
    assert_eq!(rows.as_json(), r#"{"id":1,"v":"AA=="},{"id":2,"v":"text"}"#);
    let sorted = PageRequest::new(0, 9).with_sort(Some(Sort::ascending("v")));
    let error = read(&*query, &Value::Null, sorted).await.unwrap_err();
    assert!(chain(&error).contains("bytes and other values are mixed"), "{}", chain(&error));
}

#[tokio::test]
async fn sqlite_text_that_is_no_json_is_an_error_that_names_the_column() {
    let database = Database::sqlite().await;
    let query = database.query(Spec {
        sql: "SELECT 'secret {' AS v".into(),
        columns: vec![ColumnDefinition::new("v", ColumnType::Json)],
        ..Spec::default()
    });
    let error = read(&*query, &Value::Null, PageRequest::new(0, 9)).await.unwrap_err();
    assert_eq!(error.to_string(), "a value of column `v` cannot be read");
    assert!(!chain(&error).contains("secret"));
}
