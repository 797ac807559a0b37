//! Exports rows page by page, for servers that cannot export files.

use std::{
    collections::{HashMap, HashSet},
    io::Write,
};

use antiphon_results::{
    Row, Rows,
    client::{ParsedDualResponse, StreamOptions},
};
use anyhow::{Context as _, Result, bail};
use futures_util::StreamExt as _;
use indicatif::ProgressBar;
use serde_json::value::{RawValue, to_raw_value};

use super::{
    super::{csv, set, table, view::View},
    Format,
};

/// The number of rows per request.
const BATCH: u64 = 1_000;

/// Writes all rows and returns their number.
pub(super) async fn write(
    set: &ParsedDualResponse,
    view: &View,
    format: Format,
    out: &mut impl Write,
    bar: &ProgressBar,
) -> Result<u64> {
    let mut options = StreamOptions::new().with_batch_size(BATCH);
    if let Some(sort) = view.sort().first() {
        options = options.with_sort(sort.clone());
    }
    let mut writer = Writer::new(format);
    if format == Format::Csv {
        writer.declare(set::columns(set).await.into_iter().map(|column| column.name));
    }
    let mut batches = set.fetch_stream_text(options);
    while let Some(rows) = batches.next().await {
        writer.batch(&rows?, out)?;
        bar.set_position(writer.rows);
    }
    writer.end(out)?;
    out.flush()?;
    Ok(writer.rows)
}

/// A writer that writes rows one after the other.
pub(super) struct Writer {
    format: Format,
    /// The columns of a CSV file.
    columns: Vec<String>,
    /// Whether the server declared the columns. If the server declared no columns, the columns come from the first
    /// rows.
    declared: bool,
    pub(super) rows: u64,
}

impl Writer {
    pub(super) fn new(format: Format) -> Self {
        Self { format, columns: Vec::new(), declared: false, rows: 0 }
    }

    fn declare(&mut self, columns: impl Iterator<Item = String>) {
        self.columns = columns.collect();
        self.declared = !self.columns.is_empty();
    }

    pub(super) fn batch(&mut self, rows: &Rows, out: &mut impl Write) -> Result<()> {
        if self.format == Format::Csv && self.rows == 0 && !rows.is_empty() {
            if !self.declared {
                self.columns = columns_of(rows)?;
            }
            self.head(out)?;
        }
        for row in rows.iter() {
            match self.format {
                Format::Ndjson => writeln!(out, "{row}")?,
                Format::Json => write!(out, "{}{row}", if self.rows == 0 { "[\n" } else { ",\n" })?,
                Format::Csv => {
                    let row: HashMap<String, &RawValue> =
                        serde_json::from_str(row).context("a row is not JSON")?;
                    self.check(&row)?;
                    let cells = self.columns.iter().map(|name| row.get(name).copied());
                    out.write_all(csv::line(cells).as_bytes())?;
                }
                Format::Arrow | Format::Parquet | Format::Xlsx => bail!(
                    "the CLI cannot write this format: use `--format csv`, `json` or `ndjson`, or export a saved result set"
                ),
            }
            self.rows += 1;
        }
        Ok(())
    }

    /// Checks that the header contains all columns of the row. The CSV header is already written, so the values of a
    /// missing column would be lost.
    fn check(&self, row: &HashMap<String, &RawValue>) -> Result<()> {
        match row.keys().find(|name| !self.declared && !self.columns.contains(name)) {
            None => Ok(()),
            Some(name) => bail!(
                "row {} has a column `{name}` that the first rows do not have, and the server does not declare its columns; export with `--format ndjson` or `--format json`",
                table::grouped(self.rows + 1)
            ),
        }
    }

    fn head(&self, out: &mut impl Write) -> Result<()> {
        let names: Vec<Box<RawValue>> = self.columns.iter().map(to_raw_value).collect::<Result<_, _>>()?;
        Ok(out.write_all(csv::line(names.iter().map(|name| Some(&**name))).as_bytes())?)
    }

    /// Writes the end of the file. If the set has no rows, writes an empty array or the CSV header.
    pub(super) fn end(&self, out: &mut impl Write) -> Result<()> {
        match self.format {
            Format::Json if self.rows == 0 => writeln!(out, "[]")?,
            Format::Json => writeln!(out, "\n]")?,
            Format::Csv if self.rows == 0 && !self.columns.is_empty() => self.head(out)?,
            _ => {}
        }
        Ok(())
    }
}

/// Returns all columns of these rows, in the order in which they first appear.
fn columns_of(rows: &Rows) -> Result<Vec<String>> {
    let mut columns = Vec::new();
    let mut seen = HashSet::new();
    for row in rows.iter() {
        let row: Row = serde_json::from_str(row).context("a row is not JSON")?;
        columns.extend(row.into_iter().map(|(name, _)| name).filter(|name| seen.insert(name.clone())));
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(rows: &[serde_json::Value]) -> Rows {
        let mut all = Rows::new();
        for row in rows {
            all.push(row).unwrap();
        }
        all
    }

    #[test]
    fn no_column_is_lost_where_the_server_declares_none() {
        let (mut writer, mut out) = (Writer::new(Format::Csv), Vec::new());
        writer.batch(&rows(&[json!({"a": 1}), json!({"a": 2, "b": 3})]), &mut out).unwrap();
        writer.batch(&rows(&[json!({"b": 4})]), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a,b\r\n1,\r\n2,3\r\n,4\r\n");
        let error = writer.batch(&rows(&[json!({"a": 5, "late": 6})]), &mut Vec::new()).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("row 4 has a column `late`") && error.contains("ndjson"), "{error}");
    }

    #[test]
    fn columns_that_are_declared_are_the_columns() {
        let (mut writer, mut out) = (Writer::new(Format::Csv), Vec::new());
        writer.declare(["b".to_owned(), "a".to_owned()].into_iter());
        writer.batch(&rows(&[json!({"a": 1, "inner": true})]), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "b,a\r\n,1\r\n");
    }
}
