//! Converts rows that were written with a narrower schema to the final schema.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, StringBuilder, new_null_array},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, Float64Type, SchemaRef},
    record_batch::{RecordBatch, RecordBatchOptions},
};

use super::kind::bytes_text;
use crate::{
    error::{Error, Result},
    ingest::is_json,
};

/// Converts a batch to a wider schema. The wider schema has all columns of the batch, with equal or wider types. The
/// wider schema can have further columns.
pub(crate) fn widen(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let found = batch.schema();
    let columns = schema.fields().iter().map(|to| match found.index_of(to.name()) {
        Ok(at) => column(batch.column(at), found.field(at), to),
        Err(_) => Ok(new_null_array(to.data_type(), batch.num_rows())),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn column(array: &ArrayRef, from: &Field, to: &Field) -> Result<ArrayRef> {
    if from.data_type() == to.data_type() && is_json(from) == is_json(to) {
        return Ok(Arc::clone(array));
    }
    if array.null_count() == array.len() {
        return Ok(new_null_array(to.data_type(), array.len()));
    }
    match (from.data_type(), to.data_type()) {
        (DataType::Binary, DataType::Utf8) if is_json(to) => values(&bytes(array)),
        (DataType::Binary, DataType::Utf8) => Ok(bytes(array)),
        (_, DataType::Utf8) if is_json(to) => values(array),
        // The shortest decimal text of a float contains the digits of the original JSON number.
        (DataType::Float64, DataType::Decimal128(..) | DataType::Decimal256(..)) => {
            let mut text = StringBuilder::new();
            for value in array.as_primitive::<Float64Type>() {
                text.append_option(value.map(|value| format!("{value}")));
            }
            cast(&(Arc::new(text.finish()) as ArrayRef), to.data_type())
        }
        _ => cast(array, to.data_type()),
    }
}

/// Casts an array to another type without loss, or returns an error.
fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() })?)
}

/// Converts each value of an array to JSON text.
fn values(array: &ArrayRef) -> Result<ArrayRef> {
    let plain = array.data_type().is_numeric() || *array.data_type() == DataType::Boolean;
    let texts = cast(array, &DataType::Utf8)?;
    let mut json = StringBuilder::new();
    for text in texts.as_string::<i32>() {
        match text {
            None => json.append_null(),
            // A number that JSON does not support becomes a string.
            Some(text) if plain && !text.ends_with(['N', 'f']) => json.append_value(text),
            Some(text) => {
                json.append_value(serde_json::to_string(text).map_err(|error| Error::Broken(error.into()))?);
            }
        }
    }
    Ok(Arc::new(json.finish()))
}

/// Converts an array of bytes back to text: `\x` and hexadecimal digits.
fn bytes(array: &ArrayRef) -> ArrayRef {
    let mut text = StringBuilder::new();
    for bytes in array.as_binary::<i32>() {
        text.append_option(bytes.map(bytes_text));
    }
    Arc::new(text.finish())
}
