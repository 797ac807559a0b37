use serde::{Deserialize, Serialize};

use super::Filter;

/// A request for aggregates, such as counts and sums, of the rows in each group.
///
/// The result of an aggregate has one row for each group. A result row has one member for each group column, with the
/// name of the column. Each result row also has one member for each measure: `m0`, `m1` and so on. The result rows are
/// sorted by the group columns. If a `limit` is set, the result rows are sorted by the first measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Aggregate {
    /// Columns by which rows are grouped: at most two.
    pub groups: Vec<Group>,
    /// Aggregate values to compute for each group: at most four. Default: the number of rows in each group.
    pub measures: Vec<Measure>,
    /// Filters that each aggregated row must match.
    pub filter: Vec<Filter>,
    /// Maximum number of groups, up to 10,000. The result contains the groups with the greatest values of the first
    /// measure. Default: all groups. If the result would have more than 10,000 groups, the request fails.
    pub limit: Option<u64>,
}

/// A column by which rows are grouped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Name of the column by which rows are grouped.
    pub column: String,
    /// Bucket size, to combine neighboring values into one group. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
}

/// The size of the buckets into which values are grouped. In the result, the lower bound of a bucket is the value of
/// the group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bucket {
    /// Buckets of this width, for columns of numbers.
    Width(f64),
    /// One bucket for each minute, for dates and times.
    Minute,
    /// One bucket for each hour.
    Hour,
    /// One bucket for each day.
    Day,
    /// One bucket for each week, which starts on Monday.
    Week,
    /// One bucket for each month.
    Month,
    /// One bucket for each year.
    Year,
}

/// An aggregate value to compute for each group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Operation that computes the value.
    pub op: MeasureOp,
    /// Column whose values the operation uses. The value is `None` if [`MeasureOp::Count`] counts all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

/// The operation that computes an aggregate value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MeasureOp {
    /// Number of rows in the group. If the measure has a column, the value is the number of rows that have a value in
    /// that column.
    Count,
    /// Approximate number of distinct values in the group.
    Distinct,
    /// Sum of the values in the group.
    Sum,
    /// Arithmetic mean of the values in the group.
    Mean,
    /// Smallest value in the group.
    Min,
    /// Greatest value in the group.
    Max,
}
