//! Rows as JSON: nothing is lost.

use antiphon_results::{
    ColumnDefinition, ColumnType, DualResponseError,
    snapshot::{SnapshotStore as _, SnapshotWriteOptions},
};
use serde_json::{Value, json};

use crate::{
    ingest_support::{id, kinds, read, row_source, write},
    places::Places,
};

#[tokio::test]
async fn what_is_in_columns_is_found_out() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let rows = [
            json!({"i": 1, "f": 1, "b": true, "s": "a", "day": "2024-01-01", "n": null, "o": {"x": [1, 2.5]}, "l": []}),
            json!({"i": -2, "f": 2.5, "b": null, "s": "ü\n\"", "day": "2024-01-02", "n": null, "o": {"y": null}, "l": [1]}),
        ];
        let written = write(&snapshots, "rs_kinds", row_source(rows.iter().map(Value::to_string))).await;
        let mut found = kinds(&written.columns);
        found.sort_unstable();
        let expected = [
            ("b", "boolean"),
            ("day", "string"),
            ("f", "number"),
            ("i", "integer"),
            ("l", "json"),
            ("n", "string"),
            ("o", "json"),
            ("s", "string"),
        ];
        assert_eq!(found, expected);
        let read: Vec<Value> = read(&snapshots, "rs_kinds").await.into_iter().map(Value::Object).collect();
        for (read, given) in read.iter().zip(&rows) {
            for (name, value) in given.as_object().unwrap() {
                assert_eq!(read[name].as_f64(), value.as_f64(), "{name}");
                if !value.is_number() {
                    assert_eq!(read[name], *value, "{name}");
                }
            }
        }
        let manifest = snapshots.manifest(&id("rs_kinds")).await.unwrap();
        let nullable = |name: &str| manifest.columns.iter().find(|it| it.name == name).unwrap().nullable;
        assert_eq!((nullable("i"), nullable("b"), nullable("n")), (None, Some(true), Some(true)));
    }
}

#[tokio::test]
async fn no_digit_of_a_number_is_lost() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let texts = [
            r#"{"big":18446744073709551615,"money":12345678901234567.89,"huge":0.1234567890123456789012345678901234567890,"wild":1e400,"odd":9007199254740993,"float":0.1}"#,
            r#"{"big":-1,"money":0.5,"huge":-7,"wild":2,"odd":0.5,"float":5e-324}"#,
        ];
        let written = write(&snapshots, "rs_digits", row_source(texts)).await;
        let expected = [
            ("big", "integer"),
            ("money", "number"),
            ("huge", "number"),
            ("wild", "json"),
            ("odd", "number"),
            ("float", "number"),
        ];
        assert_eq!(kinds(&written.columns), expected);
        // As text, since a reader of JSON may round.
        let page = antiphon_results::snapshot::SnapshotPage::new(0, 2);
        let rows = snapshots.page(&id("rs_digits"), &page).await.unwrap();
        let first = rows.get(0).unwrap();
        for digits in [
            "18446744073709551615",
            "12345678901234567.89",
            "0.123456789012345678901234567890123456789",
            "1e400",
            "9007199254740993.0",
        ] {
            assert!(first.contains(digits), "{digits}: {first}");
        }
        let second: serde_json::Map<String, Value> = serde_json::from_str(rows.get(1).unwrap()).unwrap();
        assert_eq!(second["float"].as_f64(), Some(5e-324));
    }
}

#[tokio::test]
async fn a_column_may_come_late_and_may_change_what_it_is() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let row = |number: u64| match number {
            10_000 => json!({"id": number, "late": "here", "turns": number}),
            18_000 => json!({"id": number, "turns": 0.25, "flag": true}),
            26_000 => json!({"id": number, "turns": "text", "flag": 3}),
            _ => json!({"id": number, "turns": number, "nothing": null}),
        };
        let written =
            write(&snapshots, "rs_late", row_source((0..30_000).map(|number| row(number).to_string()))).await;
        assert_eq!(written.rows, 30_000);
        let mut found = kinds(&written.columns);
        found.sort_unstable();
        let expected = [
            ("flag", "json"),
            ("id", "integer"),
            ("late", "string"),
            ("nothing", "string"),
            ("turns", "json"),
        ];
        assert_eq!(found, expected);
        let read = read(&snapshots, "rs_late").await;
        assert_eq!(read.len(), 30_000);
        for (number, read) in read.iter().enumerate() {
            let given = row(number as u64);
            for name in ["id", "late", "turns", "flag", "nothing"] {
                let (found, given) = (&read[name], given.get(name).unwrap_or(&Value::Null));
                let same = found == given || (found.is_number() && found.as_f64() == given.as_f64());
                assert!(same, "{number} {name} {found} {given}");
            }
        }
        // What was written on the way is gone.
        let bytes = snapshots.usage(None).await.unwrap();
        assert!(bytes < written.bytes + 4096, "{bytes} {}", written.bytes);
    }
}

#[tokio::test]
async fn whole_numbers_become_fractions_late_without_rounding() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let text = |number: u64| match number {
            20_000 => r#"{"n":9007199254740993}"#.to_owned(),
            30_000 => r#"{"n":1.25}"#.to_owned(),
            _ => format!(r#"{{"n":{number}}}"#),
        };
        let written = write(&snapshots, "rs_wide", row_source((0..40_000).map(text))).await;
        assert_eq!(kinds(&written.columns), [("n", "number")]);
        let read = read(&snapshots, "rs_wide").await;
        assert_eq!(read[7]["n"].as_f64(), Some(7.0));
        let page = antiphon_results::snapshot::SnapshotPage::new(20_000, 1);
        let rows = snapshots.page(&id("rs_wide"), &page).await.unwrap();
        assert!(rows.get(0).unwrap().contains("9007199254740993.00"), "{}", rows.get(0).unwrap());
    }
}

