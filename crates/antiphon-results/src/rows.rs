use std::fmt;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, value::RawValue};

/// One row: an object whose members are the columns.
pub type Row = Map<String, Value>;

/// Rows that are JSON already.
///
/// A page is made by a database and read by a browser; nobody between them looks into the rows. So they
/// are written once, as text, and copied from there on.
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
    /// The rows with commas between: the inside of a JSON array. Invariant: no row has a line break in it.
    json: String,
    /// Where each row ends.
    ends: Vec<usize>,
}

impl Rows {
    /// No rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row: anything that is written as a JSON object.
    ///
    /// # Errors
    ///
    /// When it is not.
    pub fn push<T: Serialize + ?Sized>(&mut self, row: &T) -> Result<(), serde_json::Error> {
        self.push_json(&serde_json::to_string(row)?)
    }

    /// Adds a row that is JSON already: the text of one object.
    ///
    /// # Errors
    ///
    /// When it does not begin and end like one. What is between is taken as it is, so give it only what a
    /// JSON writer has written.
    pub fn push_json(&mut self, row: &str) -> Result<(), serde_json::Error> {
        let row = row.trim_ascii();
        if !(row.starts_with('{') && row.ends_with('}')) {
            return Err(serde::de::Error::custom("a row must be a JSON object"));
        }
        // Bytes are looked for faster than characters are.
        let breaks = row.as_bytes().contains(&b'\n') || row.as_bytes().contains(&b'\r');
        if breaks {
            // Before anything is added: what is refused must leave nothing behind.
            serde_json::from_str::<&RawValue>(row)?;
        }
        if !self.ends.is_empty() {
            self.json.push(',');
        }
        if breaks {
            // Between members a writer may break lines, where a space will do; within text it cannot.
            self.json.push_str(&row.replace(['\n', '\r'], " "));
        } else {
            self.json.push_str(row);
        }
        self.ends.push(self.json.len());
        Ok(())
    }

    /// Reads the rows of a JSON array without looking into them.
    ///
    /// # Errors
    ///
    /// When it is no array of objects.
    pub fn from_json_array(array: &str) -> Result<Self, serde_json::Error> {
        let items: Vec<&RawValue> = serde_json::from_str(array)?;
        let mut rows =
            Self { json: String::with_capacity(array.len()), ends: Vec::with_capacity(items.len()) };
        for item in items {
            rows.push_json(item.get())?;
        }
        Ok(rows)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many bytes they are, as the inside of an array.
    pub fn bytes(&self) -> usize {
        self.json.len()
    }

    /// The row at this place, as JSON.
    pub fn get(&self, at: usize) -> Option<&str> {
        let end = *self.ends.get(at)?;
        let start = if at == 0 { 0 } else { self.ends[at - 1] + 1 };
        Some(&self.json[start..end])
    }

    /// The rows, each as JSON.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        (0..self.len()).map(|at| self.get(at).expect("every place below the length has a row"))
    }

    /// All of them with commas between: what stands between the brackets of a JSON array.
    pub fn as_json(&self) -> &str {
        &self.json
    }

    /// Keeps the first `len` rows.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.json.truncate(if len == 0 { 0 } else { self.ends[len - 1] });
            self.ends.truncate(len);
        }
    }

    /// Up to `limit` rows from `offset` on.
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

    /// Reads the rows into what you need.
    ///
    /// # Errors
    ///
    /// When a row is something else.
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

/// Anything that is written as an object: maps, values, structs.
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
