//! Whatever stands in a string from outside, it stays a string.

use std::sync::Arc;

use antiphon_results::{
    ColumnDefinition, Row, Sort,
    source::{PageRequest, Query},
};
use serde_json::{Value, json};

use super::{Database, Spec, after, hostile::STRINGS, read, table};

/// A table of three rows, which must still be there and be the same at the end.
struct Canary {
    database: Database,
    name: String,
    query: Arc<dyn Query>,
}

impl Canary {
    async fn new(database: Database) -> Self {
        let name = table();
        database.execute(&format!("CREATE TABLE {name} (id INTEGER NOT NULL, name VARCHAR(200))")).await;
        database.execute(&format!("INSERT INTO {name} VALUES (1, 'Ada'), (2, 'Bob'), (3, NULL)")).await;
        let query = database.query(Spec {
            sql: format!("SELECT id, name FROM {name} WHERE name = $1 OR $2 = 'all'"),
            parameters: vec!["name", "which"],
            columns: vec![ColumnDefinition::integer("id"), ColumnDefinition::string("name")],
            key: vec!["id"],
            ..Spec::default()
        });
        Self { database, name, query }
    }

    async fn is_well(&self) {
        let parameters = json!({"name": "", "which": "all"});
        assert_eq!(self.query.count(&parameters).await.unwrap(), 3);
        let rows = read(&*self.query, &parameters, PageRequest::new(0, 9)).await.unwrap();
        let expected = r#"{"id":1,"name":"Ada"},{"id":2,"name":"Bob"},{"id":3,"name":null}"#;
        assert_eq!(rows.as_json(), expected);
    }
}

/// The corpus speaks of a table `canary`; here it is the one that is there.
fn strings(canary: &Canary) -> impl Iterator<Item = (&'static str, String)> {
    let name = canary.name.clone();
    STRINGS.iter().map(move |(what, text)| (*what, text.replace("canary", &name)))
}

#[tokio::test]
async fn a_hostile_sort_field_is_no_column() {
    assert!(STRINGS.len() >= 40);
    for database in Database::all().await {
        let canary = Canary::new(database).await;
        let parameters = json!({"name": "", "which": "all"});
        for (what, text) in strings(&canary) {
            for sort in [Sort::ascending(&text), Sort::descending(&text)] {
                let page = PageRequest::new(0, 9).with_sort(Some(sort.clone()));
                let error = read(&*canary.query, &parameters, page).await.unwrap_err();
                assert_eq!(error.to_string(), "the column in `sort` does not exist in the query", "{what}");
                let error =
                    read(&*canary.query, &parameters, after(9, Some(&sort), vec![json!(1), json!(1)])).await;
                assert!(error.is_err(), "{what}");
            }
        }
        canary.is_well().await;
    }
}

#[tokio::test]
async fn a_hostile_parameter_is_a_value_that_no_row_has() {
    for database in Database::all().await {
        let canary = Canary::new(database).await;
        for (what, text) in strings(&canary) {
            for parameters in [json!({"name": text, "which": "one"}), json!({"name": "Eve", "which": text})] {
                let page = read(&*canary.query, &parameters, PageRequest::new(0, 9)).await;
                let count = canary.query.count(&parameters).await;
                // PostgreSQL has no text with a NUL in it, and says so.
                if text.contains('\0') && matches!(canary.database, Database::Postgres(_)) {
                    assert!(page.is_err() && count.is_err(), "{what}");
                    continue;
                }
                assert_eq!(page.unwrap().len(), 0, "{what}");
                assert_eq!(count.unwrap(), 0, "{what}");
            }
            let error = canary.query.count(&json!({"name": "", "which": "all", &text: 1})).await;
            assert!(error.is_err(), "{what}");
        }
        canary.is_well().await;
    }
}

#[tokio::test]
async fn a_hostile_place_to_go_on_from_is_a_value_like_others() {
    for database in Database::all().await {
        let canary = Canary::new(database).await;
        let parameters = json!({"name": "", "which": "all"});
        for (what, text) in strings(&canary) {
            let places = [
                (None, vec![json!(text)]),
                (Some(Sort::ascending("name")), vec![json!(text), json!(0)]),
                (Some(Sort::descending("name")), vec![json!(text), json!(text)]),
                (Some(Sort::ascending("id")), vec![json!(text), json!(text)]),
                (Some(Sort::ascending("name")), vec![json!({ &text: text }), json!([text])]),
            ];
            for (sort, values) in places {
                // Refused, or compared with: never more rows than there are, never others.
                if let Ok(rows) = read(&*canary.query, &parameters, after(9, sort.as_ref(), values)).await {
                    let ids: Vec<i64> =
                        rows.read::<Row>().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect();
                    assert!(ids.len() <= 3 && ids.iter().all(|id| (1..=3).contains(id)), "{what}: {ids:?}");
                }
            }
        }
        canary.is_well().await;
    }
}

#[tokio::test]
async fn a_hostile_column_name_is_a_name() {
    for database in Database::all().await {
        let canary = Canary::new(database).await;
        let mut worked = 0;
        for (what, text) in strings(&canary) {
            // A column that is not there is an error, and nothing else.
            let missing = canary.database.query(Spec {
                sql: format!("SELECT name AS some_name FROM {}", canary.name),
                columns: vec![ColumnDefinition::string(&text)],
                ..Spec::default()
            });
            let missing = read(&*missing, &Value::Null, PageRequest::new(0, 9)).await;
            // SQLite takes a name in double quotes that it does not know for text, but not after a dot.
            assert!(missing.is_err(), "{what}");
            // One that is there is selected and sorted by, where the database lets a column be called so.
            let sql = format!("SELECT id AS {} FROM {}", canary.database.quoted(&text), canary.name);
            let there = canary.database.query(Spec {
                sql,
                columns: vec![ColumnDefinition::integer(&text)],
                ..Spec::default()
            });
            let page = PageRequest::new(0, 1).with_sort(Some(Sort::descending(&text)));
            if let Ok(rows) = read(&*there, &Value::Null, page).await {
                assert_eq!(rows.as_json(), json!({ text: 3 }).to_string(), "{what}");
                worked += 1;
            }
        }
        assert!(worked > 50, "only {worked} names worked on {:?}", canary.database);
        canary.is_well().await;
    }
}
