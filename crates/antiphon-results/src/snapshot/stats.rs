use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is in a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ColumnStats {
    /// The column's name.
    pub name: String,
    /// How many rows have nothing there.
    pub nulls: u64,
    /// About how many different values there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct: Option<u64>,
    /// The least value; text may be cut.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub min: Value,
    /// The greatest value; text may be cut.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub max: Value,
    /// The mean of numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// How values are spread, for what can be measured: numbers, days, moments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bin>,
    /// The most frequent values, where there are few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frequent: Vec<Frequent>,
}

impl ColumnStats {
    /// A column of which nothing is known.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            nulls: 0,
            distinct: None,
            min: Value::Null,
            max: Value::Null,
            mean: None,
            histogram: Vec::new(),
            frequent: Vec::new(),
        }
    }
}

/// How many values are from one to another, the last bin's end among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// From here, written as the column's values are.
    pub from: Value,
    /// To here.
    pub to: Value,
    /// So many.
    pub count: u64,
}

/// A value, and how many rows have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frequent {
    /// The value.
    pub value: Value,
    /// So many rows.
    pub count: u64,
}
