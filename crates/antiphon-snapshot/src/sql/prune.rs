//! Uses the statistics in the footer to find the chunks that can contain rows for a filter.

use std::collections::HashSet;

use arrow::{
    array::{ArrayRef, BooleanArray, UInt64Array},
    datatypes::{Schema, SchemaRef},
};
use datafusion::{
    catalog::Session,
    common::{Column, DFSchema, ScalarValue, pruning::PruningStatistics},
    logical_expr::{Expr, utils::conjunction},
    physical_optimizer::pruning::PruningPredicateBuilder,
};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;

use crate::inner::Opened;

/// Returns a list with one value for each chunk: `true` if the chunk must be read. Returns `None` if all chunks must
/// be read, because the statistics exclude no chunk.
pub(super) fn kept(
    state: &dyn Session,
    opened: &Opened,
    schema: &SchemaRef,
    filters: &[Expr],
) -> Option<Vec<bool>> {
    let filter = conjunction(filters.iter().cloned())?;
    let named = DFSchema::try_from(schema.as_ref().clone()).ok()?;
    let filter = state.create_physical_expr(filter, &named).ok()?;
    let predicate =
        PruningPredicateBuilder::new().with_file_schema(SchemaRef::clone(schema)).try_build(filter).ok()?;
    predicate.prune(&Footer { opened, schema }).ok()
}

/// The statistics of each chunk, which the footer contains.
struct Footer<'a> {
    opened: &'a Opened,
    schema: &'a Schema,
}

impl Footer<'_> {
    /// Returns `true` if the footer has usable statistics for a column. The statistics of floats are not usable.
    /// Footers ignore NaN in the minimum and the maximum, but the query engine sorts NaN above or below all numbers.
    fn is_told(&self, column: &Column) -> bool {
        let field = self.schema.column_with_name(&column.name);
        field.is_some_and(|(_, field)| !field.data_type().is_floating())
    }

    fn of(&self, column: &Column) -> Option<StatisticsConverter<'_>> {
        StatisticsConverter::try_new(&column.name, self.schema, self.opened.metadata.parquet_schema()).ok()
    }
}

impl PruningStatistics for Footer<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        let of = self.of(column).filter(|_| self.is_told(column))?;
        of.row_group_mins(self.opened.metadata.metadata().row_groups()).ok()
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        let of = self.of(column).filter(|_| self.is_told(column))?;
        of.row_group_maxes(self.opened.metadata.metadata().row_groups()).ok()
    }

    fn num_containers(&self) -> usize {
        self.opened.metadata.metadata().num_row_groups()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = self.of(column)?.row_group_null_counts(self.opened.metadata.metadata().row_groups());
        Some(std::sync::Arc::new(counts.ok()?))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let groups = self.opened.metadata.metadata().row_groups().iter();
        let rows = groups.map(|group| u64::try_from(group.num_rows()).unwrap_or(0));
        Some(std::sync::Arc::new(UInt64Array::from_iter_values(rows)))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
