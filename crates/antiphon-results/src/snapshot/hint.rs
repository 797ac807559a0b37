use crate::column::{ColumnDefinition, ColumnType};

/// A hint from the source of JSON rows about the type of the values in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnHint {
    /// The source gives no hint, so the type of the column is inferred from the values.
    #[default]
    None,
    /// The values in the column are dates.
    Date,
    /// The values in the column are dates with times.
    Timestamp,
    /// The values in the column are arbitrary JSON, and are stored as JSON.
    Json,
    /// All values in the column are integers, if the column has values.
    Integer,
    /// All values in the column are numbers, if the column has values.
    Number,
    /// All values in the column are `true` or `false`, if the column has values.
    Boolean,
    /// The values in the column are bytes in the format of PostgreSQL: `\x` and hexadecimal digits.
    Hex,
    /// The values in the column are numbers, or the texts `NaN`, `Infinity` and `-Infinity`, which JSON cannot
    /// represent as numbers.
    Float,
}

impl ColumnHint {
    /// Returns the hint for a column's declared type.
    pub fn of(column: &ColumnDefinition) -> Self {
        match column.kind {
            ColumnType::Date => Self::Date,
            ColumnType::Timestamp => Self::Timestamp,
            ColumnType::Json => Self::Json,
            ColumnType::Integer => Self::Integer,
            ColumnType::Number => Self::Number,
            ColumnType::Boolean => Self::Boolean,
            _ => Self::None,
        }
    }
}
