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
    /// Approximate number of distinct values in the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct: Option<u64>,
    /// Smallest value in the column. A long text value is shortened.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub min: Value,
    /// Greatest value in the column. A long text value is shortened.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub max: Value,
    /// Arithmetic mean, for a column of numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Histogram, for a column of numbers or of dates and times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bin>,
    /// Most frequent values, if the column has few distinct values.
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

/// A bin of a histogram. A bin includes its lower bound but not its upper bound. The last bin includes both bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Lower bound of the bin, in the format of the column's values.
    pub from: Value,
    /// Upper bound of the bin.
    pub to: Value,
    /// Number of values in the bin.
    pub count: u64,
}

/// A frequent value of a column, and the number of rows with this value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frequent {
    /// The frequent value.
    pub value: Value,
    /// Number of rows that have the frequent value.
    pub count: u64,
}
