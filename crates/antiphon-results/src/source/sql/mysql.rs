use std::{borrow::Cow, time::Duration};

use serde_json::{Value, value::RawValue};
use sqlx::{
    Arguments as _, Decode, Either, MySql, MySqlConnection, MySqlPool, Row as _, Type, TypeInfo as _,
    ValueRef as _,
    error::DatabaseError,
    mysql::{MySqlArguments, MySqlDatabaseError, MySqlRow, MySqlTypeInfo, MySqlValueRef},
};

use super::{
    SqlError, SqlQuery, decimal,
    dialect::{Column, Described, Dialect},
    moment::Moment,
    write,
};
use crate::{
    column::{ColumnDefinition, ColumnType},
    error::BoxError,
    page::Order,
    snapshot::ColumnHint,
};

impl SqlQuery<MySql> {
    /// Creates a query on MariaDB or MySQL. In the SQL, each parameter is a `?`.
    pub fn mysql(pool: MySqlPool, sql: impl Into<String>) -> Self {
        Self::new(pool, sql)
    }
}

/// The type of a column of MariaDB or MySQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Signed integers.
    Integer,
    /// Unsigned integers.
    Unsigned,
    /// `BIT`, which is read as a number.
    Bits,
    /// `FLOAT`.
    Float,
    /// `DOUBLE`.
    Double,
    /// `DECIMAL`.
    Decimal,
    /// `DATE`.
    Date,
    /// `DATETIME`, which has no time zone.
    Datetime,
    /// `TIMESTAMP`, in UTC.
    Timestamp,
    /// `TIME`, which can be negative.
    Time,
    /// Text of any collation.
    Text,
    /// `ENUM` or `SET`: values from a list of texts, which the server stores as numbers.
    Enum,
    /// `JSON` of MySQL. In MariaDB, `JSON` is text.
    Json,
    /// Bytes.
    Bytes,
}

impl Kind {
    /// Returns the kind of a column. No other code determines the kind of a column.
    fn of(info: &MySqlTypeInfo) -> Self {
        if is_listed(info) {
            return Self::Enum;
        }
        match info.name() {
            // The driver uses the type name `BOOLEAN` for `TINYINT(1)`, signed or unsigned.
            "BOOLEAN" if <u64 as Type<MySql>>::compatible(info) => Self::Unsigned,
            "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT" | "BOOLEAN" => Self::Integer,
            "BIT" => Self::Bits,
            "FLOAT" => Self::Float,
            "DOUBLE" => Self::Double,
            "DECIMAL" => Self::Decimal,
            "DATE" => Self::Date,
            "DATETIME" => Self::Datetime,
            "TIMESTAMP" => Self::Timestamp,
            "TIME" => Self::Time,
            "JSON" => Self::Json,
            "YEAR" => Self::Unsigned,
            name if name.ends_with(" UNSIGNED") => Self::Unsigned,
            // The type name does not distinguish text from bytes reliably: the name depends on a flag that text with a
            // binary collation also has.
            _ if <str as Type<MySql>>::compatible(info) => Self::Text,
            _ => Self::Bytes,
        }
    }
}

impl Dialect for MySql {
    type Kind = Kind;
    type Parameter = ();

    const QUOTE: char = '`';

    fn placeholder(_number: usize) -> String {
        "?".to_owned()
    }

    async fn describe(
        _connection: &mut MySqlConnection,
        columns: &[MySqlTypeInfo],
        parameters: Option<Either<&[MySqlTypeInfo], usize>>,
    ) -> Result<Described<Self>, SqlError> {
        let parameters = parameters.map_or(0, |it| it.either(<[_]>::len, |count| count));
        Ok(Described { columns: columns.iter().map(Kind::of).collect(), parameters: vec![(); parameters] })
    }

