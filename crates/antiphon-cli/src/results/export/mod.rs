//! `antiphon results export`: exports all rows of a result set to a file.

mod bar;
mod part;
mod rows;
mod save;

use std::{
    io::{self, BufWriter, IsTerminal as _},
    path::{Path, PathBuf},
};

use antiphon_results::{
    ColumnDefinition,
    client::{ExportOptions, ParsedDualResponse},
    snapshot::ExportFormat,
};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;

use self::{bar::Bar, part::Part};
use super::{
    page::Manifest,
    set::{Remote, Set},
    table,
    view::View,
};
use crate::{
    exit::{Misused, Outcome},
    global::App,
    print,
};

/// Export all rows of a result set to a file.
///
/// If the connection breaks, the CLI reconnects and continues. An interrupted export stays as `FILE.part`, and
/// `--resume` continues it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon results export http://127.0.0.1:3001/resources/abc123 --output all.parquet
  antiphon results export http://127.0.0.1:3001/resources/abc123 --output all.parquet --resume
  antiphon results export URL -o large.csv --filter 'amount>=100' --sort=-amount --columns id,amount
  antiphon results export answer.json --origin http://127.0.0.1:3001 | jq .name")]
pub(crate) struct Export {
    #[command(flatten)]
    set: Set,
    /// Set the format of the rows [default: from the file's extension, or ndjson].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write to this file. `-` is standard output [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long, requires = "output")]
    force: bool,
    /// Continue an interrupted export. Otherwise start a new one.
    #[arg(long, requires = "output")]
    resume: bool,
    #[command(flatten)]
    view: View,
    /// Write only these columns, in this order [default: all].
    #[arg(long, value_delimiter = ',')]
    columns: Vec<String>,
}

/// The format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// CSV, for spreadsheets.
    Csv,
    /// One JSON object per line.
    Ndjson,
    /// One JSON array of objects.
    Json,
    /// An Arrow IPC stream.
    Arrow,
    /// Parquet. For all rows, this is the file that the server stores.
    Parquet,
    /// An Excel workbook.
    Xlsx,
}

impl Format {
    fn of(ending: &str) -> Self {
        match ending {
            "csv" => Self::Csv,
            "json" => Self::Json,
            "arrow" | "arrows" | "ipc" => Self::Arrow,
            "parquet" => Self::Parquet,
            "xlsx" => Self::Xlsx,
            _ => Self::Ndjson,
        }
    }

    /// Returns the format to request from the server. The CLI builds a JSON array from NDJSON lines.
    fn asked(self) -> ExportFormat {
        match self {
            Self::Csv => ExportFormat::Csv,
            Self::Ndjson | Self::Json => ExportFormat::Ndjson,
            Self::Arrow => ExportFormat::Arrow,
            Self::Parquet => ExportFormat::Parquet,
            Self::Xlsx => ExportFormat::Xlsx,
        }
    }

    fn is_text(self) -> bool {
        match self {
            Self::Csv | Self::Ndjson | Self::Json => true,
            Self::Arrow | Self::Parquet | Self::Xlsx => false,
        }
    }
}

/// The size of an export.
struct Written {
    rows: Option<u64>,
    bytes: Option<u64>,
}

impl Export {
    pub(crate) async fn run(&self, app: &App) -> Result<Outcome> {
        let (format, file) = (self.format(), self.file());
        self.check(format, file)?;
        let remote = self.set.reach().await?;
        let manifest = remote.manifest().await?.map(|(manifest, _)| manifest);
        let written = match self.route(format, manifest)? {
            Some(manifest) => self.download(&remote, format, &manifest, file).await,
            None => self.fetch(&remote.set, format, file).await,
        };
        let written = match written {
            // The reader closed the pipe, for example `| head`.
            Err(error) if file.is_none() && is_closed(&error) => return Ok(Outcome::Done),
            written => written?,
        };
        if let Some(file) = file {
            written.tell(app, file);
        }
        Ok(Outcome::Done)
    }

    fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    fn format(&self) -> Format {
        let ending = self.file().and_then(Path::extension).and_then(|ending| ending.to_str());
        self.format.unwrap_or_else(|| Format::of(&ending.unwrap_or_default().to_ascii_lowercase()))
    }

