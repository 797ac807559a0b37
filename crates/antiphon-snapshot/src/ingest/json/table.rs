//! Converts rows of JSON to batches.

use std::{borrow::Cow, collections::HashMap, marker::PhantomData, sync::Arc};

use antiphon_results::{ColumnDefinition, ColumnType, Rows, snapshot::ColumnHint};
use arrow::{
    array::{
        ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Decimal256Builder,
        Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
    },
    datatypes::{DataType, Date32Type, Field, Schema, SchemaRef, i256},
    record_batch::{RecordBatch, RecordBatchOptions},
};
use serde::de::DeserializeSeed as _;

use super::kind::{Members, Moment, Seen, bytes, date, float, moment, text};
use crate::{
    error::{Error, Result},
    ingest::{MAX_COLUMNS, columns::columns, is_json},
};

/// The columns of all rows that have arrived so far. Columns and kinds of values are added to a `Table`, but never
/// removed.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    columns: Vec<Column>,
    names: HashMap<String, usize>,
    rows: u64,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    declared: Option<ColumnDefinition>,
    hint: ColumnHint,
    seen: Seen,
    /// Whether at least one row has no value in this column.
    nulls: bool,
}

/// The values of a column that are not null. The `usize` is the index of the row.
type Cells<'a> = Vec<(usize, &'a str)>;

impl Table {
    pub(super) fn new(declared: Vec<(ColumnDefinition, ColumnHint)>) -> Result<Self> {
        crate::ingest::normal::check_names(declared.iter().map(|(column, _)| column.name.as_str()))?;
        let mut table = Self::default();
        for (column, hint) in declared {
            let name = column.name.clone();
            table.add(&name).map_err(Error::Invalid)?;
            if let Some(added) = table.columns.last_mut() {
                added.declared = Some(column);
                added.hint = hint;
            }
        }
        Ok(table)
    }

    fn add(&mut self, name: &str) -> Result<usize, String> {
        if name.is_empty() {
            return Err("a column has no name; give every column a name".into());
        }
        if self.columns.len() == MAX_COLUMNS {
            return Err(format!(
                "the rows have more than {MAX_COLUMNS} columns; select fewer columns, or combine related ones"
            ));
        }
        let at = self.columns.len();
        self.names.insert(name.to_owned(), at);
        // Earlier rows have no value in this column.
        let nulls = self.rows > 0;
        let (declared, hint, seen) = (None, ColumnHint::None, Seen::default());
        self.columns.push(Column { name: name.to_owned(), declared, hint, seen, nulls });
        Ok(at)
    }

    /// Converts rows to a batch.
    pub(super) fn take(&mut self, chunk: &[Rows]) -> Result<RecordBatch> {
        let mut cells: Vec<Cells<'_>> = vec![Vec::new(); self.columns.len()];
        let mut row = 0;
        for text in chunk.iter().flat_map(Rows::iter) {
            self.read(text, row, &mut cells)?;
            row += 1;
            self.rows += 1;
        }
        cells.resize(self.columns.len(), Vec::new());
        for (column, cells) in self.columns.iter_mut().zip(&cells) {
            column.nulls |= cells.len() < row;
        }
        let schema = self.schema();
        let arrays = cells.iter().zip(schema.fields()).map(|(cells, field)| array(field, cells, row));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(row));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    fn read<'a>(&mut self, text: &'a str, row: usize, cells: &mut Vec<Cells<'a>>) -> Result<()> {
        let mut met = Vec::new();
        let mut guess = 0;
        let member = |name: Cow<'a, str>, value: &'a str| {
            // Most rows have the same members in the same order, so first try the column at the same position.
            let at = match self.columns.get(guess) {
                Some(column) if column.name == name => guess,
                _ => match self.names.get(&*name) {
                    Some(at) => *at,
                    None => self.add(&name)?,
                },
            };
            guess = at + 1;
            if cells.len() <= at {
                cells.resize(at + 1, Vec::new());
            }
            if cells[at].last().is_some_and(|(last, _)| *last == row) || met.contains(&at) {
                return Err(format!("the row has `{name}` twice; rename one of them"));
            }
            if value == "null" {
                // A member that is null is recorded only to detect a second member with the same name.
                met.push(at);
                return Ok(());
            }
            let column = &mut self.columns[at];
            column.seen.add(value, column.hint);
            cells[at].push((row, value));
            Ok(())
        };
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = Members(member, PhantomData).deserialize(&mut reader).and_then(|()| reader.end());
        read.map_err(|error| Error::Invalid(format!("row {} cannot be saved: {error}", self.rows)))
    }

    /// Returns a schema that can store all rows that have arrived so far.
    pub(super) fn schema(&self) -> SchemaRef {
        let fields: Vec<Field> =
            self.columns.iter().map(|column| column.seen.field(&column.name, column.hint)).collect();
        Arc::new(Schema::new(fields))
    }

    /// Returns the column definitions for responses. A declared definition is used if it matches the values of the
    /// column.
    pub(super) fn columns(&self) -> Vec<ColumnDefinition> {
        let found = columns(&self.schema());
        let told = self.columns.iter().zip(found).map(|(column, mut found)| {
            found.nullable = column.nulls.then_some(true);
            let Some(declared) = &column.declared else { return found };
            let mut told = declared.clone();
            let holds = match &told.kind {
                ColumnType::Number => matches!(found.kind, ColumnType::Number | ColumnType::Integer),
                ColumnType::Other(_) => true,
                kind => *kind == found.kind,
            };
            if !holds && !column.seen.is_nothing() {
                told.kind = found.kind;
            }
            told.format = told.format.or(found.format);
            if column.nulls {
                told.nullable = Some(true);
            }
            told
        });
        told.collect()
    }
}

