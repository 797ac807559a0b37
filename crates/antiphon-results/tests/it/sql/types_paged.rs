//! Pages by columns whose values are hard to carry: doubles, decimals, moments, enums.

use antiphon_results::{ColumnDefinition, Row, Sort, source::PageRequest};
use serde_json::Value;

use super::{Database, Random, Spec, after, chain, place, read, table};

/// How many rows are paged.
const ROWS: u64 = 250;

/// Goes through all rows by `v`, a few at a time, and returns their ids.
async fn walk(
    database: &Database,
    table: &str,
    definition: &ColumnDefinition,
    sort: &Sort,
    limit: u64,
) -> Vec<u64> {
    let query = database.query(Spec {
        sql: format!("SELECT id, v FROM {table}"),
        columns: vec![ColumnDefinition::integer("id"), definition.clone()],
        key: vec!["id"],
        ..Spec::default()
    });
    let mut found: Vec<Row> = Vec::new();
    loop {
        let page = match found.last() {
            Some(row) => after(limit, Some(sort), place(row, Some(sort), &["id"])),
            None => PageRequest::new(0, limit).with_sort(Some(sort.clone())),
        };
        let rows = read(&*query, &Value::Null, page).await;
        let rows: Vec<Row> = rows.unwrap_or_else(|error| panic!("{}", chain(&error))).read().unwrap();
        if rows.is_empty() || found.len() as u64 > ROWS {
            return found.iter().map(|row| row["id"].as_u64().unwrap()).collect();
        }
        found.extend(rows);
    }
}

/// Rows with `literal`s in a column of type `column` come once each, in the order of one large page.
async fn check(
    database: &Database,
    column: &str,
    definition: ColumnDefinition,
    literal: impl Fn(&mut Random) -> String,
) {
    let table = table();
    database
        .execute(&format!("CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, v {column} NULL)"))
        .await;
    let mut random = Random(7);
    let values: Vec<String> = (0..ROWS)
        .map(|id| {
            if random.below(9) == 0 {
                format!("({id}, NULL)")
            } else {
                format!("({id}, {})", literal(&mut random))
            }
        })
        .collect();
    database.execute(&format!("INSERT INTO {table} VALUES {}", values.join(", "))).await;
    for sort in [Sort::ascending("v"), Sort::descending("v")] {
        let whole = walk(database, &table, &definition, &sort, ROWS).await;
        let paged = walk(database, &table, &definition, &sort, 7).await;
        assert_eq!(paged, whole, "{column}, {sort:?}");
        let mut ids = paged;
        ids.sort_unstable();
        assert_eq!(ids, (0..ROWS).collect::<Vec<_>>(), "{column}, {sort:?}");
    }
    database.execute(&format!("DROP TABLE {table}")).await;
}

#[tokio::test]
async fn doubles_go_on_where_the_last_page_ended() {
    for database in Database::all().await {
        check(&database, "DOUBLE PRECISION", ColumnDefinition::number("v"), |random| {
            // Any bits that are a number and neither tiny nor huge.
            let bits = (random.below(200) + 923) << 52 | random.below(1 << 52);
            let sign = if random.below(2) == 0 { "-" } else { "" };
            format!("{sign}{:?}", f64::from_bits(bits))
        })
        .await;
    }
}

#[tokio::test]
async fn decimals_go_on_where_the_last_page_ended() {
    // SQLite has none: it keeps them as doubles.
    let databases = [Database::postgres().await, Database::mariadb().await];
    for database in databases.into_iter().flatten() {
        for definition in [ColumnDefinition::string("v"), ColumnDefinition::number("v")] {
            check(&database, "DECIMAL(30,10)", definition, |random| {
                let long = random.below(2) == 0;
                let whole = random.below(if long { 1 << 60 } else { 50 });
                format!("{whole}.{:010}", random.below(10_000_000_000))
            })
            .await;
        }
    }
}

#[tokio::test]
async fn moments_go_on_where_the_last_page_ended() {
    for database in Database::all().await {
        let column = if matches!(database, Database::Mariadb(_)) { "DATETIME(6)" } else { "TIMESTAMP" };
        check(&database, column, ColumnDefinition::string("v"), |random| {
            let (day, second, micros) = (1 + random.below(3), random.below(3), random.below(1_000_000));
            format!("'2025-01-{day:02} 10:30:{second:02}.{micros:06}'")
        })
        .await;
    }
}

#[tokio::test]
async fn enums_of_mariadb_sort_by_their_text() {
    let Some(database) = Database::mariadb().await else { return };
    let words = ["zebra", "apple", "mango", "kiwi"];
    let column = format!("ENUM('{}')", words.join("', '"));
    check(&database, &column, ColumnDefinition::string("v"), |random| {
        format!("'{}'", words[usize::try_from(random.below(4)).unwrap()])
    })
    .await;
    // By text, and not by the order they were declared in.
    let table = table();
    database.execute(&format!("CREATE TABLE {table} (id INTEGER NOT NULL, v {column} NULL)")).await;
    database
        .execute(&format!("INSERT INTO {table} VALUES (0, 'zebra'), (1, 'apple'), (2, 'mango'), (3, NULL)"))
        .await;
    let sort = Sort::ascending("v");
    assert_eq!(walk(&database, &table, &ColumnDefinition::string("v"), &sort, 1).await, [1, 2, 0, 3]);
}
