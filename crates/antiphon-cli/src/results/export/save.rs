//! Where the bytes of an export go.

use std::{io::Write, path::Path};

use antiphon_results::Rows;
use anyhow::{Context as _, Result, bail};

use super::{
    Format, Written,
    bar::{Bar, Count},
    download::{Download, Piece},
    part::{Note, Part},
    rows::Writer,
};

/// Into a file, that can be gone on with.
pub(super) struct Save<'a> {
    pub(super) path: &'a Path,
    /// The set, for whoever goes on.
    pub(super) set: String,
    /// What is asked for, likewise.
    pub(super) request: String,
    /// Whether to go on with what is there.
    pub(super) resume: bool,
    pub(super) format: Format,
    /// How many rows there will be, if that is known.
    pub(super) rows: Option<u64>,
}

impl Save<'_> {
    pub(super) async fn run(&self, mut download: Download<'_>) -> Result<Written> {
        let resumed = if self.resume { Part::resume(self.path, &self.set, &self.request)? } else { None };
        let (mut part, mut count) = match resumed {
            Some((part, note)) => {
                download = download.after(part.length(), note.etag, note.total);
                (part, Count::unknown())
            }
            None => (Part::begin(self.path)?, Count::new(self.format)),
        };
        if download.open().await? {
            self.restart(&mut part, &mut count)?;
        }
        self.note(&mut part, &download)?;
        let bar = Bar::new(download.total(), self.rows.filter(|_| count.is_known()));
        bar.begin(part.length());
        while let Some(piece) = download.next().await? {
            match piece {
                Piece::Restart => {
                    self.restart(&mut part, &mut count)?;
                    self.note(&mut part, &download)?;
                }
                Piece::Bytes(bytes) => {
                    part.write_all(&bytes).context("the file cannot be written")?;
                    count.take(&bytes);
                }
            }
            bar.at(part.length(), count.rows());
        }
        bar.end();
        let written = Written { rows: count.rows().or(self.rows), bytes: Some(part.length()) };
        part.finish()?;
        Ok(written)
    }

    fn restart(&self, part: &mut Part, count: &mut Count) -> Result<()> {
        if part.length() > 0 {
            eprintln!("the server has something else now; the export begins again");
        }
        *count = Count::new(self.format);
        part.restart()
    }

    /// Without a validator nobody could tell later whether it is the same, so then there is no note.
    fn note(&self, part: &mut Part, download: &Download<'_>) -> Result<()> {
        let Some(etag) = download.tag() else { return part.forget() };
        let (set, request, etag) = (self.set.clone(), self.request.clone(), etag.to_owned());
        part.note(&Note { set, request, etag, total: download.total() })
    }
}

/// To whoever reads as it comes, or into an array. What was written cannot be taken back.
pub(super) async fn pour(
    mut download: Download<'_>,
    format: Format,
    out: &mut impl Write,
    bar: &Bar,
) -> Result<Option<u64>> {
    let mut count = Count::new(format);
    let mut lines = (format == Format::Json).then(|| Lines { writer: Writer::new(format), rest: Vec::new() });
    let mut bytes_in = 0;
    download.open().await?;
    while let Some(piece) = download.next().await? {
        let Piece::Bytes(bytes) = piece else {
            bail!("the connection broke, and the server has something else now; export again")
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

/// Lines that become an array.
struct Lines {
    writer: Writer,
    /// The beginning of a line whose end has not come.
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
