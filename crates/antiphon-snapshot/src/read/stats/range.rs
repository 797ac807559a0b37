//! The statistics of a column that the footer of a file contains: the number of nulls, the minimum and the maximum.

use antiphon_results::{exact, snapshot::ColumnStats};
use arrow::{
    array::{Array, ArrayRef},
    compute::{SortOptions, sort_to_indices, take},
    datatypes::{DataType, Field, FieldRef, Schema},
    record_batch::RecordBatch,
};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use serde_json::Value;

use super::super::json;
use crate::{error::Result, inner::Opened};

/// The maximum number of characters of a text value in the statistics.
const SHOWN: usize = 100;

/// The statistics of a column that the footer of a file contains.
#[derive(Debug, Default)]
pub(super) struct Range {
    pub(super) nulls: u64,
    /// An array with one value: the smallest value. The smallest value is set only if every chunk with values has
    /// exact statistics.
    pub(super) least: Option<ArrayRef>,
    pub(super) greatest: Option<ArrayRef>,
}

impl Range {
    /// Returns the statistics of a column whose values are not read.
    pub(super) fn alone(self, field: &Field) -> ColumnStats {
        let mut stats = ColumnStats::new(field.name());
        stats.nulls = self.nulls;
        stats.min = self.least.as_ref().map_or(Value::Null, |value| shown(field, value));
        stats.max = self.greatest.as_ref().map_or(Value::Null, |value| shown(field, value));
        stats
    }
}

/// Converts the value in an array to JSON, in the format that rows have. Long text is shortened.
pub(super) fn shown(field: &Field, value: &ArrayRef) -> Value {
    let field = Field::new("value", value.data_type().clone(), true).with_metadata(field.metadata().clone());
    let batch = RecordBatch::try_new(Schema::new(vec![field]).into(), vec![ArrayRef::clone(value)]);
    let line = batch.ok().and_then(|batch| json::lines(&batch, Vec::new()).ok());
    let line = line.and_then(|line| String::from_utf8(line).ok());
    let row: Option<Value> = line.and_then(|line| exact::values(&line).ok());
    match row.and_then(|mut row| row.get_mut("value").map(Value::take)) {
        Some(Value::String(text)) => Value::String(cut(&text).to_owned()),
        value => value.unwrap_or(Value::Null),
    }
}

pub(super) fn cut(text: &str) -> &str {
    text.char_indices().nth(SHOWN).map_or(text, |(at, _)| &text[..at])
}

pub(super) fn of_columns(opened: &Opened) -> Result<Vec<Range>> {
    opened.schema().fields().iter().map(|field| of(opened, field)).collect()
}

fn of(opened: &Opened, field: &FieldRef) -> Result<Range> {
    let groups = opened.metadata.metadata().row_groups();
    // Nested values have no order.
    if field.data_type().is_nested() || matches!(field.data_type(), DataType::Null) {
        return Ok(Range::default());
    }
    let Ok(converter) =
        StatisticsConverter::try_new(field.name(), opened.schema(), opened.metadata.parquet_schema())
    else {
        return Ok(Range::default());
    };
    let nulls: u64 = converter.row_group_null_counts(groups)?.iter().flatten().sum();
    let (least, greatest) = (converter.row_group_mins(groups)?, converter.row_group_maxes(groups)?);
    // If a chunk has values but no statistics, the range is unknown.
    let counts = converter.row_group_null_counts(groups)?;
    let said = |known: &ArrayRef| {
        groups.iter().enumerate().all(|(at, group)| {
            let all_missing = counts.is_valid(at) && i64::try_from(counts.value(at)) == Ok(group.num_rows());
            all_missing || known.is_valid(at)
        })
    };
    let (least, greatest) = if said(&least) && said(&greatest) {
        (end(&least, false)?, end(&greatest, true)?)
    } else {
        (None, None)
    };
    Ok(Range { nulls, least, greatest })
}

/// Returns the smallest value of an array, or the greatest value if `descending` is set.
fn end(values: &ArrayRef, descending: bool) -> Result<Option<ArrayRef>> {
    if values.null_count() == values.len() {
        return Ok(None);
    }
    let order = SortOptions { descending, nulls_first: false };
    let first = sort_to_indices(values, Some(order), Some(1))?;
    Ok(Some(take(values, &first, None)?))
}
