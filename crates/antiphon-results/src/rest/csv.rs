//! Rows as CSV (RFC 4180).

use std::{collections::HashMap, fmt::Write as _};

use http::HeaderValue;
use serde_json::{Value, value::RawValue};

use crate::{
    column::ColumnDefinition,
    error::{DualResponseError, Result},
    rows::{Row, Rows},
};

/// A converter that writes rows as CSV.
pub(super) struct Table {
    columns: Vec<String>,
    /// If `true`, cells that a spreadsheet would run as a formula are escaped.
    safe: bool,
}

impl Table {
    /// Creates a table with the declared columns. If no columns are declared, the table has the columns of the first
    /// row.
    pub(super) fn new(columns: &[ColumnDefinition], first: Option<&Rows>, safe: bool) -> Result<Self> {
        let mut names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        if let Some(row) = first.and_then(|rows| rows.get(0))
            && names.is_empty()
        {
            names = serde_json::from_str::<Row>(row)
                .map_err(unreadable)?
                .into_iter()
                .map(|(name, _)| name)
                .collect();
        }
        Ok(Self { columns: names, safe })
    }

    /// Returns the line with the column names.
    pub(super) fn head(&self) -> String {
        let mut line = String::new();
        for (at, name) in self.columns.iter().enumerate() {
            if at > 0 {
                line.push(',');
            }
            self.text(name, &mut line);
        }
        line.push_str("\r\n");
        line
    }

    /// Returns one CSV line for each row.
    pub(super) fn rows(&self, rows: &Rows) -> Result<String> {
        let mut lines = String::with_capacity(rows.bytes());
        for row in rows.iter() {
            let cells: HashMap<String, &RawValue> = serde_json::from_str(row).map_err(unreadable)?;
            for (at, name) in self.columns.iter().enumerate() {
                if at > 0 {
                    lines.push(',');
                }
                match cells.get(name).map(|cell| cell.get()) {
                    Some("null") | None if self.columns.len() > 1 => {}
                    // CSV readers skip empty lines, so a row with a single empty cell is written as quotes.
                    Some("null") | None => lines.push_str("\"\""),
                    Some(cell) => self.cell(cell, &mut lines)?,
                }
            }
            lines.push_str("\r\n");
        }
        Ok(lines)
    }

    /// Writes a cell: numbers and booleans unchanged, text without JSON escapes, and nested values as JSON.
    fn cell(&self, json: &str, line: &mut String) -> Result<()> {
        match json.as_bytes().first() {
            Some(b'"') => self.text(&serde_json::from_str::<String>(json).map_err(unreadable)?, line),
            Some(b'{' | b'[') => {
                let value: Value = serde_json::from_str(json).map_err(unreadable)?;
                self.text(&value.to_string(), line);
            }
            _ => line.push_str(json),
        }
        Ok(())
    }

    fn text(&self, text: &str, line: &mut String) {
        let runs = self.safe && text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number(text);
        // Quotes distinguish an empty text from a missing value.
        let quoted = text.is_empty() || text.contains([',', '"', '\r', '\n']);
        if quoted {
            line.push('"');
        }
        if runs {
            line.push('\'');
        }
        for (at, part) in text.split('"').enumerate() {
            if at > 0 {
                line.push_str("\"\"");
            }
            line.push_str(part);
        }
        if quoted {
            line.push('"');
        }
    }
}

/// Returns whether the text is a plain decimal number, as databases write it: `-12.50`. Spreadsheets do not run plain
/// decimal numbers as formulas.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    [whole, fraction].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

fn unreadable(error: serde_json::Error) -> DualResponseError {
    DualResponseError::Query(error.into())
}

/// Maximum length of a file name, in characters.
const MAX_NAME: usize = 100;

/// Returns the `Content-Disposition` header. The plain file name contains no characters that have a meaning in a
/// shell, a path or a header. A second form of the file name (`filename*`) contains all letters of the name.
pub(super) fn disposition(name: &str, ending: &str) -> HeaderValue {
    let clean = |plain: bool| {
        let letter = |letter: char| letter.is_alphanumeric() && (!plain || letter.is_ascii());
        let kept = name.chars().take(MAX_NAME).map(|found| match found {
            ' ' | '-' | '_' => found,
            found if letter(found) => found,
            _ => '_',
        });
        let kept = kept.collect::<String>().trim_matches([' ', '-']).to_owned();
        if kept.chars().all(|found| found == '_') { "rows".to_owned() } else { kept }
    };
    let mut text = format!("attachment; filename=\"{}.{ending}\"; filename*=UTF-8''", clean(true));
    for byte in clean(false).bytes() {
        // Writing to a `String` does not fail.
        let _ = match byte {
            b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => write!(text, "{}", char::from(byte)),
            _ => write!(text, "%{byte:02X}"),
        };
    }
    text.push('.');
    text.push_str(ending);
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("attachment"))
}
