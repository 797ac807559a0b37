//! Selects and orders the columns of a snapshot.

use std::sync::Arc;

use arrow::{
    compute::cast,
    datatypes::{DataType, Field, Fields, Schema, SchemaRef},
    record_batch::{RecordBatch, RecordBatchOptions},
};
use parquet::arrow::{ProjectionMask, arrow_reader::ArrowReaderMetadata};

use crate::{
    error::{Error, Result},
    inner::Opened,
};

/// Selected columns of a snapshot.
#[derive(Debug)]
pub(crate) struct Columns {
    /// The indices of the selected columns in the file, in ascending order.
    places: Vec<usize>,
    /// For each requested column, its index in `places`.
    order: Vec<usize>,
    /// Whether the columns of a batch must be reordered or converted.
    arranged: bool,
    schema: SchemaRef,
}

impl Columns {
    /// Selects columns by name, in the order of `names`. Selects all columns if `names` is empty.
    pub(crate) fn named(opened: &Opened, names: &[String]) -> Result<Self> {
        let fields = opened.schema().fields();
        let asked: Vec<usize> = if names.is_empty() {
            (0..fields.len()).collect()
        } else {
            let place = |name: &String| {
                fields.iter().position(|field| field.name() == name).ok_or_else(|| {
                    Error::Invalid(format!(
                        "column `{name}` does not exist; the columns are {}",
                        list(fields)
                    ))
                })
            };
            names.iter().map(place).collect::<Result<_>>()?
        };
        Self::at(opened, &asked)
    }

    /// Selects columns of a snapshot by the index that each column has in the file.
    pub(crate) fn at(opened: &Opened, asked: &[usize]) -> Result<Self> {
        let stored = opened.schema();
        let mut places = asked.to_vec();
        places.sort_unstable();
        if let Some(twice) = places.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = stored.field(twice[0]).name();
            return Err(Error::Invalid(format!("`columns` contains `{name}` twice; list each column once")));
        }
        let order: Vec<usize> = asked.iter().map(|at| places.binary_search(at).unwrap_or_default()).collect();
        let fields: Fields = asked.iter().map(|&at| plain_field(stored.field(at))).collect();
        let arranged = order.iter().enumerate().any(|(at, place)| at != *place)
            || asked.iter().zip(&fields).any(|(&at, field)| stored.field(at) != &**field);
        // The metadata of the file does not apply to a selection of its columns.
        let schema = Arc::new(Schema::new(fields));
        Ok(Self { places, order, arranged, schema })
    }

    /// Returns the schema of the batches that [`arrange`](Self::arrange) returns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn mask(&self, metadata: &ArrowReaderMetadata) -> ProjectionMask {
        ProjectionMask::roots(metadata.parquet_schema(), self.places.iter().copied())
    }

    /// Returns a batch with the columns in the requested order, with plain types.
    pub(crate) fn arrange(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let arrays = if self.arranged {
            let array = |(&place, field): (&usize, &Arc<Field>)| {
                let array = batch.columns().get(place);
                let array =
                    array.ok_or_else(|| Error::Altered("a column is missing in the stored file".into()))?;
                if array.data_type() == field.data_type() {
                    return Ok(Arc::clone(array));
                }
                Ok(cast(array, field.data_type())?)
            };
            self.order.iter().zip(self.schema.fields()).map(array).collect::<Result<_>>()?
        } else {
            batch.columns().to_vec()
        };
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}

fn list(fields: &[Arc<Field>]) -> String {
    const MOST: usize = 20;
    let names: Vec<_> = fields.iter().take(MOST).map(|field| format!("`{}`", field.name())).collect();
    let more = if fields.len() > MOST { " and others" } else { "" };
    format!("{}{more}", names.join(", "))
}

/// Returns the field with a type that is neither a dictionary nor a view. Dictionaries and views only save memory, and
/// some readers do not support these types.
fn plain_field(field: &Field) -> Arc<Field> {
    Arc::new(field.clone().with_data_type(plain(field.data_type())))
}

fn plain(kind: &DataType) -> DataType {
    match kind {
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(field) => DataType::List(plain_field(field)),
        DataType::LargeList(field) => DataType::LargeList(plain_field(field)),
        DataType::FixedSizeList(field, length) => DataType::FixedSizeList(plain_field(field), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| plain_field(field)).collect()),
        other => other.clone(),
    }
}
