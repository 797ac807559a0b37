//! The result of a query, in types that can be stored and with unique column names.

use std::{collections::HashSet, sync::Arc};

use antiphon_results::{DualResponseError, snapshot::SnapshotId};
use arrow::{
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    record_batch::{RecordBatch, RecordBatchOptions},
};
use datafusion::physical_plan::ExecutionPlan;

use crate::{error::Error, read::json::is_json};

/// Converts the batches that a query plan returns to batches with types that can be stored.
#[derive(Debug)]
pub(super) struct Answer {
    schema: SchemaRef,
}

impl Answer {
    pub(super) fn new(plan: &Arc<dyn ExecutionPlan>, tables: &[(String, SnapshotId)]) -> Self {
        let mut taken = HashSet::new();
        let fields: Vec<_> = plan
            .schema()
            .fields()
            .iter()
            .map(|field| {
                let name = own(unqualified(field.name(), tables), &mut taken);
                stored_field(field).with_name(name)
            })
            .collect();
        Self { schema: Arc::new(Schema::new(fields)) }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    pub(super) fn take(&self, batch: &RecordBatch) -> Result<RecordBatch, DualResponseError> {
        let mut columns = Vec::new();
        for (column, field) in batch.columns().iter().zip(self.schema.fields()) {
            let column = if column.data_type() == field.data_type() {
                Arc::clone(column)
            } else {
                cast(column, field.data_type()).map_err(Error::from)?
            };
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let taken = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        Ok(taken.map_err(Error::from)?)
    }
}

/// The metadata keys that mark text as JSON.
const MARKS: [&str; 3] = ["antiphon:json", "ARROW:extension:name", "ARROW:extension:metadata"];

/// Returns the field under which a result column is stored. Text that is JSON keeps the mark for JSON. All other
/// metadata of the source column is removed.
fn stored_field(field: &Field) -> Field {
    let kind = stored(field.data_type());
    let mut metadata = field.metadata().clone();
    let text = matches!(kind, DataType::Utf8 | DataType::LargeUtf8);
    metadata.retain(|key, _| text && is_json(field) && MARKS.contains(&key.as_str()));
    Field::new(field.name(), kind, field.is_nullable()).with_metadata(metadata)
}

/// Returns the type in which the values of a result column are stored. Views and dictionaries become their values, and
/// intervals and durations become text.
fn stored(kind: &DataType) -> DataType {
    let inner = |field: &FieldRef| Arc::new(stored_field(field));
    match kind {
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => stored(values),
        DataType::Utf8View | DataType::Interval(_) | DataType::Duration(_) => DataType::Utf8,
        DataType::List(field) => DataType::List(inner(field)),
        DataType::LargeList(field) => DataType::LargeList(inner(field)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        kind => kind.clone(),
    }
}

/// Removes the table name from a column name: `sum(result.price)` becomes `sum(price)`. The name of the table is not
/// useful, because the caller did not choose this name.
fn unqualified(name: &str, tables: &[(String, SnapshotId)]) -> String {
    let [(table, _)] = tables else { return name.to_owned() };
    let prefix = format!("{}.", table.to_lowercase());
    let mut shown = String::new();
    let mut rest = name;
    while let Some(at) = rest.find(&prefix) {
        let (before, found) = rest.split_at(at);
        shown.push_str(before);
        let inside = shown.ends_with(|character: char| character.is_alphanumeric() || character == '_');
        if inside {
            shown.push_str(&prefix);
        }
        rest = &found[prefix.len()..];
    }
    shown + rest
}

/// Returns a unique column name: the name itself, or the name with a number if another column has the same name. A row
/// is a JSON object, so the names of its columns must be unique.
fn own(name: String, taken: &mut HashSet<String>) -> String {
    if taken.insert(name.clone()) {
        return name;
    }
    let mut number = 2;
    loop {
        let candidate = format!("{name}_{number}");
        if taken.insert(candidate.clone()) {
            return candidate;
        }
        number += 1;
    }
}
