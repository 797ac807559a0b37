use serde::{Deserialize, Serialize};

use super::Filter;

/// Rows grouped and measured. Each row of the answer has a member for each group, named as its column, and one for
/// each measure, `m0`, `m1` and so on. They come in the order of the groups, or with a `limit` in that of the first measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Aggregate {
    /// By what: at most two.
    pub groups: Vec<Group>,
    /// What is measured of each group: at most four. Without any, its rows are counted.
    pub measures: Vec<Measure>,
    /// What must all be true of a row to be counted.
    pub filter: Vec<Filter>,
    /// Only so many groups, those with the greatest first measure: at most 10,000. Default: all, and an error where
    /// there are more than 10,000.
    pub limit: Option<u64>,
}

/// By what rows are grouped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The column's name.
    pub column: String,
    /// How values that are near each other are taken together. Default: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
}

/// How values that are near each other are taken together: all are written as the least that the bucket may hold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bucket {
    /// Numbers, by so much.
    Width(f64),
    /// Days and moments, by the minute.
    Minute,
    /// By the hour.
    Hour,
    /// By the day.
    Day,
    /// By the week, which begins on Monday.
    Week,
    /// By the month.
    Month,
    /// By the year.
    Year,
}

/// What is measured of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// What.
    pub op: MeasureOp,
    /// Of which column; of none, for [`MeasureOp::Count`] of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MeasureOp {
    /// How many rows, or how many that have something in the column.
    Count,
    /// How many different values, about.
    Distinct,
    /// The sum.
    Sum,
    /// The mean.
    Mean,
    /// The least.
    Min,
    /// The greatest.
    Max,
}
