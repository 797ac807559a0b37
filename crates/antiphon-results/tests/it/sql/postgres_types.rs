use antiphon_results::{ColumnDefinition, ColumnType};

use super::{Database, check_type, table};

async fn check(entries: &[(&str, &str, ColumnType, &str)]) {
    run(entries, true).await;
}

async fn run(entries: &[(&str, &str, ColumnType, &str)], is_sortable: bool) {
    let Some(database) = Database::postgres().await else { return };
    for (column, literal, kind, expected) in entries {
        let definition = ColumnDefinition::new("v", kind.clone());
        check_type(&database, column, literal, definition, expected, is_sortable).await;
    }
}

#[tokio::test]
async fn postgres_whole_numbers_keep_all_digits() {
    check(&[
        ("smallint", "-32768", ColumnType::Integer, "-32768"),
        ("integer", "2147483647", ColumnType::Integer, "2147483647"),
        ("bigint", "-9223372036854775808", ColumnType::Integer, "-9223372036854775808"),
        ("bigint", "9223372036854775807", ColumnType::Integer, "9223372036854775807"),
        ("oid", "4294967295", ColumnType::Integer, "\"4294967295\""),
    ])
    .await;
}

#[tokio::test]
async fn postgres_floats_are_the_shortest_that_read_back_the_same() {
    check(&[
        ("real", "0.1", ColumnType::Number, "0.1"),
        ("real", "'NaN'", ColumnType::Number, "\"NaN\""),
        ("real", "'-Infinity'", ColumnType::Number, "\"-Infinity\""),
        ("double precision", "0.1", ColumnType::Number, "0.1"),
        ("double precision", "0.30000000000000004", ColumnType::Number, "0.30000000000000004"),
        ("double precision", "5e-324", ColumnType::Number, "5e-324"),
        ("double precision", "'NaN'", ColumnType::Number, "\"NaN\""),
        ("double precision", "'Infinity'", ColumnType::Number, "\"Infinity\""),
        ("double precision", "'-Infinity'", ColumnType::Number, "\"-Infinity\""),
    ])
    .await;
}

#[tokio::test]
async fn postgres_decimals_lose_nothing() {
    check(&[
        ("numeric(10,2)", "12.50", ColumnType::Number, "12.50"),
        ("numeric(10,2)", "12.50", ColumnType::String, "\"12.50\""),
        (
            "numeric(30,10)",
            "12345678901234567890.0123456789",
            ColumnType::Number,
            "\"12345678901234567890.0123456789\"",
        ),
        (
            "numeric",
            "0.1000000000000000055511151231257827",
            ColumnType::Number,
            "\"0.1000000000000000055511151231257827\"",
        ),
        ("numeric", "'NaN'", ColumnType::Number, "\"NaN\""),
        ("numeric", "123456789012345", ColumnType::Integer, "123456789012345"),
        ("money", "1234.5", ColumnType::Number, "\"$1,234.50\""),
    ])
    .await;
}

#[tokio::test]
async fn postgres_text_of_all_kinds_is_text() {
    check(&[
        ("boolean", "true", ColumnType::Boolean, "true"),
        ("boolean", "false", ColumnType::Boolean, "false"),
        (
            "text",
            "E'\"\\\\ \\n\\r\\t\\u0001 \\U0001F600 \\u2028'",
            ColumnType::String,
            "\"\\\"\\\\ \\n\\r\\t\\u0001 😀 \u{2028}\"",
        ),
        ("text COLLATE \"C\"", "''", ColumnType::String, "\"\""),
        ("varchar(9)", "'a''b'", ColumnType::String, "\"a'b\""),
        ("char(5)", "'ab'", ColumnType::String, "\"ab   \""),
        ("\"char\"", "'x'", ColumnType::String, "\"x\""),
        ("name", "'n'", ColumnType::String, "\"n\""),
        (
            "uuid",
            "'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'",
            ColumnType::String,
            "\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\"",
        ),
        ("inet", "'10.0.0.1/8'", ColumnType::String, "\"10.0.0.1/8\""),
        ("bit(3)", "B'101'", ColumnType::String, "\"101\""),
        ("bit varying", "B'101'", ColumnType::String, "\"101\""),
        ("int4range", "'[1,5)'", ColumnType::String, "\"[1,5)\""),
        ("bytea", "'\\x00ff10'", ColumnType::String, "\"AP8Q\""),
        ("bytea", "''", ColumnType::String, "\"\""),
    ])
    .await;
}

