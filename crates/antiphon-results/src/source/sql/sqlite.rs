use std::{
    borrow::Cow,
    time::{Duration, Instant},
};

use serde_json::Value;
use sqlx::{
    Arguments as _, Decode, Either, Row as _, Sqlite, SqliteConnection, SqlitePool, TypeInfo as _,
    ValueRef as _,
    error::DatabaseError,
    sqlite::{SqliteArguments, SqliteRow, SqliteTypeInfo, SqliteValueRef},
};

use super::{
    SqlError, SqlQuery,
    dialect::{Column, Described, Dialect, Guard},
    write,
};
use crate::{
    column::{ColumnDefinition, ColumnType},
    error::BoxError,
    page::Order,
    snapshot::ColumnHint,
};

/// Number of virtual machine instructions after which SQLite checks the deadline.
const STEPS: i32 = 10_000;

impl SqlQuery<Sqlite> {
    /// Creates a query on SQLite. In the SQL, parameters are `?`, or `?1`, `?2` and so on.
    pub fn sqlite(pool: SqlitePool, sql: impl Into<String>) -> Self {
        Self::new(pool, sql)
    }
}

/// The declared type of a column in its table. In SQLite, every value has its own type. The declared type is used only
/// to interpret text from a cursor, which can represent bytes or an infinite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Blob,
    Real,
    Other,
}

impl Dialect for Sqlite {
    type Kind = Kind;
    type Parameter = ();

    const QUOTE: char = '"';

    fn placeholder(number: usize) -> String {
        format!("?{number}")
    }

    async fn describe(
        _connection: &mut SqliteConnection,
        columns: &[SqliteTypeInfo],
        parameters: Option<Either<&[SqliteTypeInfo], usize>>,
    ) -> Result<Described<Self>, SqlError> {
        let kind = |info: &SqliteTypeInfo| match info.name() {
            "BLOB" => Kind::Blob,
            "REAL" => Kind::Real,
            _ => Kind::Other,
        };
        let parameters = parameters.map_or(0, |it| it.either(<[_]>::len, |count| count));
        Ok(Described { columns: columns.iter().map(kind).collect(), parameters: vec![(); parameters] })
    }

