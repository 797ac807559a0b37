//! Conversion of text and JSON values into HTML. This module escapes all text that it puts into the HTML.

use std::fmt::{self, Write as _};

use serde_json::Value;

/// The maximum number of characters of a value that the web page shows directly. If a value is longer, the user must
/// expand the value to read its end.
const LONG: usize = 300;

/// Text that is escaped when it is written into an HTML element or into a quoted attribute.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                character => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Returns an HTML table of names and values. `attributes` are the HTML attributes of the table.
pub(super) fn table(attributes: &str, rows: impl Iterator<Item = (String, String)>) -> String {
    let mut table = format!("<dl{attributes}>");
    for (name, value) in rows {
        let (name, value) = (Escaped(&name), folded(&value));
        let _ = write!(table, "<dt dir=\"auto\">{name}</dt><dd dir=\"auto\">{value}</dd>");
    }
    table.push_str("</dl>");
    table
}

/// Returns a value as HTML. If the value is long, the user must expand the value to read its end.
pub(super) fn folded(value: &str) -> String {
    match value.char_indices().nth(LONG) {
        None => format!("<span>{}</span>", Escaped(value)),
        Some((at, _)) => format!(
            "<details><summary><span>{}…</span></summary><span>{}</span></details>",
            Escaped(&value[..at]),
            Escaped(value)
        ),
    }
}

/// Returns a JSON value as plain text.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}
