//! Encodes rows as CSV according to RFC 4180. For result sets without a snapshot, `rest/csv.rs` of `antiphon-results`
//! applies the same CSV rules.

use arrow::{
    array::{Array, AsArray as _, LargeStringArray, StringArray},
    datatypes::{DataType, SchemaRef},
    json::writer::{NullableEncoder, make_encoder},
    record_batch::RecordBatch,
};

use super::{super::json, Encode};
use crate::error::{Error, Result};

pub(super) struct Csv {
    schema: SchemaRef,
    /// If `true`, the encoder escapes cells that a spreadsheet would run as a formula.
    safe: bool,
}

impl Csv {
    pub(super) fn new(schema: &SchemaRef, safe: bool) -> Self {
        Self { schema: SchemaRef::clone(schema), safe }
    }

    fn text(&self, text: &str, out: &mut Vec<u8>) {
        let runs = self.safe && text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number(text);
        // Quotes distinguish an empty text from null.
        let quoted = text.is_empty() || text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n'));
        if quoted {
            out.push(b'"');
        }
        if runs {
            out.push(b'\'');
        }
        if quoted {
            for (at, part) in text.split('"').enumerate() {
                if at > 0 {
                    out.extend_from_slice(b"\"\"");
                }
                out.extend_from_slice(part.as_bytes());
            }
            out.push(b'"');
        } else {
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// Writes a JSON value as a CSV cell: text without JSON escapes, and all other values as JSON.
    fn cell(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let unreadable = |error: std::str::Utf8Error| Error::Broken(error.into());
        match cell {
            [b'"', plain @ .., b'"'] if !plain.contains(&b'\\') => {
                self.text(std::str::from_utf8(plain).map_err(unreadable)?, out);
            }
            [b'"', ..] => {
                let text: String =
                    serde_json::from_slice(cell).map_err(|error| Error::Broken(error.into()))?;
                self.text(&text, out);
            }
            [b'{' | b'[', ..] => self.text(std::str::from_utf8(cell).map_err(unreadable)?, out),
            _ => out.extend_from_slice(cell),
        }
        Ok(())
    }
}

/// Returns whether the text is a plain decimal number, such as `-12.50`. Spreadsheets do not run a plain decimal
/// number as a formula.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    [whole, fraction].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The source of the CSV cells of a column: text is written unchanged, and all other types are written as JSON.
enum Cells<'a> {
    Text(&'a StringArray),
    Long(&'a LargeStringArray),
    Json(NullableEncoder<'a>),
}

impl Encode for Csv {
    fn head(&mut self, out: &mut Vec<u8>) -> Result<()> {
        for (at, field) in self.schema.fields().iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            self.text(field.name(), out);
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let options = json::options();
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, array) in self.schema.fields().iter().zip(batch.columns()) {
            columns.push(match array.data_type() {
                DataType::Utf8 if !json::is_json(field) => Cells::Text(array.as_string()),
                DataType::LargeUtf8 if !json::is_json(field) => Cells::Long(array.as_string()),
                _ => Cells::Json(make_encoder(field, array, &options)?),
            });
        }
        let alone = columns.len() == 1;
        let mut scratch = Vec::new();
        for row in 0..batch.num_rows() {
            for (at, cells) in columns.iter_mut().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                let nothing = match cells {
                    Cells::Text(array) if array.is_null(row) => true,
                    Cells::Long(array) if array.is_null(row) => true,
                    Cells::Json(encoder) if encoder.is_null(row) => true,
                    Cells::Text(array) => {
                        self.text(array.value(row), out);
                        false
                    }
                    Cells::Long(array) => {
                        self.text(array.value(row), out);
                        false
                    }
                    Cells::Json(encoder) => {
                        scratch.clear();
                        encoder.encode(row, &mut scratch);
                        let nothing = scratch == b"null";
                        if !nothing {
                            self.cell(&scratch, out)?;
                        }
                        nothing
                    }
                };
                // CSV readers skip empty lines, so a row with a single null is written as quotes.
                if nothing && alone {
                    out.extend_from_slice(b"\"\"");
                }
            }
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }
}