#[tokio::test]
async fn declared_columns_say_what_text_means() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let columns = [
            ColumnDefinition::new("day", ColumnType::Date).with_description("when"),
            ColumnDefinition::new("at", ColumnType::Timestamp),
            ColumnDefinition::new("local", ColumnType::Timestamp),
            ColumnDefinition::new("fine", ColumnType::Timestamp),
            ColumnDefinition::new("any", ColumnType::Json),
            ColumnDefinition::number("price"),
            ColumnDefinition::integer("absent"),
            ColumnDefinition::new("odd", ColumnType::Date),
        ];
        let rows = [
            json!({"day": "2024-02-29", "at": "2024-01-01T02:00:00.5+02:00", "local": "2024-01-01T02:00:00", "fine": "2024-01-01T00:00:00.123456789Z", "any": 1, "price": 3, "odd": "2024-01-01", "extra": "kept"}),
            json!({"day": null, "at": "1969-12-31T23:59:59Z", "local": "2024-01-01T02:00:00.000001", "fine": null, "any": "x", "price": 1.5, "odd": "2024-1-1"}),
        ];
        let row_source = row_source(rows.iter().map(Value::to_string)).with_columns(columns);
        let written = write(&snapshots, "rs_declared", row_source).await;
        let expected = [
            ("day", "date"),
            ("at", "timestamp"),
            ("local", "timestamp"),
            // Finer than a microsecond, so kept as it is.
            ("fine", "string"),
            ("any", "json"),
            ("price", "number"),
            ("absent", "integer"),
            ("odd", "string"),
            ("extra", "string"),
        ];
        assert_eq!(kinds(&written.columns), expected);
        assert_eq!(written.columns[0].description.as_deref(), Some("when"));
        let read = read(&snapshots, "rs_declared").await;
        assert_eq!(read[0]["day"], "2024-02-29");
        assert!(read[0]["at"].as_str().unwrap().starts_with("2024-01-01T00:00:00.5"), "{}", read[0]["at"]);
        assert!(
            read[0]["local"].as_str().unwrap().starts_with("2024-01-01T02:00:00"),
            "{}",
            read[0]["local"]
        );
        assert_eq!(read[0]["fine"], "2024-01-01T00:00:00.123456789Z");
        assert_eq!((&read[0]["any"], &read[1]["any"]), (&json!(1), &json!("x")));
        assert_eq!(read[1]["odd"], "2024-1-1");
        assert_eq!(read[0]["extra"], "kept");
    }
}

#[tokio::test]
async fn half_a_surrogate_pair_is_kept_as_it_was_written() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let written =
            write(&snapshots, "rs_half", row_source([r#"{"t":"\ud800"}"#, r#"{"t":"whole"}"#])).await;
        assert_eq!(kinds(&written.columns), [("t", "json")]);
    }
}

#[tokio::test]
async fn rows_that_cannot_stand_in_a_table_are_refused_with_what_to_do() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let many: Vec<String> = (0..1001).map(|number| format!(r#""c{number}":1"#)).collect();
        let many = format!("{{{}}}", many.join(","));
        let cases = [
            (r#"{"a":1,"a":2}"#, "`a` twice"),
            (r#"{"a":null,"a":2}"#, "`a` twice"),
            (r#"{"":1}"#, "no name"),
            (many.as_str(), "more than 1000 columns"),
            (r#"{"a":}"#, "row 1 cannot be saved"),
            (r#"{"a":1} {"b":1}"#, "row 1 cannot be saved"),
        ];
        for (text, expected) in cases {
            let begun = snapshots
                .begin(&id("rs_bad"), row_source([r#"{"z":0}"#, text]), SnapshotWriteOptions::default())
                .await;
            let error = match begun {
                Err(error) => error,
                Ok(begun) => begun.rest.await.unwrap_err(),
            };
            assert!(
                matches!(&error, DualResponseError::Invalid(text) if text.contains(expected)),
                "{error:?}"
            );
            assert_eq!(snapshots.usage(None).await.unwrap(), 0);
        }
        let twice =
            row_source(["{}"]).with_columns([ColumnDefinition::string("a"), ColumnDefinition::string("a")]);
        let error = snapshots.begin(&id("rs_bad"), twice, SnapshotWriteOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("two columns have the name `a`"), "{error}");
    }
}

#[tokio::test]
async fn no_rows_are_a_snapshot_too() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let none: [&str; 0] = [];
        let columns = [ColumnDefinition::integer("id"), ColumnDefinition::new("at", ColumnType::Timestamp)];
        let written = write(&snapshots, "rs_none", row_source(none).with_columns(columns)).await;
        assert_eq!(
            (written.rows, kinds(&written.columns)),
            (0, vec![("id", "integer"), ("at", "timestamp")])
        );
        assert_eq!(snapshots.manifest(&id("rs_none")).await.unwrap().rows, 0);
        assert!(read(&snapshots, "rs_none").await.is_empty());
        let written = write(&snapshots, "rs_nothing", row_source(none)).await;
        assert_eq!((written.rows, written.columns.len()), (0, 0));
    }
}
