mod kind;
mod moment;
mod numeric;
mod parameter;

use std::borrow::Cow;

use serde_json::Value;
use sqlx::{
    Arguments as _, Decode, Either, PgConnection, PgPool, Postgres, Row as _, TypeInfo as _,
    error::DatabaseError,
    postgres::{PgArguments, PgRow, PgTypeInfo, PgValueRef, types::Oid},
};

use self::{
    kind::{Form, Kind},
    parameter::{Bound, Parameter},
};
use super::{
    SqlError, SqlQuery, decimal,
    dialect::{Column, Described, Dialect},
    statement::table,
    write,
};
use crate::{
    column::{ColumnDefinition, ColumnType},
    error::BoxError,
    page::Order,
    snapshot::ColumnHint,
};

impl SqlQuery<Postgres> {
    /// Creates a query on PostgreSQL. In the SQL, parameters are `$1`, `$2` and so on.
    pub fn postgres(pool: PgPool, sql: impl Into<String>) -> Self {
        Self::new(pool, sql)
    }
}

impl Dialect for Postgres {
    type Kind = Kind;
    type Parameter = Parameter;

    const QUOTE: char = '"';

    fn placeholder(number: usize) -> String {
        format!("${number}")
    }

    async fn describe(
        connection: &mut PgConnection,
        columns: &[PgTypeInfo],
        parameters: Option<Either<&[PgTypeInfo], usize>>,
    ) -> Result<Described<Self>, SqlError> {
        let parameters = parameters.and_then(Either::left).unwrap_or_default();
        let oids: Vec<Oid> = columns.iter().chain(parameters).filter_map(PgTypeInfo::oid).collect();
        if oids.len() != columns.len() + parameters.len() {
            return Err(SqlError::setup("PostgreSQL did not return the types of the columns"));
        }
        let mut kinds = kind::describe(connection, oids).await?;
        let parameters = kinds.split_off(columns.len());
        Ok(Described { columns: kinds, parameters: parameters.into_iter().map(Parameter).collect() })
    }