    fn found<'k>(kind: &'k Kind, _found: &SqliteTypeInfo) -> Option<Cow<'k, Kind>> {
        Some(Cow::Borrowed(kind))
    }

    fn sorted(column: &Column<Self>) -> Option<String> {
        match column.declared {
            Some(ColumnType::Json) => None,
            // Values that are written as the same boolean must also sort as equal.
            Some(ColumnType::Boolean) => Some(format!("({} <> 0)", column.quoted)),
            _ => Some(column.quoted.clone()),
        }
    }

    fn ordered(expression: &str, order: Order, nullable: bool) -> String {
        match order {
            Order::Asc if nullable => format!("{expression} ASC NULLS LAST"),
            Order::Asc => format!("{expression} ASC"),
            Order::Desc if nullable => format!("{expression} DESC NULLS FIRST"),
            Order::Desc => format!("{expression} DESC"),
        }
    }

    fn operand(
        column: &Column<Self>,
        value: &Value,
        placeholder: String,
        arguments: &mut SqliteArguments,
    ) -> Result<String, BoxError> {
        match (column.kind, value) {
            (Kind::Blob, Value::String(text)) => arguments.add(write::from_base64(text)?)?,
            (Kind::Real, Value::String(text)) if text == "Infinity" => arguments.add(f64::INFINITY)?,
            (Kind::Real, Value::String(text)) if text == "-Infinity" => arguments.add(f64::NEG_INFINITY)?,
            (_, Value::String(_) | Value::Number(_) | Value::Bool(_)) => bind(value, arguments)?,
            (_, Value::Null | Value::Array(_) | Value::Object(_)) => return Err("has no order".into()),
        }
        Ok(placeholder)
    }

    fn parameter(_parameter: &(), value: &Value, arguments: &mut SqliteArguments) -> Result<(), BoxError> {
        bind(value, arguments)
    }

    fn number(number: i64, arguments: &mut SqliteArguments) -> Result<(), BoxError> {
        arguments.add(number)
    }

    fn write(
        column: &Column<Self>,
        kind: &Kind,
        value: SqliteValueRef<'_>,
        is_anchor: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let info = value.type_info();
        let class = info.name();
        if is_anchor && (class == "BLOB") != (*kind == Kind::Blob) {
            return Err("bytes and other values are mixed, so the column cannot be a sort or a key".into());
        }
        match class {
            "REAL" => {
                let number = <f64 as Decode<'_, Self>>::decode(value)?;
                if is_anchor && number.is_infinite() && *kind != Kind::Real {
                    return Err("the value is infinite; declare the column as REAL in its table".into());
                }
                if column.is_declared(&ColumnType::Boolean) {
                    write::json(&(number != 0.0), json)
                } else {
                    write::float(number, json)
                }
            }
            "INTEGER" if column.is_declared(&ColumnType::Boolean) => {
                write::json(&(<i64 as Decode<'_, Self>>::decode(value)? != 0), json)
            }
            "INTEGER" | "BLOB" => write_value(value, json),
            _ if column.is_declared(&ColumnType::Json) => {
                write::checked(<&str as Decode<'_, Self>>::decode(value)?, json)
            }
            _ => write_value(value, json),
        }
    }

    /// Returns the declared type of a column, because SQLite reports no other type.
    fn stored(name: &str, info: &SqliteTypeInfo) -> (ColumnDefinition, ColumnHint) {
        match info.name() {
            "REAL" => (ColumnDefinition::new(name, ColumnType::Number), ColumnHint::Float),
            "INTEGER" | "INT4" | "INT8" => {
                (ColumnDefinition::new(name, ColumnType::Integer), ColumnHint::Integer)
            }
            "BLOB" => (ColumnDefinition::string(name).with_format("base64"), ColumnHint::Hex),
            _ => (ColumnDefinition::string(name), ColumnHint::None),
        }
    }

    fn write_stored(value: SqliteValueRef<'_>, json: &mut Vec<u8>) -> Result<(), BoxError> {
        if value.type_info().name() == "BLOB" {
            return write::hex(<&[u8] as Decode<'_, Self>>::decode(value)?, json);
        }
        write_value(value, json)
    }

    fn count(row: &SqliteRow) -> Result<i64, sqlx::Error> {
        row.try_get(0)
    }

    /// The guard is necessary because SQLite runs in a thread of this process, and dropping the connection would not
    /// stop the statement.
    async fn guard(connection: &mut SqliteConnection, limit: Duration) -> Result<Option<Guard>, sqlx::Error> {
        let guard = Guard::default();
        let (watched, deadline) = (guard.clone(), Instant::now() + limit);
        // After the statement has ended, the handler stops no other statement. So the handler can stay installed.
        connection.lock_handle().await?.set_progress_handler(STEPS, move || watched.may_go_on(deadline));
        Ok(Some(guard))
    }

    fn is_timeout(error: &dyn DatabaseError) -> bool {
        const INTERRUPTED: &str = "9";
        error.code().is_some_and(|code| code == INTERRUPTED)
    }
}

/// Writes a non-null value as JSON, according to the value's own type.
fn write_value(value: SqliteValueRef<'_>, json: &mut Vec<u8>) -> Result<(), BoxError> {
    match value.type_info().name() {
        "INTEGER" => write::json(&<i64 as Decode<'_, Sqlite>>::decode(value)?, json),
        "REAL" => write::float(<f64 as Decode<'_, Sqlite>>::decode(value)?, json),
        "BLOB" => {
            write::bytes(<&[u8] as Decode<'_, Sqlite>>::decode(value)?, json);
            Ok(())
        }
        _ => write::json(<&str as Decode<'_, Sqlite>>::decode(value)?, json),
    }
}

/// Binds a JSON value with the SQL type that matches its JSON type.
fn bind(value: &Value, arguments: &mut SqliteArguments) -> Result<(), BoxError> {
    match value {
        Value::Null => arguments.add(None::<i64>),
        Value::Bool(value) => arguments.add(*value),
        Value::String(text) => arguments.add(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => arguments.add(number),
            (None, Some(float)) if !number.is_u64() => arguments.add(float),
            _ => Err("is a number that is too large for SQLite".into()),
        },
        Value::Array(_) | Value::Object(_) => arguments.add(value.to_string()),
    }
}
