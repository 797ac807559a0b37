use serde_json::Value;
use sqlx::{
    Encode, Postgres, Type,
    encode::IsNull,
    postgres::{PgArgumentBuffer, PgTypeInfo, types::Oid},
};

use super::{
    kind::{Form, Kind},
    moment, numeric,
};
use crate::{error::BoxError, source::sql::write};

/// A parameter with the type that the server determined.
#[derive(Debug)]
pub struct Parameter(pub(super) Kind);

/// A value for a parameter, in the server's binary format.
#[derive(Debug)]
pub(super) struct Bound {
    oid: Oid,
    bytes: Option<Vec<u8>>,
}

impl Bound {
    pub(super) fn new(parameter: &Parameter, value: &Value) -> Result<Self, BoxError> {
        let Parameter(kind) = parameter;
        let bytes = if value.is_null() { None } else { Some(encode(kind, value)?) };
        Ok(Self { oid: kind.oid, bytes })
    }
}

/// The type of a parameter depends on its value, and [`Encode::produces`] returns this type.
impl Type<Postgres> for Bound {
    fn type_info() -> PgTypeInfo {
        <str as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for Bound {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxError> {
        let Some(bytes) = &self.bytes else { return Ok(IsNull::Yes) };
        buffer.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(self.oid))
    }
}

/// Returns a parameter value in the binary format of this type. If the value does not match the type, the error
/// describes the expected value.
fn encode(kind: &Kind, value: &Value) -> Result<Vec<u8>, BoxError> {
    let (bytes, expected) = match kind.form {
        Form::Bool => (value.as_bool().map(|value| vec![value.into()]), "must be true or false"),
        Form::Integer => (integer(kind, value), "must be a whole number in the range of its type"),
        Form::Float => (float(value).map(|number| number.to_be_bytes().to_vec()), "must be a number"),
        Form::Double => (value.as_f64().map(|number| number.to_be_bytes().to_vec()), "must be a number"),
        Form::Numeric => (decimal(value), "must be a number"),
        Form::Text => (value.as_str().map(|text| text.as_bytes().to_vec()), "must be text"),
        Form::Json => (Some(value.to_string().into_bytes()), ""),
        Form::Jsonb => (Some([b"\x01", value.to_string().as_bytes()].concat()), ""),
        Form::Bytes => (read(value, |text| write::from_base64(text).ok()), "must be text in base64"),
        Form::Uuid => (read(value, uuid), "must be a uuid"),
        Form::Date => (read(value, |text| be(moment::read_date(text))), "must be a date: 2025-01-15"),
        Form::Time => (read(value, |text| be(moment::read_time(text))), "must be a time: 10:30:00"),
        Form::Timestamp => {
            (read(value, |text| be(moment::read_timestamp(text))), "must be a timestamp: 2025-01-15T10:30:00")
        }
        Form::TimestampTz => (
            read(value, |text| be(moment::read_timestamp_tz(text))),
            "must be a timestamp: 2025-01-15T10:30:00Z",
        ),
        Form::Composite if kind.element.is_some() => return array(kind, value),
        Form::Composite | Form::Other => {
            return Err(format!(
                "has the type `{0}`, which is not supported; in the SQL, write the placeholder as text with a cast, like `$1::text::{0}`",
                kind.name
            )
            .into());
        }
    };
    bytes.ok_or_else(|| expected.into())
}

fn read<T>(value: &Value, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    value.as_str().and_then(parse)
}

fn be<T: ToBytes>(number: Option<T>) -> Option<Vec<u8>> {
    number.map(T::to_bytes)
}

trait ToBytes {
    fn to_bytes(self) -> Vec<u8>;
}

impl ToBytes for i32 {
    fn to_bytes(self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }
}

impl ToBytes for i64 {
    fn to_bytes(self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }
}

/// Encodes an integer with the width of the type. JSON does not distinguish 5 and 5.0, so this function accepts both
/// numbers.
fn integer(kind: &Kind, value: &Value) -> Option<Vec<u8>> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is whole, and within what a double counts exactly"
    )]
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
    let number = value.as_i64().or_else(|| value.as_f64().filter(|_| !value.is_u64()).and_then(whole))?;
    match kind.base.0 {
        21 => i16::try_from(number).ok().map(|number| number.to_be_bytes().to_vec()),
        23 => i32::try_from(number).ok().map(|number| number.to_be_bytes().to_vec()),
        _ => Some(number.to_be_bytes().to_vec()),
    }
}

/// Returns the `f32` that is nearest to the decimal digits. A conversion through `f64` would round twice.
fn float(value: &Value) -> Option<f32> {
    match value {
        Value::Number(number) => number.to_string().parse().ok().filter(|number: &f32| number.is_finite()),
        _ => None,
    }
}

/// Encodes a decimal. A JSON string contains all digits of the decimal, but a JSON number contains only the digits
/// that the JSON parser preserved.
fn decimal(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => numeric::encode(text),
        Value::Number(number) => numeric::encode(&number.to_string()),
        _ => None,
    }
}

fn uuid(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let is_uuid = digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit);
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    is_uuid.then(|| digits.chunks(2).map(pair).collect())?
}

/// Encodes a one-dimensional array: the number of elements, then each element with its length.
fn array(kind: &Kind, value: &Value) -> Result<Vec<u8>, BoxError> {
    let (Some(element), Value::Array(items)) = (&kind.element, value) else {
        return Err("must be an array".into());
    };
    let count = i32::try_from(items.len()).map_err(|_| "has too many elements")?;
    let has_null = items.iter().any(Value::is_null);
    let mut bytes = Vec::new();
    for number in [i32::from(count > 0), i32::from(has_null)] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(element.oid.0.to_be_bytes());
    if count > 0 {
        bytes.extend(count.to_be_bytes());
        bytes.extend(1_i32.to_be_bytes());
    }
    for item in items {
        if item.is_null() {
            bytes.extend((-1_i32).to_be_bytes());
            continue;
        }
        let item = encode(element, item).map_err(|error| format!("has an element that {error}"))?;
        bytes.extend(i32::try_from(item.len()).map_err(|_| "has an element that is too long")?.to_be_bytes());
        bytes.extend(item);
    }
    Ok(bytes)
}