#[tokio::test]
async fn postgres_moments_are_rfc_3339_where_the_zone_is_known() {
    check(&[
        ("date", "'2025-01-15'", ColumnType::Date, "\"2025-01-15\""),
        ("date", "'infinity'", ColumnType::Date, "\"infinity\""),
        ("date", "'0044-03-15 BC'", ColumnType::Date, "\"0044-03-15 BC\""),
        ("time", "'23:59:59.25'", ColumnType::String, "\"23:59:59.250\""),
        ("time", "'24:00:00'", ColumnType::String, "\"24:00:00\""),
        ("timetz", "'10:30:00+02'", ColumnType::String, "\"10:30:00+02\""),
        ("timestamp", "'2025-01-15 10:30:00'", ColumnType::Timestamp, "\"2025-01-15T10:30:00\""),
        (
            "timestamp",
            "'1969-12-31 23:59:59.999999'",
            ColumnType::Timestamp,
            "\"1969-12-31T23:59:59.999999\"",
        ),
        (
            "timestamptz",
            "'2025-01-15 10:30:00.123456+02'",
            ColumnType::Timestamp,
            "\"2025-01-15T08:30:00.123456Z\"",
        ),
        ("timestamptz", "'-infinity'", ColumnType::Timestamp, "\"-infinity\""),
        ("timestamptz", "'10000-01-01 00:00:00Z'", ColumnType::Timestamp, "\"10000-01-01T00:00:00Z\""),
        ("timestamptz", "'0044-03-15 00:00:00Z BC'", ColumnType::Timestamp, "\"0044-03-15T00:00:00Z BC\""),
        ("interval", "'1 day 02:03'", ColumnType::String, "\"1 day 02:03:00\""),
    ])
    .await;
}

#[tokio::test]
async fn postgres_json_and_arrays_stay_what_they_are_and_have_no_order() {
    run(
        &[
            (
                "json",
                "E'{\"b\": 1.10,\\n \"a\": 12345678901234567890.5}'",
                ColumnType::Json,
                "{\"b\": 1.10,  \"a\": 12345678901234567890.5}",
            ),
            ("jsonb", "'{\"b\": 1.10, \"a\": [null]}'", ColumnType::Json, "{\"a\": [null], \"b\": 1.10}"),
            ("jsonb", "'\"text\"'", ColumnType::Json, "\"text\""),
            ("integer[]", "'{1,NULL,3}'", ColumnType::Json, "[1,null,3]"),
            ("text[]", "ARRAY['a\"', '{b}']", ColumnType::Json, "[\"a\\\"\",\"{b}\"]"),
            ("numeric[]", "'{12345678901234567890.5}'", ColumnType::Json, "[12345678901234567890.5]"),
            ("float8[]", "'{NaN}'", ColumnType::Json, "[\"NaN\"]"),
            ("integer[][]", "'{{1,2},{3,4}}'", ColumnType::Other("array".into()), "[[1,2],[3,4]]"),
            ("xml", "'<a/>'", ColumnType::String, "\"<a/>\""),
            ("text", "'{\"a\": 1}'", ColumnType::Json, "{\"a\": 1}"),
        ],
        false,
    )
    .await;
}

#[tokio::test]
async fn postgres_types_of_the_authors_own_are_known() {
    let Some(database) = Database::postgres().await else { return };
    let name = table();
    // A name that must be quoted wherever it is written.
    database.execute(&format!("CREATE TYPE \"{name} Odd\"\"::x\" AS ENUM ('sad', 'o''k', 'happy')")).await;
    database.execute(&format!("CREATE DOMAIN {name}_d AS integer")).await;
    database.execute(&format!("CREATE TYPE {name}_c AS (a integer, b text)")).await;
    let string = || ColumnDefinition::string("v");
    check_type(&database, &format!("\"{name} Odd\"\"::x\""), "'o''k'", string(), "\"o'k\"", true).await;
    check_type(&database, &format!("\"{name} Odd\"\"::x\"[]"), "'{sad}'", string(), "[\"sad\"]", false).await;
    check_type(&database, &format!("{name}_d"), "7", string(), "7", true).await;
    check_type(&database, &format!("{name}_c"), "(1, 'x')", string(), "{\"a\":1,\"b\":\"x\"}", false).await;
}
