use crate::column::{ColumnDefinition, ColumnType};

/// What the text in a column of JSON rows is, as the source of the rows says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnHint {
    /// Nothing is known.
    #[default]
    None,
    /// Days.
    Date,
    /// Moments.
    Timestamp,
    /// Anything, to be kept as JSON.
    Json,
    /// Whole numbers, if there are any.
    Integer,
    /// Numbers, if there are any.
    Number,
    /// `true` and `false`, if there are any.
    Boolean,
    /// Bytes, as PostgreSQL writes them: `\x` and hexadecimal.
    Hex,
    /// Numbers, among which text can be one that JSON does not have: `NaN`, `Infinity`, `-Infinity`.
    Float,
}

impl ColumnHint {
    /// The hint that a column's declared type is.
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
