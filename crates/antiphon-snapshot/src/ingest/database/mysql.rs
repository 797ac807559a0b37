use antiphon_results::{
    BoxError, ColumnDefinition, ColumnType,
    snapshot::Intake,
    source::mysql_values::{Kind, is_null, write_value},
};
use futures_util::{FutureExt as _, TryStreamExt as _};
use serde_json::value::RawValue;
use sqlx::{
    Arguments as _, AssertSqlSafe, Column as _, Decode, Encode, Executor as _, MySql, MySqlPool, Row as _,
    SqlSafeStr as _, Statement as _, Type, TypeInfo as _, ValueRef as _,
    mysql::{MySqlArguments, MySqlRow, MySqlTypeInfo},
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
/// Text with a binary collation is text, and so is `JSON` of MariaDB. A column with a date of zeros (`0000-00-00`) is
/// text, since no type of dates has it.
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
        let columns = described.columns().iter().map(|column| describe(column.name(), column.type_info()));
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

/// What the database says of a column. A type is decided where queries decide it, so that a set has the same values,
/// whether it is a query or a snapshot.
fn describe(name: &str, info: &MySqlTypeInfo) -> (ColumnDefinition, Hint) {
    let (kind, hint, format) = match Kind::of(info) {
        Kind::Integer | Kind::Unsigned | Kind::Bits => (ColumnType::Integer, Hint::Integer, None),
        Kind::Float | Kind::Double => (ColumnType::Number, Hint::Float, None),
        Kind::Decimal => (ColumnType::Number, Hint::Number, None),
        Kind::Date => (ColumnType::Date, Hint::Date, None),
        Kind::Datetime | Kind::Timestamp => (ColumnType::Timestamp, Hint::Timestamp, None),
        Kind::Json => (ColumnType::Json, Hint::Json, None),
        Kind::Bytes if info.name() != "NULL" => (ColumnType::String, Hint::Hex, Some("base64")),
        Kind::Time => (ColumnType::String, Hint::None, Some("time")),
        Kind::Text | Kind::Enum | Kind::Bytes => (ColumnType::String, Hint::None, None),
    };
    let mut column = ColumnDefinition::new(name, kind);
    column.format = format.map(Into::into);
    (column, hint)
}

/// A value as JSON, in the form that the intake of rows reads without a loss.
fn value(row: &MySqlRow, at: usize) -> Result<String, BoxError> {
    let raw = row.try_get_raw(at)?;
    if is_null(&raw) {
        return Ok("null".into());
    }
    let text = |text: &str| Ok(serde_json::to_string(text)?);
    match Kind::of(&raw.type_info()) {
        // A column of decimals holds all of their digits.
        Kind::Decimal => Ok(<String as Decode<'_, MySql>>::decode(raw)?),
        Kind::Time => text(&time(<&[u8] as Decode<'_, MySql>>::decode(raw)?)?),
        Kind::Bytes => text(&bytes_text(<&[u8] as Decode<'_, MySql>>::decode(raw)?)),
        Kind::Json => {
            let json = <&str as Decode<'_, MySql>>::decode(raw)?;
            // What would break out of its place in the row is refused here.
            Ok(serde_json::from_str::<&RawValue>(json)?.get().to_owned())
        }
        kind => {
            let mut json = Vec::new();
            write_value(kind, raw, &mut json)?;
            Ok(String::from_utf8(json)?)
        }
    }
}

/// A time as the database shows it: with two digits of hours at least.
///
/// It is sent as a length, then whether it is negative, days, hours, minutes, seconds and microseconds, as far as they are
/// not zero. The driver's own type does not hold the longest times of MariaDB.
fn time(bytes: &[u8]) -> Result<String, BoxError> {
    let (negative, days, rest) = match bytes {
        [] | [0] => return Ok("00:00:00".into()),
        [_, negative, a, b, c, d, rest @ ..] => (*negative != 0, u32::from_le_bytes([*a, *b, *c, *d]), rest),
        _ => return Err("a time is cut short".into()),
    };
    let [hours, minutes, seconds, fraction @ ..] = rest else { return Err("a time is cut short".into()) };
    let hours = u64::from(days) * 24 + u64::from(*hours);
    let micros = match fraction {
        [a, b, c, d] => match u32::from_le_bytes([*a, *b, *c, *d]) {
            0 => String::new(),
            micros => format!(".{micros:06}"),
        },
        _ => String::new(),
    };
    let sign = if negative { "-" } else { "" };
    Ok(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{micros}"))
}
