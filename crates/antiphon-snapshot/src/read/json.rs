//! Writes rows as JSON. Only this module determines the JSON format of values.
//!
//! The module uses the JSON writer of Arrow with four changes. The module writes bytes as base64. Dates and timestamps
//! are written as RFC 3339 in UTC. Text that is marked as JSON is written as a JSON value, and missing values are
//! written as `null`.

use std::sync::Arc;

use antiphon_results::Rows;
use arrow::{
    array::{Array, ArrayAccessor, AsArray as _},
    buffer::ScalarBuffer,
    datatypes::{
        ArrowPrimitiveType, DataType, Date32Type, Date64Type, FieldRef, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    },
    error::ArrowError,
    json::{
        Encoder, EncoderFactory, EncoderOptions, Writer, WriterBuilder,
        writer::{LineDelimited, NullableEncoder},
    },
    record_batch::RecordBatch,
};
use base64::Engine as _;
use serde::de::IgnoredAny;

use super::moment;
use crate::error::{Error, Result};

/// The metadata that marks a text field as JSON: the mark of this crate, and the mark of Arrow.
const MARKS: [(&str, &str); 2] = [("antiphon:json", "true"), ("ARROW:extension:name", "arrow.json")];

/// The number of rows that are written between two checks of the page size.
const STRIDE: usize = 64;

/// Adds the rows of a batch as JSON, up to `limit` rows in total.
pub(crate) fn rows(batch: &RecordBatch, rows: &mut Rows, limit: usize) -> Result<()> {
    add(batch, rows, limit, usize::MAX).map(|_| ())
}

/// Adds the rows of a batch as JSON, up to `limit` rows and `max_bytes` in total. The row that exceeds `max_bytes` is
/// omitted, unless it is the first row. Returns `true` if a limit was reached.
pub(crate) fn add(batch: &RecordBatch, rows: &mut Rows, limit: usize, max_bytes: usize) -> Result<bool> {
    let wanted = limit.saturating_sub(rows.len()).min(batch.num_rows());
    let stride = if max_bytes == usize::MAX { wanted.max(1) } else { STRIDE };
    for from in (0..wanted).step_by(stride) {
        let text = lines(&batch.slice(from, stride.min(wanted - from)), Vec::new())?;
        let text = String::from_utf8(text).map_err(|error| Error::Broken(error.into()))?;
        for line in text.split_terminator('\n') {
            rows.push_json(line).map_err(|error| Error::Broken(error.into()))?;
            if rows.bytes() > max_bytes {
                rows.truncate(rows.len().saturating_sub(1).max(1));
                return Ok(true);
            }
        }
    }
    Ok(rows.len() >= limit)
}

/// Appends one line for each row to `out`.
pub(crate) fn lines(batch: &RecordBatch, out: Vec<u8>) -> Result<Vec<u8>> {
    let mut writer: Writer<Vec<u8>, LineDelimited> =
        WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(House)).build(out);
    writer.write(batch)?;
    writer.finish()?;
    Ok(writer.into_inner())
}

/// Returns the options with which other formats encode single values as JSON.
pub(crate) fn options() -> EncoderOptions {
    EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(House))
}

/// Returns whether the text of a column is marked as JSON.
pub(crate) fn is_json(field: &arrow::datatypes::Field) -> bool {
    MARKS.iter().any(|(key, value)| field.metadata().get(*key).is_some_and(|found| found == value))
}

/// The factory for the JSON encoders that differ from Arrow's JSON encoders.
#[derive(Debug)]
struct House;

impl EncoderFactory for House {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Binary => Box::new(Base64(array.as_binary::<i32>())),
            DataType::LargeBinary => Box::new(Base64(array.as_binary::<i64>())),
            DataType::BinaryView => Box::new(Base64(array.as_binary_view())),
            DataType::FixedSizeBinary(_) => Box::new(Base64(array.as_fixed_size_binary())),
            DataType::Utf8 if is_json(field) => Box::new(Embedded(array.as_string::<i32>())),
            DataType::LargeUtf8 if is_json(field) => Box::new(Embedded(array.as_string::<i64>())),
            DataType::Utf8View if is_json(field) => Box::new(Embedded(array.as_string_view())),
            DataType::Date32 => Box::new(Days(values::<Date32Type>(array))),
            DataType::Date64 => Box::new(Instants(values::<Date64Type>(array))),
            DataType::Timestamp(unit, zone) => {
                let values = match unit {
                    TimeUnit::Second => values::<TimestampSecondType>(array),
                    TimeUnit::Millisecond => values::<TimestampMillisecondType>(array),
                    TimeUnit::Microsecond => values::<TimestampMicrosecondType>(array),
                    TimeUnit::Nanosecond => values::<TimestampNanosecondType>(array),
                };
                Box::new(Moments { values, unit: *unit, zoned: zone.is_some() })
            }
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> ScalarBuffer<T::Native> {
    array.as_primitive::<T>().values().clone()
}

struct Base64<A>(A);

impl<'a, A: ArrayAccessor<Item = &'a [u8]>> Encoder for Base64<A> {
    fn encode(&mut self, at: usize, out: &mut Vec<u8>) {
        let engine = &base64::engine::general_purpose::STANDARD;
        out.push(b'"');
        out.extend_from_slice(engine.encode(self.0.value(at)).as_bytes());
        out.push(b'"');
    }
}

/// An encoder for text that is marked as JSON. If a text is not valid JSON, the encoder writes the text as a JSON
/// string.
struct Embedded<A>(A);

impl<'a, A: ArrayAccessor<Item = &'a str>> Encoder for Embedded<A> {
    fn encode(&mut self, at: usize, out: &mut Vec<u8>) {
        let text = self.0.value(at);
        if serde_json::from_str::<IgnoredAny>(text).is_ok() {
            // Valid JSON has no line breaks inside strings. A space can replace a line break between members.
            let byte = |byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
            out.extend(text.trim_ascii().bytes().map(byte));
        } else {
            // Serializing a string does not fail.
            let _ = serde_json::to_writer(out, text);
        }
    }
}

struct Days(ScalarBuffer<i32>);

impl Encoder for Days {
    fn encode(&mut self, at: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        moment::day(i64::from(self.0[at]), out);
        out.push(b'"');
    }
}

/// An encoder for dates that are stored in milliseconds.
struct Instants(ScalarBuffer<i64>);

impl Encoder for Instants {
    fn encode(&mut self, at: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        moment::day(self.0[at].div_euclid(86_400_000), out);
        out.push(b'"');
    }
}

struct Moments {
    values: ScalarBuffer<i64>,
    unit: TimeUnit,
    zoned: bool,
}

impl Encoder for Moments {
    fn encode(&mut self, at: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        moment::moment(self.values[at], self.unit, self.zoned, out);
        out.push(b'"');
    }
}
