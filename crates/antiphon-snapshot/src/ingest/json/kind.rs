//! Records the kinds of values in a JSON column, and finds a data type that can store all of them.

use antiphon_results::snapshot::ColumnHint;
use arrow::datatypes::{DataType, Field, TimeUnit};
use chrono::{DateTime, NaiveDate, NaiveDateTime};
use serde_json::value::RawValue;

use super::number::Numbers;
use crate::{ingest::columns::json_field, layout::hex};

/// The kinds of values that a column has had so far. Kinds of values are added, but never removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a kind of value that was seen")]
pub(super) struct Seen {
    booleans: bool,
    numbers: Option<Numbers>,
    text: bool,
    dates: bool,
    zoned: bool,
    unzoned: bool,
    bytes: bool,
    /// Whether the column has had lists, objects, or strings that are not valid Unicode.
    other: bool,
}

impl Seen {
    /// Adds the kind of a value that is not null.
    pub(super) fn add(&mut self, value: &str, hint: ColumnHint) {
        match value.as_bytes().first() {
            _ if hint == ColumnHint::Json => self.other = true,
            Some(b't' | b'f') => self.booleans = true,
            Some(b'-' | b'0'..=b'9') => {
                let numbers = Numbers::measure(value);
                self.numbers = Some(self.numbers.map_or(numbers, |seen| seen.merge(numbers)));
            }
            Some(b'"') => self.add_text(value, hint),
            _ => self.other = true,
        }
    }

    fn add_text(&mut self, value: &str, hint: ColumnHint) {
        // A string with half a surrogate pair is valid JSON, but is not a Rust string.
        if value.contains("\\u") && text(value).is_none() {
            self.other = true;
            return;
        }
        let fits = match hint {
            ColumnHint::None
            | ColumnHint::Json
            | ColumnHint::Integer
            | ColumnHint::Number
            | ColumnHint::Boolean => None,
            ColumnHint::Date => text(value).and_then(|text| date(&text)).map(|_| &mut self.dates),
            ColumnHint::Timestamp => match text(value).and_then(|text| moment(&text)) {
                Some(Moment::Zoned(_)) => Some(&mut self.zoned),
                Some(Moment::Unzoned(_)) => Some(&mut self.unzoned),
                None => None,
            },
            ColumnHint::Hex => bytes(value).map(|_| &mut self.bytes),
            ColumnHint::Float => match float(value) {
                Some(_) => {
                    let zero = Numbers::measure("0.0");
                    self.numbers = Some(self.numbers.map_or(zero, |seen| seen.merge(zero)));
                    return;
                }
                None => None,
            },
        };
        *fits.unwrap_or(&mut self.text) = true;
    }

    /// Returns a field that can store all values of the column so far.
    pub(super) fn field(self, name: &str, hint: ColumnHint) -> Field {
        let plain = |kind| Field::new(name, kind, true);
        let strings = self.text || self.dates || self.zoned || self.unzoned || self.bytes;
        let kinds = [self.booleans, self.numbers.is_some(), strings, self.other];
        match kinds.into_iter().filter(|is| *is).count() {
            0 => match hint {
                ColumnHint::Date => plain(DataType::Date32),
                ColumnHint::Timestamp => plain(timestamp(true)),
                ColumnHint::Json => json_field(name),
                ColumnHint::Hex => plain(DataType::Binary),
                ColumnHint::Float | ColumnHint::Number => plain(DataType::Float64),
                ColumnHint::Integer => plain(DataType::Int64),
                ColumnHint::Boolean => plain(DataType::Boolean),
                ColumnHint::None => plain(DataType::Utf8),
            },
            1 if self.booleans => plain(DataType::Boolean),
            1 if strings => plain(self.strings()),
            1 => match self.numbers.and_then(Numbers::data_type) {
                Some(kind) => plain(kind),
                None => json_field(name),
            },
            // A column with several kinds of values stores the JSON text of each value.
            _ => json_field(name),
        }
    }

    /// Returns `true` if all values of the column so far are null.
    pub(super) fn is_nothing(self) -> bool {
        self == Self::default()
    }

    fn strings(self) -> DataType {
        match (self.text, self.dates, self.zoned, self.unzoned, self.bytes) {
            (false, true, false, false, false) => DataType::Date32,
            (false, false, true, false, false) => timestamp(true),
            (false, false, false, true, false) => timestamp(false),
            (false, false, false, false, true) => DataType::Binary,
            _ => DataType::Utf8,
        }
    }
}

fn timestamp(zoned: bool) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, zoned.then(|| "UTC".into()))
}

/// Decodes a JSON string. Returns `None` if the string is not valid Unicode.
pub(super) fn text(value: &str) -> Option<std::borrow::Cow<'_, str>> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(value).ok().map(Into::into);
    }
    Some(inner.into())
}

/// Parses a date. Returns `None` if the parsed date, formatted as text, would differ from the original text.
pub(super) fn date(text: &str) -> Option<NaiveDate> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    (date.to_string() == text).then_some(date)
}

/// A timestamp in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Zoned(i64),
    Unzoned(i64),
}

/// Parses a timestamp. Returns `None` if the timestamp has digits beyond microseconds.
pub(super) fn moment(text: &str) -> Option<Moment> {
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    if fraction.as_bytes()[..digits].iter().skip(6).any(|digit| *digit != b'0') {
        return None;
    }
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        // A leap second would be read back as a different value.
        return (moment.timestamp_subsec_nanos() < 1_000_000_000)
            .then(|| Moment::Zoned(moment.timestamp_micros()));
    }
    let moment = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
        .into_iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())?
        .and_utc();
    (moment.timestamp_subsec_nanos() < 1_000_000_000).then(|| Moment::Unzoned(moment.timestamp_micros()))
}

/// Decodes bytes from text with `\x` and hexadecimal digits.
pub(super) fn bytes(value: &str) -> Option<Vec<u8>> {
    let text = text(value)?;
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

/// Formats bytes as text that the function [`bytes`] can decode.
pub(super) fn bytes_text(bytes: &[u8]) -> String {
    hex("\\x", bytes)
}

/// Parses a float that JSON does not support, such as `NaN`.
pub(super) fn float(value: &str) -> Option<f64> {
    match value {
        "\"NaN\"" => Some(f64::NAN),
        "\"Infinity\"" => Some(f64::INFINITY),
        "\"-Infinity\"" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A visitor that calls a function with the name and the JSON text of each member of an object.
pub(super) struct Members<'a, F>(pub(super) F, pub(super) std::marker::PhantomData<&'a ()>);

impl<'de, F> serde::de::DeserializeSeed<'de> for Members<'de, F>
where
    F: FnMut(std::borrow::Cow<'de, str>, &'de str) -> Result<(), String>,
{
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F> serde::de::Visitor<'de> for Members<'de, F>
where
    F: FnMut(std::borrow::Cow<'de, str>, &'de str) -> Result<(), String>,
{
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            let value: &'de RawValue = map.next_value()?;
            (self.0)(name, value.get()).map_err(serde::de::Error::custom)?;
        }
        Ok(())
    }
}

/// A member name, which is borrowed if it contains no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);
