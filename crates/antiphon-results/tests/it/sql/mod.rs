//! Queries on real databases: PostgreSQL and MariaDB where a variable says where they are, SQLite always.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod edges;
mod hostile;
mod injection;
mod keyset;
mod life;
mod mysql_types;
mod pages;
mod parameters;
mod postgres_types;
mod sqlite_types;
mod types_paged;

use std::{sync::Arc, time::Duration};

use antiphon_results::{
    BoxError, ColumnDefinition, Row, Rows, Sort,
    source::{PageRequest, Query, SqlQuery},
};
use antiphon_store::conformance::service;
use serde_json::{Value, json};
use sqlx::{
    AssertSqlSafe, MySqlPool, PgPool, SqlitePool, mysql::MySqlPoolOptions, postgres::PgPoolOptions,
    sqlite::SqlitePoolOptions,
};

/// A database to ask.
#[derive(Clone, Debug)]
pub(crate) enum Database {
    Postgres(PgPool),
    Mariadb(MySqlPool),
    Sqlite(SqlitePool),
}

/// A query, the same for all of them: parameters are written `$1`, once each and in order.
#[derive(Default)]
pub(crate) struct Spec {
    pub(crate) sql: String,
    pub(crate) parameters: Vec<&'static str>,
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) key: Vec<&'static str>,
    pub(crate) count: Option<String>,
    pub(crate) timeout: Option<Duration>,
}

impl Database {
    pub(crate) async fn postgres() -> Option<Self> {
        let url = service("ANTIPHON_TEST_POSTGRES_URL")?;
        Some(Self::Postgres(PgPoolOptions::new().max_connections(3).connect(&url).await.unwrap()))
    }

    pub(crate) async fn mariadb() -> Option<Self> {
        let url = service("ANTIPHON_TEST_MARIADB_URL")?;
        let pool = Box::pin(MySqlPoolOptions::new().max_connections(3).connect(&url)).await.unwrap();
        Some(Self::Mariadb(pool))
    }

    pub(crate) async fn sqlite() -> Self {
        // Each connection to memory is a database of its own, so there is one, and it stays.
        let options = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        Self::Sqlite(options.connect("sqlite::memory:").await.unwrap())
    }

    pub(crate) async fn all() -> Vec<Self> {
        let found = [Self::postgres().await, Self::mariadb().await, Some(Self::sqlite().await)];
        found.into_iter().flatten().collect()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        let sql = AssertSqlSafe(sql);
        match self {
            Self::Postgres(pool) => drop(sqlx::raw_sql(sql).execute(pool).await.unwrap()),
            Self::Mariadb(pool) => drop(sqlx::raw_sql(sql).execute(pool).await.unwrap()),
            Self::Sqlite(pool) => drop(sqlx::raw_sql(sql).execute(pool).await.unwrap()),
        }
    }

    pub(crate) fn query(&self, spec: Spec) -> Arc<dyn Query> {
        macro_rules! build {
            ($query:expr) => {{
                let mut query = $query
                    .with_parameters(spec.parameters)
                    .with_columns(spec.columns)
                    .with_key(spec.key)
                    .with_timeout(spec.timeout.unwrap_or(Duration::from_secs(60)));
                if let Some(count) = spec.count {
                    query = query.with_count(self.placeholders(&count));
                }
                Arc::new(query)
            }};
        }
        let sql = self.placeholders(&spec.sql);
        match self {
            Self::Postgres(pool) => build!(SqlQuery::postgres(pool.clone(), sql)),
            Self::Mariadb(pool) => build!(SqlQuery::mysql(pool.clone(), sql)),
            Self::Sqlite(pool) => build!(SqlQuery::sqlite(pool.clone(), sql)),
        }
    }

