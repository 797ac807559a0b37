//! `antiphon results export`.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, BufWriter, IsTerminal as _, Write},
    path::{Path, PathBuf},
};

use antiphon_results::{
    Row, Rows, Sort,
    client::{ParsedDualResponse, StreamOptions},
};
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use futures_util::StreamExt as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::{count, csv, set, set::Set, sort, table};
use crate::{
    app::App,
    exit::{Misused, Outcome},
    print,
};

/// Write all rows of a result set to a file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon results export http://127.0.0.1:3001/resources/abc123 --format csv --output all.csv
  antiphon results export answer.json --origin http://127.0.0.1:3001 | jq .name")]
pub(crate) struct Export {
    #[command(flatten)]
    set: Set,
    /// How rows are written [default: as the file's name ends, or ndjson].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over a file that is there.
    #[arg(long, requires = "output")]
    force: bool,
    /// The column to sort by; `name:desc` begins with the greatest.
    #[arg(long, value_name = "COLUMN[:desc]", value_parser = sort)]
    sort: Option<Sort>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for spreadsheets.
    Csv,
    /// An object a line.
    Ndjson,
    /// One array of objects.
    Json,
}

/// How many rows come at a time.
const BATCH: u64 = 1_000;

impl Export {
    pub(crate) async fn run(&self, app: &App) -> Result<Outcome> {
        let set = self.set.open().await?;
        let Some(path) = &self.output else {
            let (mut out, bar) = (BufWriter::new(io::stdout().lock()), ProgressBar::hidden());
            return match self.write(&set, &mut out, &bar).await {
                // Whoever reads it has had enough (`| head`).
                Err(error) if is_closed(&error) => Ok(Outcome::Done),
                written => written.map(|_| Outcome::Done),
            };
        };
        if path.exists() && !self.force {
            let message = format!("{} is there already; say `--force` to write over it", path.display());
            return Err(Misused(message).into());
        }
        // Whole or not at all: a file that stops in the middle looks like one that does not.
        let part = partial(path);
        let unwritable = || format!("{} cannot be written", part.display());
        let mut out = BufWriter::new(File::create(&part).with_context(unwritable)?);
        let bar = self.bar(&set).await;
        let written = self.write(&set, &mut out, &bar).await;
        bar.finish_and_clear();
        let rows = match written {
            Ok(rows) => rows,
            Err(error) => {
                let _ = std::fs::remove_file(&part);
                return Err(error);
            }
        };
        drop(out);
        std::fs::rename(&part, path).with_context(|| format!("{} cannot be written", path.display()))?;
        if app.json {
            let written = json!({"rows": rows, "file": path.display().to_string()});
            print::line(&format!("{written:#}"));
        } else {
            eprintln!("{} rows are in {}", table::grouped(rows), path.display());
        }
        Ok(Outcome::Done)
    }

    fn format(&self) -> Format {
        let ends = self.output.as_deref().and_then(Path::extension).and_then(|it| it.to_str());
        self.format.unwrap_or(match ends {
            Some("csv") => Format::Csv,
            Some("json") => Format::Json,
            _ => Format::Ndjson,
        })
    }

    async fn bar(&self, set: &ParsedDualResponse) -> ProgressBar {
        if !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(count(set).await, ProgressDrawTarget::stderr());
        let style = "{bar:30} {human_pos} of {human_len} rows, {per_sec}, {eta} left";
        bar.with_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    /// Writes all rows, and says how many there were.
    async fn write(&self, set: &ParsedDualResponse, out: &mut impl Write, bar: &ProgressBar) -> Result<u64> {
        let mut options = StreamOptions::new().with_batch_size(BATCH);
        if let Some(sort) = self.sort.clone() {
            options = options.with_sort(sort);
        }
        let mut writer = Writer::new(self.format());
        if writer.format == Format::Csv {
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
}

/// Writes rows one after the other.
struct Writer {
    format: Format,
    /// The columns of a table.
    columns: Vec<String>,
    /// Whether the server said which columns there are. If not, they are those of the first rows.
    declared: bool,
    rows: u64,
}

impl Writer {
    fn new(format: Format) -> Self {
        Self { format, columns: Vec::new(), declared: false, rows: 0 }
    }

    fn declare(&mut self, columns: impl Iterator<Item = String>) {
        self.columns = columns.collect();
        self.declared = !self.columns.is_empty();
    }

    fn batch(&mut self, rows: &Rows, out: &mut impl Write) -> Result<()> {
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
            }
            self.rows += 1;
        }
        Ok(())
    }

    /// The head is written already: what comes later and is not in it would be lost.
    fn check(&self, row: &HashMap<String, &RawValue>) -> Result<()> {
        match row.keys().find(|name| !self.declared && !self.columns.contains(name)) {
            None => Ok(()),
            Some(name) => bail!(
                "row {} has a column `{name}` that the first rows do not have, and the server does not say which there are; export with `--format ndjson` or `--format json`",
                table::grouped(self.rows + 1)
            ),
        }
    }

    fn head(&self, out: &mut impl Write) -> Result<()> {
        let names: Vec<Box<RawValue>> = self.columns.iter().map(to_raw_value).collect::<Result<_, _>>()?;
        Ok(out.write_all(csv::line(names.iter().map(|name| Some(&**name))).as_bytes())?)
    }

    /// What comes after the last row; of no rows, what there is nevertheless.
    fn end(&self, out: &mut impl Write) -> Result<()> {
        match self.format {
            Format::Json if self.rows == 0 => writeln!(out, "[]")?,
            Format::Json => writeln!(out, "\n]")?,
            Format::Csv if self.rows == 0 && !self.columns.is_empty() => self.head(out)?,
            _ => {}
        }
        Ok(())
    }
}

/// Every column of these rows, in the order in which they come up.
fn columns_of(rows: &Rows) -> Result<Vec<String>> {
    let mut columns = Vec::new();
    let mut seen = HashSet::new();
    for row in rows.iter() {
        let row: Row = serde_json::from_str(row).context("a row is not JSON")?;
        columns.extend(row.into_iter().map(|(name, _)| name).filter(|name| seen.insert(name.clone())));
    }
    Ok(columns)
}

/// Whether nobody reads any more what is written.
fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

#[cfg(test)]
mod tests {
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
