use antiphon_results::{BoxError, ColumnDefinition, ColumnType, snapshot::Intake};
use futures_util::{FutureExt as _, TryStreamExt as _};
use sqlx::{
    Arguments as _, AssertSqlSafe, Column as _, Encode, Executor as _, Row as _, SqlSafeStr as _, Sqlite,
    SqlitePool, Statement as _, Type, TypeInfo as _, ValueRef as _,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::{JsonRows, Lease, failed, intake, object, quoted, rows, statement};
use crate::{
    error::Result,
    ingest::json::{Hint, bytes_text},
};

/// The rows of a query of SQLite on their way into a snapshot.
///
/// SQLite says of each value what it is, and of a column only what it was meant for. So a column is what its values
/// are, and JSON where they are of several kinds. Bytes in a column that was not meant for them are text: `\x` and
/// hexadecimal.
#[derive(Debug)]
#[must_use = "a query does nothing until it is taken in"]
pub struct SqliteQuery {
    pool: SqlitePool,
    sql: String,
    arguments: Result<SqliteArguments, BoxError>,
}

/// The rows of a query. It is sent as it is given: put values in with [`bind`](SqliteQuery::bind), and never into
/// its text. The pool is one of `sqlx` 0.9.
///
/// ```no_run
/// use antiphon_results::Source;
/// use antiphon_snapshot::from_sqlite;
///
/// # fn source(pool: sqlx::SqlitePool) -> Source {
/// Source::snapshot(from_sqlite(pool, "SELECT * FROM colleges WHERE state = ? ORDER BY id").bind("CA"))
/// # }
/// ```
pub fn from_sqlite(pool: SqlitePool, sql: impl Into<String>) -> SqliteQuery {
    SqliteQuery { pool, sql: sql.into(), arguments: Ok(SqliteArguments::default()) }
}

impl SqliteQuery {
    /// Gives the next `?`. One that cannot be sent is an error when the query is.
    pub fn bind<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(mut self, value: T) -> Self {
        self.arguments = self.arguments.and_then(|mut arguments| {
            arguments.add(value)?;
            Ok(arguments)
        });
        self
    }

    async fn open(self) -> Result<JsonRows> {
        let arguments = self.arguments.map_err(failed)?;
        let mut lease = Lease::new(self.pool.acquire().await.map_err(failed)?);
        let sql = statement(&self.sql).to_owned();
        let described =
            lease.connection().map_err(failed)?.prepare(AssertSqlSafe(sql.clone()).into_sql_str());
        let described = described.await.map_err(failed)?;
        let names = quoted(described.columns().iter().map(sqlx::Column::name))?;
        let columns =
            described.columns().iter().map(|column| describe(column.name(), column.type_info().name()));
        let columns = columns.collect();
        let parts = rows(|mut sink| async move {
            {
                let query = sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(false);
                let mut rows = query.fetch(lease.connection()?);
                while let Some(row) = rows.try_next().await? {
                    sink.push(&object(&names, |at| value(&row, at))?).await?;
                }
            }
            lease.end();
            sink.flush().await
        });
        Ok(JsonRows { columns, parts })
    }
}

impl From<SqliteQuery> for Intake {
    fn from(query: SqliteQuery) -> Self {
        intake(query.open().boxed())
    }
}

/// What a column was meant for.
fn describe(name: &str, kind: &str) -> (ColumnDefinition, Hint) {
    match kind {
        "REAL" => (ColumnDefinition::new(name, ColumnType::Number), Hint::Float),
        "INTEGER" | "INT4" | "INT8" => (ColumnDefinition::new(name, ColumnType::Integer), Hint::Integer),
        "BLOB" => (ColumnDefinition::string(name).with_format("base64"), Hint::Hex),
        _ => (ColumnDefinition::string(name), Hint::None),
    }
}

/// A value as JSON.
fn value(row: &SqliteRow, at: usize) -> Result<String, BoxError> {
    let raw = row.try_get_raw(at)?;
    if raw.is_null() {
        return Ok("null".into());
    }
    let kind = raw.type_info().name().to_owned();
    let text = |text: &str| Ok(serde_json::to_string(text)?);
    match kind.as_str() {
        "INTEGER" | "INT4" | "INT8" | "BOOLEAN" => Ok(row.try_get_unchecked::<i64, _>(at)?.to_string()),
        "REAL" => {
            let number = row.try_get_unchecked::<f64, _>(at)?;
            match number {
                f64::INFINITY => text("Infinity"),
                f64::NEG_INFINITY => text("-Infinity"),
                // With a point, so that it is told from a whole number.
                number => Ok(format!("{number:?}")),
            }
        }
        "BLOB" => text(&bytes_text(row.try_get_unchecked::<&[u8], _>(at)?)),
        _ => text(row.try_get_unchecked::<&str, _>(at)?),
    }
}