    fn check(&self, format: Format, file: Option<&Path>) -> Result<(), Misused> {
        self.view.check()?;
        match file {
            Some(path) if path.exists() && !self.force => {
                Err(Misused(format!("{} already exists; use `--force` to overwrite it", path.display())))
            }
            None if !format.is_text() && io::stdout().is_terminal() => {
                Err(Misused("this format is binary; write it to a file with `--output`".to_owned()))
            }
            None if self.resume => Err(Misused("`--resume` needs `--output` with a file".to_owned())),
            Some(_) if self.resume && format == Format::Json => {
                Err(Misused("an export as `json` cannot be resumed; use `--format ndjson`".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the manifest if the server can export the file, or `None` if the server only returns rows.
    fn route(&self, format: Format, manifest: Option<Manifest>) -> Result<Option<Manifest>> {
        let Some(manifest) = manifest else {
            if format.is_text() && !self.view.is_rich() && self.columns.is_empty() && !self.resume {
                return Ok(None);
            }
            bail!(
                "the result set does not exist, or its rows are not saved as a snapshot; to export rows \
                 without a snapshot, use csv, ndjson or json, sort by at most one column, and omit \
                 `--filter`, `--columns` and `--resume`"
            );
        };
        if manifest.status == "failed" {
            let why = manifest.failure.as_deref().unwrap_or("the server returned no reason");
            bail!("the rows of this result set could not be saved: {why}");
        }
        let asked = format.asked().name();
        if !manifest.formats.iter().any(|known| known == asked) {
            let known = manifest.formats.join(", ");
            return Err(Misused(format!("the server cannot write {asked}; use one of {known}")).into());
        }
        let known = |name: &&String| manifest.columns.iter().any(|column| column.name == **name);
        if let Some(name) = self.columns.iter().find(|name| !manifest.columns.is_empty() && !known(name)) {
            let names: Vec<&str> = manifest.columns.iter().map(|column| &*column.name).collect();
            return Err(Misused(format!(
                "column `{name}` does not exist; the columns are {}",
                names.join(", ")
            ))
            .into());
        }
        if let Some(limit) = &manifest.truncated {
            let limit = print::first_line(limit);
            eprintln!("warning: this set is truncated: the server reached its limit ({limit})");
        }
        Ok(Some(manifest))
    }

    /// Fetches rows page by page and writes them.
    async fn fetch(&self, set: &ParsedDualResponse, format: Format, file: Option<&Path>) -> Result<Written> {
        let Some(path) = file else {
            let (mut out, bar) = (BufWriter::new(io::stdout().lock()), ProgressBar::hidden());
            let rows = rows::write(set, &self.view, format, &mut out, &bar).await?;
            return Ok(Written { rows: Some(rows), bytes: None });
        };
        let mut part = Part::begin(path)?;
        let bar = bar::of_rows(set.metadata().await.ok().map(|metadata| metadata.total_count));
        let rows = rows::write(set, &self.view, format, &mut part, &bar).await;
        bar.finish_and_clear();
        let written = Written { rows: Some(rows?), bytes: Some(part.length()) };
        part.finish()?;
        Ok(written)
    }

    /// Downloads the file that the server exports.
    async fn download(
        &self,
        remote: &Remote,
        format: Format,
        manifest: &Manifest,
        file: Option<&Path>,
    ) -> Result<Written> {
        remote.waiting.says(self.view.waiting());
        let options = ExportOptions::new()
            .with_sort(self.view.sort().iter().cloned())
            .with_filter(self.view.filters(&manifest.columns)?)
            .with_columns(&self.columns);
        let export = save::Source { set: &remote.set, format, options };
        let rows = manifest.rows.filter(|_| manifest.exact && self.view.is_all());
        match file {
            None => {
                let mut out = BufWriter::new(io::stdout().lock());
                let rows = save::pour(&export, &mut out, &Bar::hidden()).await?;
                Ok(Written { rows, bytes: None })
            }
            Some(path) if format == Format::Json => {
                let mut part = Part::begin(path)?;
                let rows = save::pour(&export, &mut part, &Bar::new(None, rows)).await?;
                let written = Written { rows, bytes: Some(part.length()) };
                part.finish()?;
                Ok(written)
            }
            Some(path) => {
                // The query string can contain a signed link, which must not be written to a file.
                let set = remote.set.resource_url()?.split('?').next().unwrap_or_default().to_owned();
                let request = self.request(format, &manifest.columns)?;
                save::Save { path, set, request, resume: self.resume, rows }.run(&export).await
            }
        }
    }

    /// Returns all parameters that determine the bytes of the export, as text. An incomplete file is resumed only if
    /// all these parameters are unchanged.
    fn request(&self, format: Format, columns: &[ColumnDefinition]) -> Result<String> {
        let mut query = vec![("format", format.asked().name().to_owned())];
        query.extend(self.view.query(columns)?);
        if !self.columns.is_empty() {
            query.push(("columns", self.columns.join(",")));
        }
        let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(query.join("&"))
    }
}

impl Written {
    fn tell(&self, app: &App, file: &Path) {
        if app.json {
            let written = json!({"rows": self.rows, "bytes": self.bytes, "file": file.display().to_string()});
            print::json(&format!("{written:#}"));
            return;
        }
        let bytes = self.bytes.map(HumanBytes);
        match (self.rows, bytes) {
            (Some(rows), _) => eprintln!("{} rows are in {}", table::grouped(rows), file.display()),
            (None, Some(bytes)) => eprintln!("{bytes} are in {}", file.display()),
            (None, None) => {}
        }
    }
}

/// Returns whether the reader closed standard output.
fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_export_format_can_be_written() {
        for format in ExportFormat::ALL {
            assert_eq!(Format::of(format.name()).asked(), format);
        }
    }
}
