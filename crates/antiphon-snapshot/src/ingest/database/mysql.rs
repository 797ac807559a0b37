use antiphon_results::{BoxError, ColumnDefinition, ColumnType, snapshot::Intake};
use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use futures_util::{FutureExt as _, TryStreamExt as _};
use serde_json::value::RawValue;
use sqlx::{
    Arguments as _, AssertSqlSafe, Column as _, Encode, Executor as _, MySql, MySqlPool, Row as _,
    SqlSafeStr as _, Statement as _, Type, TypeInfo as _, ValueRef as _,
    mysql::{MySqlArguments, MySqlRow, types::MySqlTime},
};

use super::{JsonRows, Lease, failed, intake, object, quoted, rows, statement};
use crate::{
    error::Result,
    ingest::json::{Hint, bytes_text},
};

/// The rows of a query of MariaDB or MySQL on their way into a snapshot.
///
/// One statement is one instant. Values keep their types and all their digits: unsigned numbers, `DECIMAL`,
/// `DATETIME` (without a zone), `TIMESTAMP` (in UTC), `BLOB`. `TINYINT(1)` is a number, since it may be 2.
///
/// It holds one connection until the last row is read. Dropped before that, the connection is closed and the query ends.
#[derive(Debug)]
#[must_use = "a query does nothing until it is taken in"]
pub struct MySqlQuery {
    pool: MySqlPool,
    sql: String,
    arguments: Result<MySqlArguments, BoxError>,
}

/// The rows of a query. It is sent as it is given: put values in with [`bind`](MySqlQuery::bind), and never into
/// its text. The pool is one of `sqlx` 0.9.
///
/// ```no_run
/// use antiphon_results::Source;
/// use antiphon_snapshot::from_mysql;
///
/// # fn source(pool: sqlx::MySqlPool) -> Source {
/// Source::snapshot(from_mysql(pool, "SELECT * FROM colleges WHERE state = ? ORDER BY id").bind("CA"))
/// # }
/// ```
pub fn from_mysql(pool: MySqlPool, sql: impl Into<String>) -> MySqlQuery {
    MySqlQuery { pool, sql: sql.into(), arguments: Ok(MySqlArguments::default()) }
}

impl MySqlQuery {
    /// Gives the next `?`. One that cannot be sent is an error when the query is.
    pub fn bind<'t, T: Encode<'t, MySql> + Type<MySql>>(mut self, value: T) -> Self {
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

impl From<MySqlQuery> for Intake {
    fn from(query: MySqlQuery) -> Self {
        intake(query.open().boxed())
    }
}

/// What the database says of a column.
fn describe(name: &str, kind: &str) -> (ColumnDefinition, Hint) {
    let (kind, hint, format) = match kind.trim_end_matches(" UNSIGNED") {
        "BOOLEAN" | "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT" | "YEAR" | "BIT" => {
            (ColumnType::Integer, Hint::Integer, None)
        }
        "FLOAT" | "DOUBLE" => (ColumnType::Number, Hint::Float, None),
        "DECIMAL" => (ColumnType::Number, Hint::Number, None),
        "DATE" => (ColumnType::Date, Hint::Date, None),
        "DATETIME" | "TIMESTAMP" => (ColumnType::Timestamp, Hint::Timestamp, None),
        "JSON" => (ColumnType::Json, Hint::Json, None),
        kind if is_bytes(kind) => (ColumnType::String, Hint::Hex, Some("base64")),
        "TIME" => (ColumnType::String, Hint::None, Some("time")),
        _ => (ColumnType::String, Hint::None, None),
    };
    let mut column = ColumnDefinition::new(name, kind);
    column.format = format.map(Into::into);
    (column, hint)
}

fn is_bytes(kind: &str) -> bool {
    matches!(kind, "BINARY" | "VARBINARY" | "GEOMETRY") || kind.ends_with("BLOB")
}

/// A value as JSON. What a type is told by the column, so it need not be checked again.
fn value(row: &MySqlRow, at: usize) -> Result<String, BoxError> {
    let raw = row.try_get_raw(at)?;
    if raw.is_null() {
        return Ok("null".into());
    }
    let kind = raw.type_info().name().to_owned();
    let text = |text: &str| Ok(serde_json::to_string(text)?);
    match kind.as_str() {
        "BOOLEAN" | "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT" => {
            Ok(row.try_get_unchecked::<i64, _>(at)?.to_string())
        }
        "YEAR" | "BIT" => Ok(row.try_get_unchecked::<u64, _>(at)?.to_string()),
        kind if kind.ends_with(" UNSIGNED") => Ok(row.try_get_unchecked::<u64, _>(at)?.to_string()),
        // With a point or an exponent: what has neither is taken for a whole number of so many digits.
        "FLOAT" => Ok(format!("{:?}", row.try_get_unchecked::<f32, _>(at)?)),
        "DOUBLE" => Ok(format!("{:?}", row.try_get_unchecked::<f64, _>(at)?)),
        "DECIMAL" => Ok(row.try_get_unchecked::<String, _>(at)?),
        "DATE" => text(&row.try_get_unchecked::<NaiveDate, _>(at)?.to_string()),
        "DATETIME" => {
            text(&row.try_get_unchecked::<NaiveDateTime, _>(at)?.format("%Y-%m-%dT%H:%M:%S%.f").to_string())
        }
        "TIMESTAMP" => text(&row.try_get_unchecked::<DateTime<Utc>, _>(at)?.to_rfc3339()),
        "TIME" => text(&time(&row.try_get_unchecked::<MySqlTime, _>(at)?)),
        "JSON" => {
            let json = row.try_get_unchecked::<String, _>(at)?;
            // What would break out of its place in the row is refused here.
            Ok(serde_json::from_str::<&RawValue>(&json)?.get().to_owned())
        }
        kind if is_bytes(kind) => text(&bytes_text(row.try_get_unchecked::<&[u8], _>(at)?)),
        _ => text(row.try_get_unchecked::<&str, _>(at)?),
    }
}

/// A time as the database shows it: with two digits of hours at least.
fn time(time: &MySqlTime) -> String {
    // Of its sign, not of itself: asked whether it is negative it says whether it is positive.
    let sign = if time.sign().is_negative() { "-" } else { "" };
    let micros = match time.microseconds() {
        0 => String::new(),
        micros => format!(".{micros:06}"),
    };
    format!("{sign}{:02}:{:02}:{:02}{micros}", time.hours(), time.minutes(), time.seconds())
}
