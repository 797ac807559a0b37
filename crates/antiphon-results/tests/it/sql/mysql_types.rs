use antiphon_results::{ColumnDefinition, ColumnType};

use super::{Database, check_type};

async fn check(entries: &[(&str, &str, ColumnType, &str)]) {
    let Some(database) = Database::mariadb().await else { return };
    for (column, literal, kind, expected) in entries {
        let is_sortable = *kind != ColumnType::Json;
        let definition = ColumnDefinition::new("v", kind.clone());
        check_type(&database, column, literal, definition, expected, is_sortable).await;
    }
}

#[tokio::test]
async fn mariadb_whole_numbers_keep_all_digits() {
    check(&[
        ("TINYINT", "-128", ColumnType::Integer, "-128"),
        ("TINYINT UNSIGNED", "255", ColumnType::Integer, "255"),
        ("SMALLINT", "-32768", ColumnType::Integer, "-32768"),
        ("SMALLINT UNSIGNED", "65535", ColumnType::Integer, "65535"),
        ("MEDIUMINT", "-8388608", ColumnType::Integer, "-8388608"),
        ("MEDIUMINT UNSIGNED", "16777215", ColumnType::Integer, "16777215"),
        ("INT", "-2147483648", ColumnType::Integer, "-2147483648"),
        ("INT UNSIGNED", "4294967295", ColumnType::Integer, "4294967295"),
        ("BIGINT", "-9223372036854775808", ColumnType::Integer, "-9223372036854775808"),
        ("BIGINT UNSIGNED", "18446744073709551615", ColumnType::Integer, "18446744073709551615"),
        ("YEAR", "2025", ColumnType::Integer, "2025"),
        ("BIT(10)", "b'1000000001'", ColumnType::Integer, "513"),
    ])
    .await;
}

#[tokio::test]
async fn mariadb_booleans_are_true_and_false_where_they_are_declared() {
    check(&[
        ("TINYINT(1)", "1", ColumnType::Boolean, "true"),
        ("TINYINT(1)", "0", ColumnType::Boolean, "false"),
        ("TINYINT(1)", "7", ColumnType::Boolean, "true"),
        ("BOOLEAN", "TRUE", ColumnType::Integer, "1"),
        ("TINYINT(1) UNSIGNED", "200", ColumnType::Integer, "200"),
        ("BIT(1)", "b'1'", ColumnType::Boolean, "true"),
    ])
    .await;
}

#[tokio::test]
async fn mariadb_numbers_with_fractions_lose_nothing() {
    check(&[
        ("FLOAT", "0.1", ColumnType::Number, "0.1"),
        ("DOUBLE", "0.1", ColumnType::Number, "0.1"),
        ("DOUBLE", "1.7976931348623157e308", ColumnType::Number, "1.7976931348623157e+308"),
        ("DECIMAL(10,2)", "12.50", ColumnType::Number, "12.50"),
        ("DECIMAL(10,2)", "12.50", ColumnType::String, "\"12.50\""),
        (
            "DECIMAL(30,10)",
            "12345678901234567890.0123456789",
            ColumnType::Number,
            "\"12345678901234567890.0123456789\"",
        ),
        (
            "DECIMAL(38,38)",
            "0.00000000000000000000000000000000000001",
            ColumnType::Number,
            "\"0.00000000000000000000000000000000000001\"",
        ),
        (
            "DECIMAL(65,0)",
            "-99999999999999999999999999999999999999999999999999999999999999999",
            ColumnType::Number,
            "\"-99999999999999999999999999999999999999999999999999999999999999999\"",
        ),
    ])
    .await;
}

#[tokio::test]
async fn mariadb_text_of_all_kinds_is_text() {
    check(&[
        ("CHAR(5)", "'ab'", ColumnType::String, "\"ab\""),
        ("VARCHAR(50)", r#"'"\\ \n\r\t\0 😀 \''"#, ColumnType::String, "\"\\\"\\\\ \\n\\r\\t\\u0000 😀 '\""),
        ("VARCHAR(9) COLLATE utf8mb4_bin", "'Ab'", ColumnType::String, "\"Ab\""),
        ("VARCHAR(9) CHARACTER SET latin1", "'é'", ColumnType::String, "\"é\""),
        ("TEXT", "''", ColumnType::String, "\"\""),
        ("LONGTEXT COLLATE utf8mb4_bin", "'x'", ColumnType::String, "\"x\""),
        ("ENUM('z','a')", "'z'", ColumnType::String, "\"z\""),
        ("ENUM('z','a') COLLATE utf8mb4_bin", "'a'", ColumnType::String, "\"a\""),
        ("SET('z','a')", "'z,a'", ColumnType::String, "\"z,a\""),
        (
            "UUID",
            "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
            ColumnType::String,
            "\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\"",
        ),
        ("BINARY(4)", "x'00ff10'", ColumnType::String, "\"AP8QAA==\""),
        ("VARBINARY(4)", "x'00ff10'", ColumnType::String, "\"AP8Q\""),
        ("BLOB", "''", ColumnType::String, "\"\""),
        (
            "JSON",
            "'{\"b\": 1.10,\\n \"a\": 12345678901234567890.5}'",
            ColumnType::Json,
            "{\"b\": 1.10,  \"a\": 12345678901234567890.5}",
        ),
    ])
    .await;
}

#[tokio::test]
async fn mariadb_moments_are_rfc_3339_where_the_zone_is_known() {
    check(&[
        ("DATE", "'2025-01-15'", ColumnType::Date, "\"2025-01-15\""),
        ("DATETIME", "'2025-01-15 00:00:00'", ColumnType::Timestamp, "\"2025-01-15T00:00:00\""),
        (
            "DATETIME(6)",
            "'2025-01-15 10:30:00.000001'",
            ColumnType::Timestamp,
            "\"2025-01-15T10:30:00.000001\"",
        ),
        ("TIMESTAMP(3)", "'2025-01-15 10:30:00.25'", ColumnType::Timestamp, "\"2025-01-15T10:30:00.250Z\""),
        ("TIME", "'10:30:00'", ColumnType::String, "\"10:30:00\""),
        ("TIME(6)", "'-838:59:59.999999'", ColumnType::String, "\"-838:59:59.999999\""),
    ])
    .await;
}
