use serde::{Deserialize, Serialize};

use super::Filter;

/// Grouped and measured rows.
///
/// Each row of the answer has one member for each group, with the name of its column. It also has one for each measure:
/// `m0`, `m1` and so on. Rows are in the order of the groups. With a `limit`, they are in the order of the first
/// measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Aggregate {
    /// Groups: at most two.
    pub groups: Vec<Group>,
    /// Measures of each group: at most four. Default: the number of rows.
    pub measures: Vec<Measure>,
    /// Filters. A row must match all of them.
    pub filter: Vec<Filter>,
    /// Maximum number of groups, up to 10,000. The groups with the greatest first measure are kept. Default: all, and
    /// an error if there are more than 10,000.
    pub limit: Option<u64>,
}

/// A column by which rows are grouped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Name of the column.
    pub column: String,
    /// Bucket that combines values near each other. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
}

/// A bucket that combines values near each other. All of them are written as the lower bound of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bucket {
    /// Numbers, in buckets of this width.
    Width(f64),
    /// Dates and times, by minute.
    Minute,
    /// By hour.
    Hour,
    /// By day.
    Day,
    /// By week, which starts on Monday.
    Week,
    /// By month.
    Month,
    /// By year.
    Year,
}

/// A measure of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Operation.
    pub op: MeasureOp,
    /// Column. `None` for the [`MeasureOp::Count`] of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

/// The operation of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MeasureOp {
    /// Number of rows, or of rows with a value in the column.
    Count,
    /// Approximate number of distinct values.
    Distinct,
    /// The sum.
    Sum,
    /// The mean.
    Mean,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
}
