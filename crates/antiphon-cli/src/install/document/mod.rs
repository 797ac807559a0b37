//! Parses configuration files, and edits their text so that only one entry changes.
//!
//! An edit inserts or removes text, and preserves all other bytes, including comments, order and white space. After an
//! edit, the old text and the new text are parsed and compared. If any value except the entry differs, the edit is
//! rejected.

mod json;
mod toml;
mod yaml;

use serde_json::{Map, Value, json};

/// The format of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON, with comments and trailing commas.
    Json,
    Toml,
    Yaml,
}

/// A parsed configuration file.
#[derive(Debug)]
pub(crate) struct Document {
    format: Format,
    text: String,
    value: Value,
}

impl Document {
    /// Parses a file. The error contains the reason and the position. The error does not contain text of the file,
    /// because the file can contain secrets.
    pub(crate) fn parse(format: Format, text: &str) -> Result<Self, String> {
        let value = format.parse(text)?;
        if !value.is_object() {
            return Err("the file is not an object with members".to_owned());
        }
        Ok(Self { format, text: text.to_owned(), value })
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the servers of the file, by name.
    pub(crate) fn servers(&self, keys: &[&str]) -> Option<&Map<String, Value>> {
        keys.iter().try_fold(&self.value, |value, key| value.get(key))?.as_object()
    }

    /// Returns the text with an entry added or replaced, or `None` if the file has a form that cannot be edited.
    pub(crate) fn with(&self, keys: &[&str], name: &str, entry: &Value) -> Option<String> {
        let expected = self.expected(keys, name, Some(entry))?;
        let text = match self.format {
            Format::Json => json::with(&self.text, keys, name, entry),
            Format::Toml => toml::with(&self.text, keys, name, entry),
            Format::Yaml => yaml::with(&self.text, keys, name, entry),
        }?;
        self.is_as(&text, expected, keys).then_some(text)
    }

    /// Returns the text without an entry, or `None` if the file has a form that cannot be edited.
    pub(crate) fn without(&self, keys: &[&str], name: &str) -> Option<String> {
        let expected = self.expected(keys, name, None)?;
        let text = match self.format {
            Format::Json => json::without(&self.text, keys, name),
            Format::Toml => toml::without(&self.text, keys, name),
            Format::Yaml => yaml::without(&self.text, keys, name),
        }?;
        self.is_as(&text, expected, keys).then_some(text)
    }

    /// Returns the value that the file must have after an edit.
    fn expected(&self, keys: &[&str], name: &str, entry: Option<&Value>) -> Option<Value> {
        let mut value = self.value.clone();
        let mut at = &mut value;
        for key in keys {
            let inner = at.as_object_mut()?.entry(*key).or_insert(Value::Null);
            if inner.is_null() {
                *inner = json!({});
            }
            at = inner;
        }
        let servers = at.as_object_mut()?;
        match entry {
            Some(entry) => servers.insert(name.to_owned(), entry.clone()),
            None => Some(servers.remove(name)?),
        };
        Some(value)
    }

    fn is_as(&self, text: &str, mut expected: Value, keys: &[&str]) -> bool {
        let Ok(mut value) = self.format.parse(text) else { return false };
        prune(&mut value, keys);
        prune(&mut expected, keys);
        value == expected
    }
}

impl Format {
    fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Json => json::parse(text),
            Self::Toml => toml::parse(text),
            Self::Yaml => yaml::parse(text),
        }
    }
}

/// Removes an empty list of servers, because an empty list has the same meaning as a missing list.
fn prune(value: &mut Value, keys: &[&str]) {
    let ([key, rest @ ..], Some(members)) = (keys, value.as_object_mut()) else { return };
    let Some(inner) = members.get_mut(*key) else { return };
    prune(inner, rest);
    if inner.is_null() || inner.as_object().is_some_and(Map::is_empty) {
        members.remove(*key);
    }
}

/// Returns the line break that a text uses.
fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Returns a text without the line break at its end.
fn without_newline(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}

/// Returns the line and the column of a position, both counted from 1.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_is_rejected_if_another_member_would_change() {
        let document = Document::parse(Format::Json, r#"{"a": 1, "m": {}}"#).unwrap();
        let expected = document.expected(&["m"], "desk", Some(&json!({}))).unwrap();
        assert!(document.is_as(r#"{"m": {"desk": {}}, "a": 1}"#, expected.clone(), &["m"]));
        assert!(!document.is_as(r#"{"m": {"desk": {}}, "a": 2}"#, expected.clone(), &["m"]));
        assert!(!document.is_as(r#"{"m": {"desk": {}}}"#, expected, &["m"]));
    }

    #[test]
    fn position_counts_lines_and_characters() {
        assert_eq!(position("ab\ncü d", 0), (1, 1));
        assert_eq!(position("ab\ncü d", 6), (2, 3));
        assert_eq!(position("ab", 99), (1, 3));
    }

    #[test]
    fn file_without_members_is_rejected() {
        for (format, text) in [(Format::Json, "[1]"), (Format::Yaml, "- a")] {
            assert!(Document::parse(format, text).unwrap_err().contains("not an object"));
        }
        for format in [Format::Json, Format::Toml, Format::Yaml] {
            assert!(Document::parse(format, "").is_ok(), "{format:?}");
        }
    }
}
