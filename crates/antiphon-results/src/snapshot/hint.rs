use crate::column::{ColumnDefinition, ColumnType};

/// A hint from the source of JSON rows about the type of the values in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnHint {
    /// No hint: the type is inferred from the values.
    #[default]
    None,
    /// The values are dates.
    Date,
    /// The values are dates with times.
    Timestamp,
    /// The values are arbitrary JSON, and are stored as JSON.
    Json,
    /// If the column has values, these values are integers.
    Integer,
    /// If the column has values, these values are numbers.
    Number,
    /// If the column has values, these values are `true` or `false`.
    Boolean,
    /// The values are bytes in the format of PostgreSQL: `\x` and hexadecimal digits.
    Hex,
    /// The values are numbers, or the texts `NaN`, `Infinity` and `-Infinity`, because JSON has no such numbers.
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
