use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::page::Sort;

/// A sort and a filter over a snapshot's rows. The empty view is the snapshot itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct View {
    /// Sort columns, the most significant first. Rows with equal values keep the order of the source. Missing values
    /// come last in both directions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<Sort>,
    /// Filters. A row must match all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<Filter>,
}

impl View {
    /// Creates a view with this sort.
    pub fn sorted(sort: impl IntoIterator<Item = Sort>) -> Self {
        Self { sort: sort.into_iter().collect(), filter: Vec::new() }
    }

    /// Adds a filter. A row must match all filters.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.filter.push(filter);
        self
    }

    /// Returns whether the view is the snapshot itself.
    pub fn is_whole(&self) -> bool {
        self.sort.is_empty() && self.filter.is_empty()
    }
}

/// A condition on a row. If the row has no value in the column, only [`FilterOp::IsNull`] matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Name of the column.
    pub column: String,
    /// Comparison.
    pub op: FilterOp,
    /// Value to compare with, in the JSON format of the column's values. Dates and times are text. [`FilterOp::In`]
    /// needs a list, and [`FilterOp::IsNull`] and [`FilterOp::NotNull`] need no value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
}

impl Filter {
    /// Creates a filter that compares `column` with `value`.
    pub fn new(column: impl Into<String>, op: FilterOp, value: impl Into<Value>) -> Self {
        Self { column: column.into(), op, value: value.into() }
    }
}

/// The comparison of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FilterOp {
    /// The value is equal.
    Eq,
    /// The value is different.
    Ne,
    /// The value is less.
    Lt,
    /// The value is less or equal.
    Le,
    /// The value is greater.
    Gt,
    /// The value is greater or equal.
    Ge,
    /// The value is in the list.
    In,
    /// The text contains this text, in upper or lower case.
    Contains,
    /// The text starts with this text.
    StartsWith,
    /// The row has no value.
    IsNull,
    /// The row has a value.
    NotNull,
}
