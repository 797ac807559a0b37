use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::page::Sort;

/// An order and a choice of a snapshot's rows. The empty one is the snapshot itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct View {
    /// By which columns, the first first. Rows that none of them tells apart stay in the order they came in; what is
    /// missing comes last, whichever way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<Sort>,
    /// What must all be true of a row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<Filter>,
}

impl View {
    /// The rows in this order.
    pub fn sorted(sort: impl IntoIterator<Item = Sort>) -> Self {
        Self { sort: sort.into_iter().collect(), filter: Vec::new() }
    }

    /// Only the rows of which this is true too.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.filter.push(filter);
        self
    }

    /// Whether it is the snapshot itself.
    pub fn is_whole(&self) -> bool {
        self.sort.is_empty() && self.filter.is_empty()
    }
}

/// Something that is true of a row or not. Of a row that has nothing in the column, only
/// [`FilterOp::IsNull`] is true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// The column's name.
    pub column: String,
    /// How it is compared.
    pub op: FilterOp,
    /// With what, in JSON as the column's values are written: text for days and moments. A list for
    /// [`FilterOp::In`], nothing for [`FilterOp::IsNull`] and [`FilterOp::NotNull`].
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
}

impl Filter {
    /// `column` compared with `value`.
    pub fn new(column: impl Into<String>, op: FilterOp, value: impl Into<Value>) -> Self {
        Self { column: column.into(), op, value: value.into() }
    }
}

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FilterOp {
    /// It is this.
    Eq,
    /// It is something else.
    Ne,
    /// It is less.
    Lt,
    /// It is this or less.
    Le,
    /// It is more.
    Gt,
    /// It is this or more.
    Ge,
    /// It is one of these.
    In,
    /// Its text has this in it, in upper or lower case.
    Contains,
    /// Its text begins with this.
    StartsWith,
    /// There is nothing.
    IsNull,
    /// There is something.
    NotNull,
}
