use serde::{Deserialize, Serialize};

/// A column of a result set: what it is called and what is in it.
///
/// Where columns are declared, only they can be sorted by. They are sent as they were given.
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
    /// Its name, which is also the name of the member in each row.
    pub name: String,
    /// What is in it.
    #[serde(rename = "type")]
    pub kind: ColumnType,
    /// Whether a row may have nothing there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nullable: Option<bool>,
    /// How it is best shown, in JSON Schema's words where there is one: `date`, `uri`, `currency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// What it means, for people and models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl ColumnDefinition {
    /// A column of this name and type.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Self {
        Self { name: name.into(), kind, nullable: None, format: None, description: None }
    }

    /// A column of text.
    pub fn string(name: impl Into<String>) -> Self {
        Self::new(name, ColumnType::String)
    }

    /// A column of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self::new(name, ColumnType::Number)
    }

    /// A column of whole numbers.
    pub fn integer(name: impl Into<String>) -> Self {
        Self::new(name, ColumnType::Integer)
    }

    /// A column of `true` and `false`.
    pub fn boolean(name: impl Into<String>) -> Self {
        Self::new(name, ColumnType::Boolean)
    }

    /// Says that a row may have nothing there.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = Some(true);
        self
    }

    /// Says how it is best shown.
    #[must_use]
    pub fn with_format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// Says what it means.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

/// What is in a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum ColumnType {
    /// `string`: text.
    String,
    /// `number`: a number.
    Number,
    /// `integer`: a whole number.
    Integer,
    /// `boolean`: `true` or `false`.
    Boolean,
    /// `date`: a day, `2025-01-15`.
    Date,
    /// `timestamp`: a moment, RFC 3339.
    Timestamp,
    /// `json`: anything.
    Json,
    /// What another house calls it.
    Other(String),
}

impl ColumnType {
    /// Its name on the wire.
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
