use antiphon_results::{ColumnDefinition, Row, Sort, source::PageRequest};
use serde_json::{Value, json};

use super::{Database, Spec, chain, read, table};

/// Ten rows: id 0 to 9, name `n0` to `n9`, and the tens digit of a square.
async fn ten(database: &Database) -> String {
    let name = table();
    database
        .execute(&format!("CREATE TABLE {name} (id INTEGER NOT NULL, name VARCHAR(9), tens INTEGER)"))
        .await;
    let values: Vec<String> = (0..10).map(|id| format!("({id}, 'n{id}', {})", id * id / 10)).collect();
    database.execute(&format!("INSERT INTO {name} VALUES {}", values.join(", "))).await;
    name
}

fn columns() -> Vec<ColumnDefinition> {
    vec![ColumnDefinition::integer("id"), ColumnDefinition::string("name")]
}

fn ids(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn offsets_count_rows_off_in_the_order_asked_for() {
    for database in Database::all().await {
        let name = ten(&database).await;
        let spec = Spec {
            sql: format!("SELECT * FROM {name};\n"),
            columns: columns(),
            key: vec!["id"],
            ..Spec::default()
        };
        let query = database.query(spec);
        let page = async |offset, limit, sort: Option<Sort>| {
            let page = PageRequest::new(offset, limit).with_sort(sort);
            ids(&read(&*query, &Value::Null, page).await.unwrap().read::<Row>().unwrap())
        };
        assert_eq!(page(0, 3, None).await, [0, 1, 2]);
        assert_eq!(page(8, 5, None).await, [8, 9]);
        assert_eq!(page(10, 5, None).await, [] as [i64; 0]);
        assert_eq!(page(u64::MAX / 2, 5, None).await, [] as [i64; 0]);
        assert_eq!(page(0, 0, None).await, [] as [i64; 0]);
        assert_eq!(page(1, 2, Some(Sort::descending("name"))).await, [8, 7]);
        let far = read(&*query, &Value::Null, PageRequest::new(u64::MAX, 5)).await.unwrap_err();
        assert_eq!(far.to_string(), "`offset` or `limit` is too large");
        let many = read(&*query, &Value::Null, PageRequest::new(0, u64::MAX)).await.unwrap_err();
        assert_eq!(many.to_string(), "`offset` or `limit` is too large");
    }
}

#[tokio::test]
async fn rows_have_the_declared_columns_in_their_order() {
    for database in Database::all().await {
        let name = ten(&database).await;
        let spec = Spec {
            sql: format!("SELECT * FROM {name}"),
            columns: columns(),
            key: vec!["id"],
            ..Spec::default()
        };
        let rows = read(&*database.query(spec), &Value::Null, PageRequest::new(4, 2)).await.unwrap();
        assert_eq!(rows.as_json(), r#"{"id":4,"name":"n4"},{"id":5,"name":"n5"}"#);
    }
}

#[tokio::test]
async fn without_declared_columns_all_are_sent_and_none_sorts() {
    for database in Database::all().await {
        let name = ten(&database).await;
        let spec = Spec { sql: format!("SELECT * FROM {name} WHERE id = 7"), ..Spec::default() };
        let query = database.query(spec);
        let rows = read(&*query, &Value::Null, PageRequest::new(0, 5)).await.unwrap();
        assert_eq!(rows.as_json(), r#"{"id":7,"name":"n7","tens":4}"#);
        assert!(!query.sorts());
        let spec = Spec { sql: format!("SELECT * FROM {name}"), columns: columns(), ..Spec::default() };
        let query = database.query(spec);
        assert!(query.sorts());
        let hidden = PageRequest::new(0, 5).with_sort(Some(Sort::ascending("tens")));
        let error = read(&*query, &Value::Null, hidden).await.unwrap_err();
        assert_eq!(error.to_string(), "the column in `sort` does not exist in the query");
    }
}

#[tokio::test]
async fn without_sort_and_key_the_authors_order_stays() {
    for database in Database::all().await {
        let name = ten(&database).await;
        // MariaDB keeps the order of an inner query only where it has a limit.
        let sql = format!("SELECT * FROM {name} ORDER BY tens DESC, id LIMIT 1000");
        let query = database.query(Spec { sql, columns: columns(), ..Spec::default() });
        let rows = read(&*query, &Value::Null, PageRequest::new(0, 4)).await.unwrap();
        assert_eq!(ids(&rows.read::<Row>().unwrap()), [9, 8, 7, 6]);
        let placed = PageRequest::new(0, 4).with_after(Some(vec![json!(1)]));
        let error = read(&*query, &Value::Null, placed).await.unwrap_err();
        assert_eq!(error.to_string(), "the query has no key columns, so it does not support cursors");
    }
}

#[tokio::test]
async fn rows_are_counted_over_the_query_or_as_the_author_says() {
    for database in Database::all().await {
        let name = ten(&database).await;
        let spec = |count: Option<&str>| Spec {
            sql: format!("SELECT * FROM {name} WHERE id >= $1 ORDER BY id -- last line"),
            parameters: vec!["from"],
            columns: columns(),
            count: count.map(|sql| sql.replace("{name}", &name)),
            ..Spec::default()
        };
        let query = database.query(spec(None));
        assert_eq!(query.count(&json!({"from": 4})).await.unwrap(), 6);
        assert_eq!(query.count(&json!({"from": 40})).await.unwrap(), 0);
        let query = database.query(spec(Some("SELECT 1000 + count(*) FROM {name} WHERE id >= $1;")));
        assert_eq!(query.count(&json!({"from": 4})).await.unwrap(), 1006);
        let query = database.query(spec(Some("SELECT 'secret' FROM {name} WHERE id >= $1")));
        let error = query.count(&json!({"from": 4})).await.unwrap_err();
        assert_eq!(error.to_string(), "the database could not count the rows");
    }
}

#[tokio::test]
async fn mistakes_of_the_author_are_told_as_such() {
    for database in Database::all().await {
        let name = ten(&database).await;
        let check = async |spec: Spec| {
            let query = database.query(spec);
            chain(&read(&*query, &Value::Null, PageRequest::new(0, 1)).await.unwrap_err())
        };
        let sql = format!("SELECT * FROM {name}");
        let text =
            check(Spec { sql: sql.clone(), columns: columns(), key: vec!["tens"], ..Spec::default() }).await;
        assert_eq!(
            text,
            "the configuration of the query is not valid: the key column `tens` is not a declared column"
        );
        let twice = vec![ColumnDefinition::integer("id"), ColumnDefinition::integer("id")];
        let text = check(Spec { sql: sql.clone(), columns: twice, ..Spec::default() }).await;
        let expected = "a declared column has an empty, invalid or duplicate name";
        assert_eq!(text, format!("the configuration of the query is not valid: {expected}"));
        let text = check(Spec { sql: format!("{sql} WHERE id = $1"), ..Spec::default() }).await;
        let expected = "the query declares 0 parameters, but its SQL contains 1 placeholders; declare one parameter for each placeholder";
        assert_eq!(text, format!("the configuration of the query is not valid: {expected}"));
        let unknown = vec![ColumnDefinition::integer("nowhere")];
        let text = check(Spec { sql, columns: unknown, ..Spec::default() }).await;
        assert!(text.starts_with("the database could not prepare the query: "), "{text}");
        let text = check(Spec { sql: "CHOOSE 1".into(), ..Spec::default() }).await;
        assert!(text.starts_with("the database could not prepare the query: "), "{text}");
    }
}