    fn found<'k>(kind: &'k Kind, found: &PgTypeInfo) -> Option<Cow<'k, Kind>> {
        (kind.is_cast() || found.oid() == Some(kind.oid)).then_some(Cow::Borrowed(kind))
    }

    fn selected(column: &Column<Self>) -> String {
        match column.kind.form {
            Form::Numeric | Form::Other => format!("{}::text", column.quoted),
            Form::Composite => format!("to_json({})::text", column.quoted),
            _ => column.quoted.clone(),
        }
    }

    fn sorted(column: &Column<Self>) -> Option<String> {
        let has_order = !matches!(column.kind.form, Form::Json | Form::Jsonb | Form::Composite);
        (has_order && !column.is_declared(&ColumnType::Json)).then(|| column.quoted.clone())
    }

    /// PostgreSQL sorts null as the greatest value by default, and an index has the same order.
    fn ordered(expression: &str, order: Order, _nullable: bool) -> String {
        match order {
            Order::Asc => format!("{expression} ASC"),
            Order::Desc => format!("{expression} DESC"),
        }
    }

    /// Binds a value for a comparison as text. The server parses the text like a literal of the column's type.
    fn operand(
        column: &Column<Self>,
        value: &Value,
        placeholder: String,
        arguments: &mut PgArguments,
    ) -> Result<String, BoxError> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return Err("has no order".into()),
        };
        arguments.add(text)?;
        Ok(match column.kind.form {
            Form::Bytes => format!("decode({placeholder}::text, 'base64')"),
            _ => format!("{placeholder}::text::{}", column.kind.name),
        })
    }

    fn parameter(parameter: &Parameter, value: &Value, arguments: &mut PgArguments) -> Result<(), BoxError> {
        arguments.add(Bound::new(parameter, value)?)
    }

    fn number(number: i64, arguments: &mut PgArguments) -> Result<(), BoxError> {
        arguments.add(number)
    }

    fn write(
        column: &Column<Self>,
        kind: &Kind,
        value: PgValueRef<'_>,
        _is_anchor: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        match kind.form {
            Form::Bool => write::json(&<bool as Decode<'_, Self>>::decode(value)?, json)?,
            Form::Integer => write::json(&<i64 as Decode<'_, Self>>::decode(value)?, json)?,
            Form::Float => write::short_float(<f32 as Decode<'_, Self>>::decode(value)?, json)?,
            Form::Double => write::float(<f64 as Decode<'_, Self>>::decode(value)?, json)?,
            Form::Numeric => decimal::write(value.as_str()?, column.is_number(), json)?,
            Form::Text if column.is_declared(&ColumnType::Json) => write::checked(value.as_str()?, json)?,
            Form::Text | Form::Other => write::json(value.as_str()?, json)?,
            Form::Json | Form::Composite => write::raw(value.as_str()?, json)?,
            Form::Jsonb => write::raw(jsonb(value.as_bytes()?)?, json)?,
            Form::Bytes => write::bytes(value.as_bytes()?, json),
            Form::Uuid => uuid(value.as_bytes()?, json)?,
            Form::Date => moment::write_date(value.as_bytes()?, json)?,
            Form::Time => moment::write_time(value.as_bytes()?, json)?,
            Form::Timestamp => moment::write_timestamp(value.as_bytes()?, false, json)?,
            Form::TimestampTz => moment::write_timestamp(value.as_bytes()?, true, json)?,
        }
        Ok(())
    }

    fn stored(name: &str, info: &PgTypeInfo) -> (ColumnDefinition, ColumnHint) {
        let (kind, hint, format) = match info.name() {
            "BOOL" => (ColumnType::Boolean, ColumnHint::Boolean, None),
            "INT2" | "INT4" | "INT8" | "OID" => (ColumnType::Integer, ColumnHint::Integer, None),
            "FLOAT4" | "FLOAT8" => (ColumnType::Number, ColumnHint::Float, None),
            "NUMERIC" => (ColumnType::Number, ColumnHint::Number, None),
            "DATE" => (ColumnType::Date, ColumnHint::Date, None),
            "TIMESTAMP" | "TIMESTAMPTZ" => (ColumnType::Timestamp, ColumnHint::Timestamp, None),
            "JSON" | "JSONB" | "RECORD" => (ColumnType::Json, ColumnHint::Json, None),
            "BYTEA" => (ColumnType::String, ColumnHint::Hex, Some("base64")),
            "UUID" => (ColumnType::String, ColumnHint::None, Some("uuid")),
            kind if kind.ends_with("[]") => (ColumnType::Json, ColumnHint::Json, None),
            _ => (ColumnType::String, ColumnHint::None, None),
        };
        let mut column = ColumnDefinition::new(name, kind);
        column.format = format.map(Into::into);
        (column, hint)
    }

    /// PostgreSQL converts every value to JSON with all digits. The line breaks after the SQL end a possible comment
    /// at the end of the SQL.
    fn stored_rows(sql: &str) -> String {
        format!("SELECT pg_catalog.row_to_json(antiphon_row)::text FROM (\n{sql}\n) AS antiphon_row")
    }

    /// Copies the row, which is already JSON.
    fn write_stored(value: PgValueRef<'_>, json: &mut Vec<u8>) -> Result<(), BoxError> {
        json.extend_from_slice(value.as_str()?.as_bytes());
        Ok(())
    }

    fn write_stored_row(row: &PgRow, _names: &[String], json: &mut Vec<u8>) -> Result<(), BoxError> {
        Self::write_stored(row.try_get_raw(0)?, json)
    }

    fn counted(sql: &str) -> String {
        format!("SELECT q.c::bigint FROM {}(c)", table(sql))
    }

    fn count(row: &PgRow) -> Result<i64, sqlx::Error> {
        row.try_get(0)
    }

    /// Returns `true` if the server rejected a value because its text is invalid or out of range. Also returns `true`
    /// if the server cannot sort by the type of a column.
    fn is_refusal(error: &dyn DatabaseError) -> bool {
        const CODES: [&str; 6] = ["22P02", "22003", "22007", "22008", "22021", "42883"];
        error.code().is_some_and(|code| CODES.contains(&&*code))
    }

    fn is_timeout(error: &dyn DatabaseError) -> bool {
        /// The error code that the server returns if the pool has a `statement_timeout`, or if another session cancels
        /// the statement.
        const CANCELED: &str = "57014";
        error.code().is_some_and(|code| code == CANCELED)
    }
}

/// Returns the text of a `jsonb` value, which follows a version byte.
fn jsonb(bytes: &[u8]) -> Result<&str, BoxError> {
    match bytes {
        [1, text @ ..] => Ok(std::str::from_utf8(text)?),
        _ => Err("the jsonb value has an unknown version".into()),
    }
}

fn uuid(bytes: &[u8], json: &mut Vec<u8>) -> Result<(), BoxError> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    if bytes.len() != 16 {
        return Err("the uuid value does not have 16 bytes".into());
    }
    json.push(b'"');
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            json.push(b'-');
        }
        json.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    json.push(b'"');
    Ok(())
}
