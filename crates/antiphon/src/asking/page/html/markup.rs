//! Text and values as HTML. All data is escaped.

use std::fmt::{self, Write as _};

use serde_json::Value;

/// If a value is longer than this number of characters, the page folds the value.
const LONG: usize = 300;

/// Text that is escaped for HTML, for elements and for quoted attributes.
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

/// Returns a table of names and values. `attributes` is HTML.
pub(super) fn table(attributes: &str, rows: impl Iterator<Item = (String, String)>) -> String {
    let mut table = format!("<dl{attributes}>");
    for (name, value) in rows {
        let (name, value) = (Escaped(&name), folded(&value));
        let _ = write!(table, "<dt dir=\"auto\">{name}</dt><dd dir=\"auto\">{value}</dd>");
    }
    table.push_str("</dl>");
    table
}

/// Returns a value as HTML. If the value is long, its end is folded.
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

/// Returns a value as text.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}
