use crate::column::{ColumnDefinition, ColumnType};

/// The meaning of the text in a column of JSON rows, according to the source of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnHint {
    /// Unknown.
    #[default]
    None,
    /// Dates.
    Date,
    /// Dates and times.
    Timestamp,
    /// Any JSON values, which are kept as JSON.
    Json,
    /// Integers, if the column has values.
    Integer,
    /// Numbers, if the column has values.
    Number,
    /// `true` and `false`, if the column has values.
    Boolean,
    /// Bytes, as PostgreSQL writes them: `\x` and hexadecimal.
    Hex,
    /// Numbers, including the texts `NaN`, `Infinity` and `-Infinity`, for which JSON has no numbers.
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
