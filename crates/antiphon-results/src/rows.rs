use std::fmt;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, value::RawValue};

/// One row: a JSON object whose members are the columns.
pub type Row = Map<String, Value>;

/// Rows as JSON text.
///
/// Each row is serialized to JSON once. After a row is serialized, the server copies the JSON text of the row and does
/// not parse the text.
///
/// ```
/// use antiphon_results::Rows;
/// use serde_json::json;
///
/// let mut rows = Rows::new();
/// rows.push(&json!({"id": 1, "name": "Ada"}))?;
/// assert_eq!(rows.iter().collect::<Vec<_>>(), [r#"{"id":1,"name":"Ada"}"#]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// Rows with commas between them: the content of a JSON array. Invariant: no row contains a line break.
    json: String,
    /// Position in `json` at which each row ends.
    ends: Vec<usize>,
}

impl Rows {
    /// Creates an empty list of rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row: any value that serializes to a JSON object.
    ///
    /// # Errors
    ///
    /// Returns an error if the value does not serialize to a JSON object.
    pub fn push<T: Serialize + ?Sized>(&mut self, row: &T) -> Result<(), serde_json::Error> {
        self.push_json(&serde_json::to_string(row)?)
    }

    /// Adds a row that is already JSON: the text of one object.
    ///
    /// # Errors
    ///
    /// Returns an error if the text does not start with `{` and end with `}`. Also returns an error if the text has
    /// line breaks and is not valid JSON. The method does not check the rest of the text, so pass only the output of a
    /// JSON serializer.
    pub fn push_json(&mut self, row: &str) -> Result<(), serde_json::Error> {
        let row = row.trim_ascii();
        if !(row.starts_with('{') && row.ends_with('}')) {
            return Err(serde::de::Error::custom("a row must be a JSON object"));
        }
        // A search for bytes is faster than a search for characters.
        let breaks = row.as_bytes().contains(&b'\n') || row.as_bytes().contains(&b'\r');
        if breaks {
            // This check comes before any change, so that a rejected row leaves `self` unchanged.
            serde_json::from_str::<&RawValue>(row)?;
        }
        if !self.ends.is_empty() {
            self.json.push(',');
        }
        if breaks {
            // A JSON serializer breaks lines only between tokens, where a space has the same meaning.
            self.json.push_str(&row.replace(['\n', '\r'], " "));
        } else {
            self.json.push_str(row);
        }
        self.ends.push(self.json.len());
        Ok(())
    }

    /// Splits a JSON array into rows, without parsing the members of the rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a JSON array of objects.
    pub fn from_json_array(array: &str) -> Result<Self, serde_json::Error> {
        let items: Vec<&RawValue> = serde_json::from_str(array)?;
        let mut rows =
            Self { json: String::with_capacity(array.len()), ends: Vec::with_capacity(items.len()) };
        for item in items {
            rows.push_json(item.get())?;
        }
        Ok(rows)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns `true` if the list contains no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the size in bytes of all rows and the commas between them.
    pub fn bytes(&self) -> usize {
        self.json.len()
    }

    /// Returns the row at this index, as JSON.
    pub fn get(&self, at: usize) -> Option<&str> {
        let end = *self.ends.get(at)?;
        let start = if at == 0 { 0 } else { self.ends[at - 1] + 1 };
        Some(&self.json[start..end])
    }

    /// Returns an iterator over the rows, each as JSON.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        (0..self.len()).map(|at| self.get(at).expect("every place below the length has a row"))
    }

    /// Returns all rows with commas between them: the content of a JSON array, without the brackets.
    pub fn as_json(&self) -> &str {
        &self.json
    }

    /// Keeps the first `len` rows and removes all other rows.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.json.truncate(if len == 0 { 0 } else { self.ends[len - 1] });
            self.ends.truncate(len);
        }
    }

    /// Returns up to `limit` rows, starting at `offset`.
    #[must_use]
    pub fn slice(&self, offset: usize, limit: usize) -> Self {
        let start = offset.min(self.len());
        let end = start.saturating_add(limit).min(self.len());
        if start == end {
            return Self::new();
        }
        let from = if start == 0 { 0 } else { self.ends[start - 1] + 1 };
        let ends = self.ends[start..end].iter().map(|place| place - from).collect();
        Self { json: self.json[from..self.ends[end - 1]].to_owned(), ends }
    }

    /// Deserializes each row as a `T`.
    ///
    /// # Errors
    ///
    /// Returns an error if a row cannot be deserialized as a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>, serde_json::Error> {
        self.iter().map(serde_json::from_str).collect()
    }
}

impl TryFrom<Vec<Row>> for Rows {
    type Error = serde_json::Error;

    fn try_from(rows: Vec<Row>) -> Result<Self, serde_json::Error> {
        Self::try_from(&rows[..])
    }
}

/// Accepts all values that serialize to a JSON object, such as structs and maps.
impl<T: Serialize> TryFrom<&[T]> for Rows {
    type Error = serde_json::Error;

    fn try_from(rows: &[T]) -> Result<Self, serde_json::Error> {
        let mut all = Self::new();
        for row in rows {
            all.push(row)?;
        }
        Ok(all)
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("len", &self.len()).field("bytes", &self.bytes()).finish()
    }
}
