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
    /// The values are any JSON, which is kept as JSON.
    Json,
    /// The values are integers, if the column has values.
    Integer,
    /// The values are numbers, if the column has values.
    Number,
    /// The values are `true` and `false`, if the column has values.
    Boolean,
    /// The values are bytes in the format of PostgreSQL: `\x` and hexadecimal.
    Hex,
    /// The values are numbers, including the texts `NaN`, `Infinity` and `-Infinity`, for which JSON has no numbers.
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