/// Converts JSON values to an array of the field's type. Invariant: the field was created after all these values were
/// added to the column.
fn array(field: &Field, cells: &Cells<'_>, rows: usize) -> Result<ArrayRef> {
    /// Appends each value, and a null for each row without a value.
    macro_rules! fill {
        ($builder:expr, |$value:ident| $made:expr) => {{
            let mut builder = $builder;
            let mut filled = 0;
            for &(row, $value) in cells {
                builder.append_nulls(row - filled);
                builder.append_value($made.ok_or_else(|| lost(field))?);
                filled = row + 1;
            }
            builder.append_nulls(rows - filled);
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    Ok(match field.data_type() {
        DataType::Utf8 if is_json(field) => fill!(StringBuilder::new(), |value| Some(value)),
        DataType::Utf8 => fill!(StringBuilder::new(), |value| text(value)),
        DataType::Boolean => fill!(BooleanBuilder::with_capacity(rows), |value| Some(value == "true")),
        DataType::Int64 => fill!(Int64Builder::with_capacity(rows), |value| value.parse().ok()),
        DataType::Float64 => {
            fill!(Float64Builder::with_capacity(rows), |value| value.parse().ok().or_else(|| float(value)))
        }
        DataType::Decimal128(precision, scale) => {
            let builder =
                Decimal128Builder::with_capacity(rows).with_precision_and_scale(*precision, *scale)?;
            fill!(builder, |value| super::number::unscaled(value, *scale).parse().ok())
        }
        DataType::Decimal256(precision, scale) => {
            let builder =
                Decimal256Builder::with_capacity(rows).with_precision_and_scale(*precision, *scale)?;
            fill!(builder, |value| i256::from_string(&super::number::unscaled(value, *scale)))
        }
        DataType::Date32 => fill!(Date32Builder::with_capacity(rows), |value| {
            text(value).and_then(|text| date(&text)).map(Date32Type::from_naive_date)
        }),
        DataType::Timestamp(_, zone) => {
            let builder = TimestampMicrosecondBuilder::with_capacity(rows).with_timezone_opt(zone.clone());
            fill!(builder, |value| text(value).and_then(|text| moment(&text)).map(|moment| match moment {
                Moment::Zoned(micros) | Moment::Unzoned(micros) => micros,
            }))
        }
        DataType::Binary => fill!(BinaryBuilder::new(), |value| bytes(value)),
        _ => return Err(lost(field)),
    })
}

fn lost(field: &Field) -> Error {
    Error::Broken(format!("a value of column `{}` does not match the inferred type", field.name()).into())
}