    fn placeholders(&self, sql: &str) -> String {
        match self {
            Self::Postgres(_) => sql.to_owned(),
            Self::Mariadb(_) => {
                (1..10).fold(sql.to_owned(), |sql, number| sql.replace(&format!("${number}"), "?"))
            }
            Self::Sqlite(_) => sql.replace('$', "?"),
        }
    }

    /// A name in SQL.
    pub(crate) fn quoted(&self, name: &str) -> String {
        match self {
            Self::Mariadb(_) => format!("`{}`", name.replace('`', "``")),
            Self::Postgres(_) | Self::Sqlite(_) => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }
}

/// A name for a table that no other test has.
pub(crate) fn table() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    format!("t_{:016x}", RandomState::new().hash_one(0))
}

/// Numbers that look random and are the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

pub(crate) async fn read(query: &dyn Query, parameters: &Value, page: PageRequest) -> Result<Rows, BoxError> {
    query.page(parameters, &page).await
}

/// The page after the row with these values.
pub(crate) fn after(limit: u64, sort: Option<&Sort>, values: Vec<Value>) -> PageRequest {
    PageRequest::new(0, limit).with_sort(sort.cloned()).with_after(Some(values))
}

/// What the page after this row begins with.
pub(crate) fn place(row: &Row, sort: Option<&Sort>, key: &[&str]) -> Vec<Value> {
    let names = sort.map(|sort| sort.field.as_str()).into_iter().chain(key.iter().copied());
    names.map(|name| row[name].clone()).collect()
}

/// The error and all that caused it.
pub(crate) fn chain(error: &BoxError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Checks how a column of this type with this value is written, and that paging finds the value again: the
/// row is after a lesser key and not after its own, whichever way it is sorted.
pub(crate) async fn check_type(
    database: &Database,
    column: &str,
    literal: &str,
    definition: ColumnDefinition,
    expected: &str,
    is_sortable: bool,
) {
    let table = table();
    let what = format!("{column} {literal}");
    database.execute(&format!("CREATE TABLE {table} (id INTEGER NOT NULL, v {column} NULL)")).await;
    database.execute(&format!("INSERT INTO {table} VALUES (5, {literal}), (6, NULL)")).await;
    let query = database.query(Spec {
        sql: format!("SELECT * FROM {table}"),
        columns: vec![ColumnDefinition::integer("id"), definition.clone()],
        key: vec!["id"],
        ..Spec::default()
    });
    let rows = read(&*query, &Value::Null, PageRequest::new(0, 10)).await;
    let rows = rows.unwrap_or_else(|error| panic!("{what}: {}", chain(&error)));
    let found: Vec<&str> = rows.iter().collect();
    assert_eq!(found, [format!(r#"{{"id":5,"v":{expected}}}"#), r#"{"id":6,"v":null}"#.into()], "{what}");

    let row: Row = serde_json::from_str(found[0]).unwrap();
    for sort in [Sort::ascending("v"), Sort::descending("v")] {
        let page = |values| read(&*query, &Value::Null, after(10, Some(&sort), values));
        let before = page(vec![row["v"].clone(), json!(4)]).await;
        if !is_sortable {
            assert!(before.is_err(), "{what} was sorted by");
            continue;
        }
        let ids = |rows: Result<Rows, BoxError>| {
            let rows = rows.unwrap_or_else(|error| panic!("{what}: {}", chain(&error)));
            rows.read::<Row>().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect::<Vec<_>>()
        };
        let rest: &[i64] = if sort == Sort::ascending("v") { &[6] } else { &[] };
        assert_eq!(ids(before), [&[5], rest].concat(), "{what} is not equal to itself");
        assert_eq!(ids(page(vec![row["v"].clone(), json!(5)]).await), rest, "{what} is after itself");
        let null = ids(page(vec![Value::Null, json!(5)]).await);
        let rest: &[i64] = if sort == Sort::ascending("v") { &[6] } else { &[6, 5] };
        assert_eq!(null, rest, "{what} after a null");
    }
    database.execute(&format!("DROP TABLE {table}")).await;
}
