use antiphon_results::source::PageRequest;
use serde_json::{Value, json};

use super::{Database, Spec, chain, read};

/// What comes back when the parameter is selected.
async fn echo(database: &Database, expression: &str, value: Value) -> Result<String, String> {
    let spec = Spec { sql: format!("SELECT {expression} AS v"), parameters: vec!["p"], ..Spec::default() };
    let query = database.query(spec);
    match read(&*query, &json!({ "p": value }), PageRequest::new(0, 5)).await {
        Ok(rows) => {
            Ok(rows.as_json().strip_prefix(r#"{"v":"#).unwrap().strip_suffix('}').unwrap().to_owned())
        }
        Err(error) => Err(chain(&error)),
    }
}

#[tokio::test]
async fn parameters_must_be_those_that_are_named() {
    for database in Database::all().await {
        let spec = Spec {
            sql: "SELECT 1 AS v WHERE 1 = $1 AND 'x' = $2".into(),
            parameters: vec!["one", "two"],
            ..Spec::default()
        };
        let query = database.query(spec);
        let check = async |parameters: Value| {
            let page = read(&*query, &parameters, PageRequest::new(0, 5)).await.map(|rows| rows.len());
            let count = query.count(&parameters).await.map(|count| usize::try_from(count).unwrap());
            let [page, count] = [page, count].map(|it| it.map_err(|error| error.to_string()));
            assert_eq!(page, count);
            page
        };
        assert_eq!(check(json!({"one": 1, "two": "x"})).await, Ok(1));
        assert_eq!(check(json!({"two": "x", "one": 2})).await, Ok(0));
        assert_eq!(check(json!({"two": null, "one": 1})).await, Ok(0));
        assert_eq!(check(json!({"one": 1})).await, Err("the parameter `two` is missing".into()));
        let extra = check(json!({"one": 1, "two": "x", "tow": "x"})).await;
        assert_eq!(extra, Err("the query has no parameter \"tow\"".into()));
        assert_eq!(check(json!([1, "x"])).await, Err("the parameters must be a JSON object".into()));
        assert_eq!(check(Value::Null).await, Err("the parameter `one` is missing".into()));
    }
}

#[tokio::test]
async fn text_comes_back_character_by_character() {
    for database in Database::all().await {
        let expression = match database {
            Database::Postgres(_) => "$1::text",
            Database::Mariadb(_) | Database::Sqlite(_) => "$1",
        };
        let mut all: Vec<String> = (1..0x20_u8).map(|byte| char::from(byte).to_string()).collect();
        all.extend(
            [
                "",
                "'",
                "\"",
                "\\",
                "`",
                "\u{7f}",
                "\u{85}",
                "\u{2028}",
                "\u{feff}",
                "😀👩‍👩‍👧",
                "שלום",
                "$1 ?1 :p @p",
                "%s{}",
            ]
            .map(String::from),
        );
        for text in all {
            let found = echo(&database, expression, json!(text)).await;
            assert_eq!(found, Ok(json!(text).to_string()), "{database:?}");
        }
        let nul = echo(&database, expression, json!("a\0b")).await;
        match database {
            // It has no such character.
            Database::Postgres(_) => assert!(nul.is_err()),
            Database::Mariadb(_) | Database::Sqlite(_) => assert_eq!(nul, Ok(r#""a\u0000b""#.into())),
        }
    }
}

#[tokio::test]
async fn postgres_binds_what_the_type_of_the_parameter_wants() {
    let Some(database) = Database::postgres().await else { return };
    let good = [
        ("$1::bigint", json!(i64::MIN), "-9223372036854775808"),
        ("$1::int", json!(5.0), "5"),
        ("$1::smallint", json!(-1), "-1"),
        ("$1::real", json!(0.1), "0.1"),
        ("$1::float8", json!(3), "3.0"),
        ("$1::numeric", json!("12345678901234567890.0123456789"), "\"12345678901234567890.0123456789\""),
        ("$1::numeric", json!(0.1), "\"0.1\""),
        ("$1::numeric", json!(-1e20), "\"-100000000000000000000\""),
        ("$1::boolean", json!(true), "true"),
        (
            "$1::uuid",
            json!("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            "\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\"",
        ),
        ("$1::date", json!("2025-01-15"), "\"2025-01-15\""),
        ("$1::time", json!("10:30:00.5"), "\"10:30:00.500\""),
        ("$1::timestamp", json!("2025-01-15T10:30:00"), "\"2025-01-15T10:30:00\""),
        ("$1::timestamptz", json!("2025-01-15T10:30:00+02:00"), "\"2025-01-15T08:30:00Z\""),
        ("$1::bytea", json!("AP8Q"), "\"AP8Q\""),
        ("$1::json", json!({"a": [1, null]}), "{\"a\":[1,null]}"),
        ("$1::jsonb", json!("text"), "\"text\""),
        ("$1::int[]", json!([1, null, 3]), "[1,null,3]"),
        ("$1::int[]", json!([]), "[]"),
        ("$1::text[]", json!(["a", "{\"}"]), "[\"a\",\"{\\\"}\"]"),
        ("$1::text::inet", json!("10.0.0.1"), "\"10.0.0.1/32\""),
        ("$1::int", Value::Null, "null"),
        ("$1::inet", Value::Null, "null"),
    ];
    for (expression, value, expected) in good {
        assert_eq!(echo(&database, expression, value).await, Ok(expected.into()), "{expression}");
    }
    let bad = [
        ("$1::bigint", json!("5")),
        ("$1::bigint", json!(u64::MAX)),
        ("$1::bigint", json!(1e300)),
        ("$1::int", json!(2_147_483_648_i64)),
        ("$1::int", json!(1.5)),
        ("$1::smallint", json!(32768)),
        ("$1::int", json!(true)),
        ("$1::real", json!(1e300)),
        ("$1::float8", json!("1")),
        ("$1::numeric", json!("one")),
        ("$1::boolean", json!(1)),
        ("$1::text", json!(5)),
        ("$1::text", json!(["a"])),
        ("$1::uuid", json!("a0eebc99")),
        ("$1::date", json!("tomorrow")),
        ("$1::timestamptz", json!("2025-01-15T10:30:00")),
        ("$1::bytea", json!("*")),
        ("$1::int[]", json!(1)),
        ("$1::int[]", json!(["x"])),
        ("$1::inet", json!("10.0.0.1")),
    ];
    for (expression, value) in bad {
        let error = echo(&database, expression, value).await.unwrap_err();
        assert!(error.starts_with("the parameter `p` "), "{expression}: {error}");
    }
}

#[tokio::test]
async fn the_others_bind_by_the_type_in_json() {
    for database in [Database::mariadb().await, Some(Database::sqlite().await)].into_iter().flatten() {
        let is_sqlite = matches!(database, Database::Sqlite(_));
        for value in [json!(i64::MIN), json!(i64::MAX), json!(0.1), json!("x"), Value::Null] {
            let expected = value.to_string();
            assert_eq!(echo(&database, "$1", value).await, Ok(expected));
        }
        assert_eq!(echo(&database, "$1", json!(true)).await, Ok("1".into()));
        assert_eq!(echo(&database, "$1", json!([1, "a"])).await, Ok(json!("[1,\"a\"]").to_string()));
        let great = echo(&database, "$1", json!(u64::MAX)).await;
        if is_sqlite {
            assert_eq!(great, Err("the parameter `p` is a number that is too large for SQLite".into()));
        } else {
            assert_eq!(great, Ok(u64::MAX.to_string()));
        }
    }
}
