use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::page::Sort;

/// A view of a snapshot: the columns by which the rows are sorted, and the filters that the rows must match. A view
/// without sort columns and filters contains all rows of the snapshot, in the order of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct View {
    /// Sort columns, the most significant first. Rows with equal values in the sort columns keep the order of the
    /// source. Rows without a value in a sort column come last in ascending and in descending sorts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<Sort>,
    /// Filters that each row of the view must match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<Filter>,
}

impl View {
    /// Creates a view with these sort columns and without filters.
    pub fn sorted(sort: impl IntoIterator<Item = Sort>) -> Self {
        Self { sort: sort.into_iter().collect(), filter: Vec::new() }
    }

    /// Adds a filter. Each row of the view matches all filters.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.filter.push(filter);
        self
    }

    /// Returns `true` if the view has no sort columns and no filters.
    pub fn is_whole(&self) -> bool {
        self.sort.is_empty() && self.filter.is_empty()
    }
}

/// A condition on the value of one column. A row without a value in the column matches only [`FilterOp::IsNull`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Name of the column.
    pub column: String,
    /// Operation that compares the row's value with `value`.
    pub op: FilterOp,
    /// Value to compare with, in the JSON format of the column's values. Dates and times in a filter are text.
    /// [`FilterOp::In`] needs a list, and [`FilterOp::IsNull`] and [`FilterOp::NotNull`] need no value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
}

impl Filter {
    /// Creates a filter that compares `column` with `value`.
    pub fn new(column: impl Into<String>, op: FilterOp, value: impl Into<Value>) -> Self {
        Self { column: column.into(), op, value: value.into() }
    }
}

/// The operation with which a filter compares values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FilterOp {
    /// The row's value is equal to the filter's value.
    Eq,
    /// The row's value is different from the filter's value.
    Ne,
    /// The row's value is less than the filter's value.
    Lt,
    /// The row's value is less than or equal to the filter's value.
    Le,
    /// The row's value is greater than the filter's value.
    Gt,
    /// The row's value is greater than or equal to the filter's value.
    Ge,
    /// The row's value is one of the values in the filter's list.
    In,
    /// The row's text contains the filter's text. The comparison does not distinguish upper and lower case.
    Contains,
    /// The row's text starts with the filter's text.
    StartsWith,
    /// The row has no value in the column.
    IsNull,
    /// The row has a value in the column.
    NotNull,
}
