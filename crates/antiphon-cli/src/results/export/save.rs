//! Writes the bytes of an export.

use std::{io::Write, path::Path};

use antiphon_results::{
    Rows,
    client::{Download, DualResponseClientError, ExportOptions, ParsedDualResponse},
};
use anyhow::{Context as _, Result, bail};
use futures_util::StreamExt as _;

use super::{
    Format, Written,
    bar::{Bar, Count},
    part::{Note, Part},
    rows::Writer,
};

/// The maximum number of times that an export starts again from its first byte.
const MOST_RESTARTS: u32 = 5;

/// The export to download.
pub(super) struct Source<'a> {
    pub(super) set: &'a ParsedDualResponse,
    pub(super) format: Format,
    pub(super) options: ExportOptions,
}

impl Source<'_> {
    /// Starts the download. `resume` contains a number of bytes and a validator. If `resume` is set, the download
    /// continues after the given number of bytes, provided that the file still has the given validator.
    async fn open(&self, resume: Option<(u64, String)>) -> Result<Download, DualResponseClientError> {
        let mut options = self.options.clone();
        if let Some((bytes, tag)) = resume {
            options = options.resuming(bytes, tag).or_restart();
        }
        self.set.export(self.format.asked(), &options).await
    }
}

/// An export that writes a file and that can be resumed.
pub(super) struct Save<'a> {
    pub(super) path: &'a Path,
    /// The URL of the result set. The CLI resumes an export only if this URL is unchanged.
    pub(super) set: String,
    /// The parameters of the export. The CLI resumes an export only if these parameters are unchanged.
    pub(super) request: String,
    /// Whether to resume an existing part.
    pub(super) resume: bool,
    /// The number of rows, if this number is known.
    pub(super) rows: Option<u64>,
}

impl Save<'_> {
    pub(super) async fn run(&self, source: &Source<'_>) -> Result<Written> {
        let resumed = if self.resume { Part::resume(self.path, &self.set, &self.request)? } else { None };
        let (mut part, mut count, mut resume) = match resumed {
            Some((part, note)) if part.length() > 0 && note.total == Some(part.length()) => {
                return self.finish(part, &Count::unknown());
            }
            Some((part, note)) => {
                let resume = (part.length(), note.etag);
                (part, Count::unknown(), Some(resume))
            }
            None => (Part::begin(self.path)?, Count::new(source.format), None),
        };
        for begun in 0_u32.. {
            let mut download = source.open(resume.take()).await?;
            if download.start() < part.length() {
                eprintln!("the data on the server has changed; the export starts again");
                count = Count::new(source.format);
                part.restart()?;
            }
            self.note(&mut part, &download)?;
            let bar = Bar::new(download.total(), self.rows.filter(|_| count.is_known()));
            bar.begin(part.length());
            let ended = loop {
                match download.next().await {
                    None => break Ok(()),
                    Some(Err(error)) => break Err(error),
                    Some(Ok(bytes)) => {
                        part.write_all(&bytes).context("the file cannot be written")?;
                        count.take(&bytes);
                        bar.at(part.length(), count.rows());
                    }
                }
            };
            match ended {
                Ok(()) => break,
                Err(error) if begun < MOST_RESTARTS && begins_again(&download, &error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.finish(part, &count)
    }

    fn finish(&self, part: Part, count: &Count) -> Result<Written> {
        let written = Written { rows: count.rows().or(self.rows), bytes: Some(part.length()) };
        part.finish()?;
        Ok(written)
    }

    /// Stores the information that is needed to resume. Without a validator, a later command could not detect whether
    /// the file has changed, so no information is stored.
    fn note(&self, part: &mut Part, download: &Download) -> Result<()> {
        let Some(etag) = download.tag() else { return part.forget() };
        let (set, request, etag) = (self.set.clone(), self.request.clone(), etag.to_owned());
        part.note(&Note { set, request, etag, total: download.total() })
    }
}

/// Returns whether a failed export can start again. An export can start again if the file on the server has changed. An
/// export can also start again if the connection broke, and the download has no validator for a resume.
fn begins_again(download: &Download, error: &DualResponseClientError) -> bool {
    let unanswered = error.status().is_none();
    matches!(error, DualResponseClientError::Changed) || (unanswered && download.tag().is_none())
}

/// Writes the export to standard output or into a JSON array. An export to standard output or into an array cannot be
/// resumed or started again, because written bytes cannot be withdrawn.
pub(super) async fn pour(source: &Source<'_>, out: &mut impl Write, bar: &Bar) -> Result<Option<u64>> {
    let format = source.format;
    let mut count = Count::new(format);
    let mut lines = (format == Format::Json).then(|| Lines { writer: Writer::new(format), rest: Vec::new() });
    let mut bytes_in = 0;
    let mut download = source.open(None).await?;
    while let Some(bytes) = download.next().await {
        let bytes = match bytes {
            Err(DualResponseClientError::Changed) => {
                bail!("the connection was lost, and the data on the server has changed; export again")
            }
            bytes => bytes?,
        };
        match &mut lines {
            Some(lines) => lines.take(&bytes, out)?,
            None => out.write_all(&bytes)?,
        }
        count.take(&bytes);
        bytes_in += bytes.len() as u64;
        bar.at(bytes_in, count.rows());
    }
    if let Some(lines) = &mut lines {
        lines.end(out)?;
    }
    out.flush()?;
    bar.end();
    Ok(count.rows())
}

/// Converts lines to a JSON array.
struct Lines {
    writer: Writer,
    /// The start of an incomplete line.
    rest: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], out: &mut impl Write) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        self.write(&whole, out)
    }

    fn end(&mut self, out: &mut impl Write) -> Result<()> {
        let last = std::mem::take(&mut self.rest);
        self.write(&last, out)?;
        self.writer.end(out)
    }

    fn write(&mut self, lines: &[u8], out: &mut impl Write) -> Result<()> {
        let mut rows = Rows::new();
        for line in std::str::from_utf8(lines).context("a row is not text")?.lines() {
            rows.push_json(line).context("a row is not JSON")?;
        }
        self.writer.batch(&rows, out)
    }
}
