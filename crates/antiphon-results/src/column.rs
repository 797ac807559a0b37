use serde::{Deserialize, Serialize};

/// A column of a result set: a name, a type and a description.
///
/// If a result set declares its columns, clients can sort only by the declared columns. The server sends the column
/// definitions to clients unchanged.
///
/// ```
/// use antiphon_results::{ColumnDefinition, ColumnType};
///
/// let columns = [ColumnDefinition::integer("id"), ColumnDefinition::string("name").nullable()];
/// assert_eq!(columns[0], ColumnDefinition::new("id", ColumnType::Integer));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ColumnDefinition {
    /// Name of the column. Each row is a JSON object with a member of this name.
    pub name: String,
    /// Type of the values.
    #[serde(rename = "type")]
    pub kind: ColumnType,
    /// Whether the value of this column can be missing or null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nullable: Option<bool>,
    /// Preferred display format of the values, such as `date`, `uri` or `currency`. If JSON Schema has a name for the
    /// format, use that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Description of the column, for users and models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl ColumnDefinition {
    /// Creates a column with this name and type.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Self {
        Self { name: name.into(), kind, nullable: None, format: None, description: None }
    }

    /// Creates a text column.
    pub fn string(name: impl Into<String>) -> Self {
        Self::new(name, ColumnType::String)
    }

    /// Creates a column of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self::new(name, ColumnType::Number)
    }

    /// Creates a column of integers.
    pub fn integer(name: impl Into<String>) -> Self {
        Self::new(name, ColumnType::Integer)
    }

    /// Creates a column of booleans.
    pub fn boolean(name: impl Into<String>) -> Self {
        Self::new(name, ColumnType::Boolean)
    }

    /// Declares that the value of this column can be missing or null.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = Some(true);
        self
    }

    /// Sets the preferred display format. Default: none.
    #[must_use]
    pub fn with_format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// Sets the description of the column, for users and models. Default: none.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

/// The type of a column's values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum ColumnType {
    /// `string`: text.
    String,
    /// `number`: a number.
    Number,
    /// `integer`: an integer.
    Integer,
    /// `boolean`: `true` or `false`.
    Boolean,
    /// `date`: a date, such as `2025-01-15`.
    Date,
    /// `timestamp`: a date and time in the format of RFC 3339.
    Timestamp,
    /// `json`: any JSON value.
    Json,
    /// A column type that this crate does not define. The `String` is the name of the type.
    Other(String),
}

impl ColumnType {
    /// Returns the name that the column type has in JSON, such as `string`.
    pub fn name(&self) -> &str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::Json => "json",
            Self::Other(name) => name,
        }
    }
}

impl From<String> for ColumnType {
    fn from(name: String) -> Self {
        let known = [
            Self::String,
            Self::Number,
            Self::Integer,
            Self::Boolean,
            Self::Date,
            Self::Timestamp,
            Self::Json,
        ];
        known.into_iter().find(|kind| kind.name() == name).unwrap_or(Self::Other(name))
    }
}

impl From<ColumnType> for String {
    fn from(kind: ColumnType) -> Self {
        match kind {
            ColumnType::Other(name) => name,
            known => known.name().to_owned(),
        }
    }
}
