//! Converts Arrow types to the plain types that are stored.

use std::{collections::HashSet, sync::Arc};

use arrow::{
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    record_batch::RecordBatch,
};
use parquet::arrow::ArrowSchemaConverter;

use super::MAX_COLUMNS;
use crate::error::{Error, Result};

/// Converts batches from a given schema to a schema that the store can write.
#[derive(Clone, Debug)]
pub(super) struct Normal {
    given: SchemaRef,
    schema: SchemaRef,
}

impl Normal {
    pub(super) fn new(given: SchemaRef) -> Result<Self> {
        check_names(given.fields().iter().map(|field| field.name().as_str()))?;
        let fields = given.fields().iter().map(|field| {
            let plain = plain_field(field).map_err(|kind| unfit(field.name(), &kind))?;
            // Convert each column separately, so that the error can name the column.
            let alone = Schema::new(vec![Arc::clone(&plain)]);
            ArrowSchemaConverter::new()
                .convert(&alone)
                .map_err(|_| unfit(field.name(), field.data_type()))?;
            Ok(plain)
        });
        let fields = fields.collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(Schema::new_with_metadata(fields, given.metadata().clone()));
        Ok(Self { given, schema })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns `true` if the conversion changes the type of at least one column.
    pub(super) fn changes(&self) -> bool {
        self.given != self.schema
    }

    pub(super) fn take(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if batch.num_columns() != self.given.fields().len() {
            return Err(Error::Invalid(format!(
                "a batch has {} columns, and the schema has {}; give every batch the same schema",
                batch.num_columns(),
                self.given.fields().len()
            )));
        }
        let columns = batch.columns().iter().zip(self.given.fields()).zip(self.schema.fields());
        let columns = columns.map(|((array, given), plain)| {
            if array.data_type() != given.data_type() {
                return Err(Error::Invalid(format!(
                    "column `{}` is {} in a batch and {} in the schema; give every batch the same schema",
                    given.name(),
                    array.data_type(),
                    given.data_type()
                )));
            }
            if array.data_type() == plain.data_type() {
                return Ok(Arc::clone(array));
            }
            let exact = CastOptions { safe: false, ..CastOptions::default() };
            Ok(cast_with_options(array, plain.data_type(), &exact)?)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| Error::Invalid(format!("a batch does not match its schema: {error}")))
    }
}

/// Returns an error for column names that a snapshot cannot have.
pub(super) fn check_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if name.is_empty() {
            return Err(Error::Invalid("a column has no name; give every column a name".into()));
        }
        if !seen.insert(name) {
            return Err(Error::Invalid(format!("two columns have the name `{name}`; rename one of them")));
        }
        if seen.len() > MAX_COLUMNS {
            return Err(Error::Invalid(format!(
                "the rows have more than {MAX_COLUMNS} columns; select fewer columns, or combine related ones"
            )));
        }
    }
    Ok(())
}

fn unfit(name: &str, kind: &DataType) -> Error {
    Error::Invalid(format!(
        "column `{name}` has type {kind}, which cannot be stored; cast the column to a simple type or to text"
    ))
}

fn plain_field(field: &FieldRef) -> Result<FieldRef, DataType> {
    let plain = plain(field.data_type())?;
    if plain == *field.data_type() {
        return Ok(Arc::clone(field));
    }
    // Create a new field, because the field of a dictionary column also contains dictionary settings.
    let new = Field::new(field.name(), plain, field.is_nullable()).with_metadata(field.metadata().clone());
    Ok(Arc::new(new))
}

/// Returns the plain form of a type. If the type or a type nested in it has no plain form, returns this type as the
/// error.
fn plain(kind: &DataType) -> Result<DataType, DataType> {
    use DataType as T;
    Ok(match kind {
        T::Utf8View => T::Utf8,
        T::BinaryView => T::Binary,
        T::Dictionary(_, value) => plain(value)?,
        T::List(field) | T::ListView(field) => T::List(plain_field(field)?),
        T::LargeList(field) | T::LargeListView(field) => T::LargeList(plain_field(field)?),
        T::FixedSizeList(field, size) => T::FixedSizeList(plain_field(field)?, *size),
        T::Struct(fields) => T::Struct(fields.iter().map(plain_field).collect::<Result<_, _>>()?),
        T::Map(field, sorted) => T::Map(plain_field(field)?, *sorted),
        T::RunEndEncoded(..) | T::Union(..) => return Err(kind.clone()),
        other => other.clone(),
    })
}
