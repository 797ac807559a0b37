//! Plain text tables with aligned columns.

use std::fmt::{self, Write as _};

/// Rows under a header; the first column is left-aligned, the others right-aligned.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this header.
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        Self::of(&header)
    }

    /// A table with a header of any length.
    pub fn of(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().copied().map(String::from).collect()] }
    }

    /// Adds a row of any length.
    pub fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.push(Vec::from(cells));
    }

    /// The same for a page.
    pub fn to_markdown(&self) -> String {
        let mut page = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            page.extend(["| ", &row.join(" | "), " |\n"]);
            if number == 0 {
                page.extend(["|---", &"|---:".repeat(row.len().saturating_sub(1)), "|\n"]);
            }
        }
        page
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(line, "{cell:<width$}")?;
                } else {
                    write!(line, "  {cell:>width$}")?;
                }
            }
            writeln!(f, "  {}", line.trim_end())?;
            if number == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                writeln!(f, "  {}", rule.join("  "))?;
            }
        }
        Ok(())
    }
}

/// A whole number with commas between thousands.
pub fn thousands(digits: &str) -> String {
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        let left = digits.len() - place;
        if place > 0 && left.is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
