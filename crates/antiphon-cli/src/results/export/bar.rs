//! Shows the progress of an export.

use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{super::table::grouped, Format};

/// A progress bar for a terminal. If only the number of rows is known, the bar counts rows. If the number of bytes is
/// known, or if neither number is known, the bar counts bytes.
pub(super) struct Bar {
    bar: ProgressBar,
    by_rows: bool,
}

impl Bar {
    pub(super) fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), by_rows: false }
    }

    /// Creates a bar for an export of `bytes` bytes or `rows` rows.
    pub(super) fn new(bytes: Option<u64>, rows: Option<u64>) -> Self {
        let by_rows = bytes.is_none() && rows.is_some();
        let (length, style) = match (bytes, rows) {
            (Some(bytes), _) => {
                (Some(bytes), "{bar:30} {bytes} of {total_bytes}{msg}, {bytes_per_sec}, {eta} left")
            }
            (None, Some(rows)) => (Some(rows), "{bar:30} {human_pos} of {human_len} rows{msg}, {eta} left"),
            (None, None) => (None, "{spinner} {bytes}{msg}, {bytes_per_sec}"),
        };
        Self { bar: drawn(length, style), by_rows }
    }

    /// Sets the number of bytes that already exist. The displayed speed does not include these existing bytes.
    pub(super) fn begin(&self, bytes: u64) {
        if !self.by_rows {
            self.bar.set_position(bytes);
            self.bar.reset_eta();
        }
    }

    pub(super) fn at(&self, bytes: u64, rows: Option<u64>) {
        match (self.by_rows, rows) {
            (true, Some(rows)) => self.bar.set_position(rows),
            (true, None) => {}
            (false, rows) => {
                self.bar.set_position(bytes);
                if let Some(rows) = rows {
                    self.bar.set_message(format!(", {} rows", grouped(rows)));
                }
            }
        }
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Clears the bar, so that the next output does not follow a half-drawn line.
impl Drop for Bar {
    fn drop(&mut self) {
        self.end();
    }
}

/// Creates a bar that counts rows.
pub(super) fn of_rows(rows: Option<u64>) -> ProgressBar {
    drawn(rows, "{bar:30} {human_pos} of {human_len} rows, {per_sec}, {eta} left")
}

fn drawn(length: Option<u64>, style: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    bar.with_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A counter for the rows of an export. The counter reads the exported bytes of a text format.
pub(super) struct Count {
    rows: Option<u64>,
    /// The number of header lines, which are not rows.
    head: u64,
    quotes: bool,
    in_quotes: bool,
}

impl Count {
    pub(super) fn new(format: Format) -> Self {
        let table = format == Format::Csv;
        let rows = format.is_text().then_some(0);
        Self { rows, head: u64::from(table), quotes: table, in_quotes: false }
    }

    /// Creates a counter for an export whose first rows were not counted.
    pub(super) fn unknown() -> Self {
        Self { rows: None, head: 0, quotes: false, in_quotes: false }
    }

    pub(super) fn is_known(&self) -> bool {
        self.rows.is_some()
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        let Some(rows) = &mut self.rows else { return };
        for byte in bytes {
            match byte {
                b'"' if self.quotes => self.in_quotes = !self.in_quotes,
                b'\n' if !self.in_quotes => *rows += 1,
                _ => {}
            }
        }
    }

    pub(super) fn rows(&self) -> Option<u64> {
        self.rows.map(|rows| rows.saturating_sub(self.head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_whatever_is_in_them_and_wherever_they_are_cut() {
        let count = |format, text: &str| {
            let mut count = Count::new(format);
            for byte in text.as_bytes() {
                count.take(std::slice::from_ref(byte));
            }
            count.rows()
        };
        assert_eq!(count(Format::Csv, "a,b\r\n1,\"x\r\ny \"\"z\"\"\"\r\n2,\r\n"), Some(2));
        assert_eq!(count(Format::Csv, ""), Some(0));
        assert_eq!(count(Format::Ndjson, "{\"a\": \"\\n\"}\n{}\n"), Some(2));
        assert_eq!(count(Format::Parquet, "\n\n"), None);
    }
}
