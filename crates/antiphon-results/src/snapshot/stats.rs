use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The statistics of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ColumnStats {
    /// Name of the column.
    pub name: String,
    /// Number of rows without a value.
    pub nulls: u64,
    /// Approximate number of distinct values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct: Option<u64>,
    /// Minimum. Text can be shortened.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub min: Value,
    /// Maximum. Text can be shortened.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub max: Value,
    /// Mean of numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Histogram of numbers, or of dates and times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bin>,
    /// Most frequent values, if there are few distinct values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frequent: Vec<Frequent>,
}

impl ColumnStats {
    /// Creates empty statistics of a column.
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

/// A bin of a histogram. It includes its start but not its end, except for the last bin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Start, in the format of the column's values.
    pub from: Value,
    /// End.
    pub to: Value,
    /// Number of values.
    pub count: u64,
}

/// A value, and the number of rows with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frequent {
    /// Value.
    pub value: Value,
    /// Number of rows.
    pub count: u64,
}