    /// Returns the type of a column that the received rows report. The type of a column can depend on the type of a
    /// parameter. The type of a column that depends on a parameter is unknown before the parameter is bound.
    fn found<'k>(kind: &'k Kind, found: &MySqlTypeInfo) -> Option<Cow<'k, Kind>> {
        let found = Kind::of(found);
        let is_same = *kind == found || *kind == Kind::Time;
        Some(if is_same { Cow::Borrowed(kind) } else { Cow::Owned(found) })
    }

    fn selected(column: &Column<Self>) -> String {
        match column.kind {
            // A `TIME` can be negative, and longer than a day.
            Kind::Time => format!("CAST({} AS CHAR)", column.quoted),
            _ => column.quoted.clone(),
        }
    }

    fn sorted(column: &Column<Self>) -> Option<String> {
        match (column.kind, &column.declared) {
            (Kind::Json, _) | (_, Some(ColumnType::Json)) => None,
            // Values that are written as the same boolean must also sort as equal.
            (Kind::Integer | Kind::Unsigned | Kind::Bits, Some(ColumnType::Boolean)) => {
                Some(format!("({} <> 0)", column.quoted))
            }
            // An `ENUM` sorts as a number but compares as text. With the cast, the database also sorts an `ENUM` by its
            // text.
            (Kind::Enum, _) => Some(format!("CAST({} AS CHAR)", column.quoted)),
            _ => Some(column.quoted.clone()),
        }
    }

    fn ordered(expression: &str, order: Order, nullable: bool) -> String {
        let direction = match order {
            Order::Asc => "ASC",
            Order::Desc => "DESC",
        };
        if nullable {
            format!("{expression} IS NULL {direction}, {expression} {direction}")
        } else {
            format!("{expression} {direction}")
        }
    }

    fn operand(
        column: &Column<Self>,
        value: &Value,
        placeholder: String,
        arguments: &mut MySqlArguments,
    ) -> Result<String, BoxError> {
        match (column.kind, value) {
            (Kind::Float, Value::Number(number)) => {
                // The column holds an `f32`, and the `f64` with the same digits is a different number.
                let number: f32 = number.to_string().parse()?;
                arguments.add(f64::from(number))?;
            }
            (Kind::Decimal, Value::Number(_) | Value::String(_)) => {
                let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                let scale = scale(&text)?;
                arguments.add(text)?;
                return Ok(format!("CAST({placeholder} AS DECIMAL(65,{scale}))"));
            }
            (Kind::Date | Kind::Datetime | Kind::Timestamp, Value::String(text)) => {
                arguments.add(moment(text)?)?;
                return Ok(format!("CAST({placeholder} AS DATETIME(6))"));
            }
            (Kind::Time, Value::String(text)) => {
                arguments.add(moment(text)?)?;
                return Ok(format!("CAST({placeholder} AS TIME(6))"));
            }
            (Kind::Bytes, Value::String(text)) => arguments.add(write::from_base64(text)?)?,
            (Kind::Text | Kind::Enum, Value::String(_))
            | (
                Kind::Integer | Kind::Unsigned | Kind::Bits | Kind::Double,
                Value::Number(_) | Value::Bool(_),
            ) => {
                bind(value, arguments)?;
            }
            _ => return Err("has another type than the column".into()),
        }
        Ok(placeholder)
    }

    fn parameter(_parameter: &(), value: &Value, arguments: &mut MySqlArguments) -> Result<(), BoxError> {
        bind(value, arguments)
    }

    fn number(number: i64, arguments: &mut MySqlArguments) -> Result<(), BoxError> {
        arguments.add(number)
    }

    fn write(
        column: &Column<Self>,
        kind: &Kind,
        value: MySqlValueRef<'_>,
        _is_anchor: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let is_boolean = column.is_declared(&ColumnType::Boolean);
        match kind {
            Kind::Integer if is_boolean => {
                write::json(&(<i64 as Decode<'_, Self>>::decode(value)? != 0), json)
            }
            Kind::Unsigned | Kind::Bits if is_boolean => {
                write::json(&(<u64 as Decode<'_, Self>>::decode(value)? != 0), json)
            }
            Kind::Decimal => decimal::write(text(value)?, column.is_number(), json),
            Kind::Text if column.is_declared(&ColumnType::Json) => write::checked(text(value)?, json),
            kind => write_value(*kind, value, json),
        }
    }

    fn stored(name: &str, info: &MySqlTypeInfo) -> (ColumnDefinition, ColumnHint) {
        let (kind, hint, format) = match Kind::of(info) {
            Kind::Integer | Kind::Unsigned | Kind::Bits => (ColumnType::Integer, ColumnHint::Integer, None),
            Kind::Float | Kind::Double => (ColumnType::Number, ColumnHint::Float, None),
            Kind::Decimal => (ColumnType::Number, ColumnHint::Number, None),
            Kind::Date => (ColumnType::Date, ColumnHint::Date, None),
            Kind::Datetime | Kind::Timestamp => (ColumnType::Timestamp, ColumnHint::Timestamp, None),
            Kind::Json => (ColumnType::Json, ColumnHint::Json, None),
            Kind::Bytes if info.name() != "NULL" => (ColumnType::String, ColumnHint::Hex, Some("base64")),
            Kind::Time => (ColumnType::String, ColumnHint::None, Some("time")),
            Kind::Text | Kind::Enum | Kind::Bytes => (ColumnType::String, ColumnHint::None, None),
        };
        let mut column = ColumnDefinition::new(name, kind);
        column.format = format.map(Into::into);
        (column, hint)
    }

    fn write_stored(value: MySqlValueRef<'_>, json: &mut Vec<u8>) -> Result<(), BoxError> {
        match Kind::of(&value.type_info()) {
            Kind::Decimal => json.extend_from_slice(text(value)?.as_bytes()),
            Kind::Time => write::plain(&time(<&[u8] as Decode<'_, Self>>::decode(value)?)?, json),
            Kind::Bytes => write::hex(<&[u8] as Decode<'_, Self>>::decode(value)?, json)?,
            // The parser rejects text that would break the JSON of the row.
            Kind::Json => {
                json.extend_from_slice(serde_json::from_str::<&RawValue>(text(value)?)?.get().as_bytes());
            }
            kind => write_value(kind, value, json)?,
        }
        Ok(())
    }

    /// The driver reports the date `0000-00-00` as null, but the database does not.
    fn is_null(value: &MySqlValueRef<'_>) -> bool {
        value.is_null() && <&[u8] as Decode<'_, Self>>::decode(value.clone()).is_err()
    }

    fn count(row: &MySqlRow) -> Result<i64, sqlx::Error> {
        let value = row.try_get_raw(0)?;
        let read = match Kind::of(&value.type_info()) {
            _ if value.is_null() => return row.try_get(0),
            Kind::Unsigned => {
                <u64 as Decode<'_, Self>>::decode(value).and_then(|number| Ok(i64::try_from(number)?))
            }
            Kind::Decimal => text(value).and_then(|text| Ok(text.parse::<i64>()?)),
            _ => return row.try_get(0),
        };
        read.map_err(sqlx::Error::Decode)
    }

    /// Returns a time limit for MariaDB and a time limit for MySQL, as SQL text. Each of the two servers treats the
    /// time limit of the other server as a comment.
    fn limited(limit: Duration) -> (String, String) {
        let millis = limit.as_millis().clamp(1, u128::from(u32::MAX));
        (
            format!(
                "/*M!100101 SET STATEMENT max_statement_time={}.{:03} FOR */ ",
                millis / 1000,
                millis % 1000
            ),
            format!("/*+ MAX_EXECUTION_TIME({millis}) */ "),
        )
    }

    fn is_timeout(error: &dyn DatabaseError) -> bool {
        const MARIADB: u16 = 1969;
        const MYSQL: u16 = 3024;
        error
            .try_downcast_ref::<MySqlDatabaseError>()
            .is_some_and(|error| matches!(error.number(), MARIADB | MYSQL))
    }
}

/// Writes a non-null value as JSON, according to its kind.
fn write_value(kind: Kind, value: MySqlValueRef<'_>, json: &mut Vec<u8>) -> Result<(), BoxError> {
    match kind {
        Kind::Integer => write::json(&<i64 as Decode<'_, MySql>>::decode(value)?, json),
        Kind::Unsigned | Kind::Bits => write::json(&<u64 as Decode<'_, MySql>>::decode(value)?, json),
        Kind::Float => write::short_float(<f32 as Decode<'_, MySql>>::decode(value)?, json),
        Kind::Double => write::float(<f64 as Decode<'_, MySql>>::decode(value)?, json),
        Kind::Date => {
            json.push(b'"');
            read_moment(value)?.write_date(json);
            json.push(b'"');
            Ok(())
        }
        Kind::Datetime | Kind::Timestamp => {
            read_moment(value)?.write(kind == Kind::Timestamp, json);
            Ok(())
        }
        Kind::Json => write::raw(text(value)?, json),
        Kind::Text | Kind::Enum | Kind::Time | Kind::Decimal => write::json(text(value)?, json),
        Kind::Bytes => {
            write::bytes(<&[u8] as Decode<'_, MySql>>::decode(value)?, json);
            Ok(())
        }
    }
}

/// Returns whether the type is an `ENUM` or a `SET`. The server marks an `ENUM` or a `SET` with a flag, and only the
/// `Debug` output of the driver shows this flag. The type name does not identify an `ENUM` or a `SET`, because ordinary
/// text can have the same type name.
fn is_listed(info: &MySqlTypeInfo) -> bool {
    if !matches!(info.name(), "CHAR" | "BINARY" | "ENUM" | "SET") {
        return false;
    }
    let shown = format!("{info:?}");
    let flags = shown.split_once("flags:").map_or("", |(_, rest)| rest.split(',').next().unwrap_or_default());
    flags.split(|character: char| !character.is_ascii_alphabetic()).any(|flag| matches!(flag, "ENUM" | "SET"))
}

fn text<'r>(value: MySqlValueRef<'r>) -> Result<&'r str, BoxError> {
    <&str as Decode<'r, MySql>>::decode(value)
}

/// Binds a JSON value with the SQL type that matches its JSON type.
fn bind(value: &Value, arguments: &mut MySqlArguments) -> Result<(), BoxError> {
    match value {
        Value::Null => arguments.add(None::<i64>),
        Value::Bool(value) => arguments.add(*value),
        Value::String(text) => arguments.add(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => arguments.add(number),
            (_, Some(number), _) => arguments.add(number),
            (.., Some(number)) => arguments.add(number),
            _ => Err("must be a number that MySQL supports".into()),
        },
        Value::Array(_) | Value::Object(_) => arguments.add(value.to_string()),
    }
}

/// Returns the number of digits after the decimal point for a cast. The number of decimal places is at least 30, which
/// is the maximum of MySQL. MariaDB supports more decimal places, so the number can be larger if the value needs more.
/// The number of all digits, before and after the decimal point, is at most 65.
fn scale(text: &str) -> Result<usize, BoxError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number =
        |character: char| character.is_ascii_digit() || matches!(character, '.' | 'e' | 'E' | '-' | '+');
    if digits.is_empty() || !digits.chars().all(is_number) {
        return Err("must be a number".into());
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    Ok(65_usize.saturating_sub(whole.len()).min(fraction.len().max(30)))
}

/// Converts RFC 3339 to the server's format, which has no `T` and no `Z`.
fn moment(text: &str) -> Result<String, BoxError> {
    let text = text.strip_suffix('Z').unwrap_or(text).replacen('T', " ", 1);
    let is_moment =
        |character: char| character.is_ascii_digit() || matches!(character, '-' | ':' | '.' | ' ');
    if text.chars().all(is_moment) { Ok(text) } else { Err("must be a date or time".into()) }
}

/// Reads a length, then year, month, day, hour, minute, second and microseconds. The server omits parts at the end
/// that are zero.
fn read_moment(value: MySqlValueRef<'_>) -> Result<Moment, BoxError> {
    let bytes = <&[u8] as Decode<'_, MySql>>::decode(value)?;
    let mut moment = Moment::default();
    let rest = bytes.get(1..).unwrap_or_default();
    if let [low, high, month, day, rest @ ..] = rest {
        moment =
            Moment { year: u16::from_le_bytes([*low, *high]).into(), month: *month, day: *day, ..moment };
        if let [hour, minute, second, rest @ ..] = rest {
            moment = Moment { hour: *hour, minute: *minute, second: *second, ..moment };
            if let [a, b, c, d] = rest {
                moment.micros = u32::from_le_bytes([*a, *b, *c, *d]);
            }
        }
    }
    Ok(moment)
}

/// Formats a time as the database does, with at least two digits for the hours.
///
/// The bytes are a length, a sign, days, hours, minutes, seconds and microseconds. The server omits parts at the end
/// that are zero. The driver's type for times cannot hold the longest times of MariaDB.
fn time(bytes: &[u8]) -> Result<String, BoxError> {
    let (negative, days, rest) = match bytes {
        [] | [0] => return Ok("00:00:00".into()),
        [_, negative, a, b, c, d, rest @ ..] => (*negative != 0, u32::from_le_bytes([*a, *b, *c, *d]), rest),
        _ => return Err("the time is truncated".into()),
    };
    let [hours, minutes, seconds, fraction @ ..] = rest else { return Err("the time is truncated".into()) };
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
