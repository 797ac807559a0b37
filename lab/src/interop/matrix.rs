//! The matrix: who, over what, on which revision, did what.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::report::Cell;

/// A generation of MCP revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Era {
    /// 2025-11-25: a session, and requests both ways.
    Legacy,
    /// 2026-07-28: no session, and rounds.
    Modern,
}

impl Era {
    pub(crate) const ALL: [Self; 2] = [Self::Legacy, Self::Modern];

    /// As the drivers are told.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    /// The revision that must be negotiated.
    pub(crate) fn revision(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// What became of one cell.
#[derive(Debug, Clone)]
pub(crate) enum Mark {
    Passed,
    Failed(String),
    /// The peer cannot; the reason is the footnote.
    Unable(&'static str),
}

/// A peer over one transport.
#[derive(Debug)]
struct Row {
    peer: String,
    transport: &'static str,
    marks: BTreeMap<(Era, Cell), Mark>,
}

/// One direction's rows.
#[derive(Debug)]
pub(crate) struct Matrix {
    title: &'static str,
    cells: &'static [Cell],
    rows: Vec<Row>,
}

impl Matrix {
    /// A matrix with these columns, once for every era.
    pub(crate) fn new(title: &'static str, cells: &'static [Cell]) -> Self {
        Self { title, cells, rows: Vec::new() }
    }

    /// Adds a row and returns its number.
    pub(crate) fn row(&mut self, peer: &str, transport: &'static str) -> usize {
        self.rows.push(Row { peer: peer.to_owned(), transport, marks: BTreeMap::new() });
        self.rows.len() - 1
    }

    /// Marks a cell. What has failed stays failed.
    pub(crate) fn mark(&mut self, row: usize, era: Era, cell: Cell, mark: Mark) {
        let marks = &mut self.rows[row].marks;
        if !matches!(marks.get(&(era, cell)), Some(Mark::Failed(_))) {
            marks.insert((era, cell), mark);
        }
    }

    /// How many cells passed.
    pub(crate) fn passed(&self) -> usize {
        let marks = self.rows.iter().flat_map(|row| row.marks.values());
        marks.filter(|mark| matches!(mark, Mark::Passed)).count()
    }

    /// A line for every cell that is neither green nor excused.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for row in &self.rows {
            for era in Era::ALL {
                for &cell in self.cells {
                    let problem = match row.marks.get(&(era, cell)) {
                        Some(Mark::Failed(problem)) => problem.as_str(),
                        Some(_) => continue,
                        None => "was not tried",
                    };
                    failures.push(format!(
                        "{} {} over {}, {}, {}: {problem}",
                        self.title,
                        row.peer,
                        row.transport,
                        era.revision(),
                        cell.name()
                    ));
                }
            }
        }
        failures
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers = self.rows.iter().map(|row| row.peer.chars().count());
        let wide = peers.chain([self.title.len()]).max().unwrap_or(0);
        let widths: Vec<usize> = self.cells.iter().map(|cell| cell.name().len().max(4)).collect();
        let group: usize = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);

        let mut line = format!("  {:wide$}  {:5}", "", "");
        for era in Era::ALL {
            write!(line, "  | {:group$}", era.revision())?;
        }
        writeln!(f, "{}", line.trim_end())?;
        line = format!("  {:wide$}  {:5}", self.title, "over");
        for _ in Era::ALL {
            line.push_str("  |");
            for (cell, width) in self.cells.iter().zip(&widths) {
                write!(line, " {:>width$} ", cell.name())?;
            }
            line.pop();
        }
        writeln!(f, "{}", line.trim_end())?;
        writeln!(f, "  {}", "-".repeat(line.trim_end().chars().count() - 2))?;

        let mut notes: Vec<&str> = Vec::new();
        for row in &self.rows {
            line = format!("  {:wide$}  {:5}", row.peer, row.transport);
            for era in Era::ALL {
                line.push_str("  |");
                for (cell, width) in self.cells.iter().zip(&widths) {
                    let shown = match row.marks.get(&(era, *cell)) {
                        Some(Mark::Passed) => "ok".to_owned(),
                        Some(Mark::Unable(reason)) => format!("-{}", letter(&mut notes, reason)),
                        Some(Mark::Failed(_)) => "FAIL".to_owned(),
                        None => "?".to_owned(),
                    };
                    write!(line, " {shown:>width$} ")?;
                }
                line.pop();
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        for reason in notes.clone() {
            writeln!(f, "  -{}  {reason}", letter(&mut notes, reason))?;
        }
        Ok(())
    }
}

/// The letter of a footnote; the same reason has the same letter.
fn letter<'a>(notes: &mut Vec<&'a str>, reason: &'a str) -> char {
    let at = notes.iter().position(|it| *it == reason).unwrap_or_else(|| {
        notes.push(reason);
        notes.len() - 1
    });
    char::from(b'a' + u8::try_from(at).unwrap_or(25))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> Matrix {
        let mut matrix = Matrix::new("client", &[Cell::Call, Cell::Ask]);
        let row = matrix.row("a peer", "http");
        matrix.mark(row, Era::Legacy, Cell::Call, Mark::Passed);
        matrix.mark(row, Era::Legacy, Cell::Ask, Mark::Unable("cannot ask"));
        matrix.mark(row, Era::Modern, Cell::Ask, Mark::Unable("cannot ask"));
        matrix
    }

    #[test]
    fn what_a_peer_cannot_do_has_a_footnote() {
        let mut matrix = matrix();
        matrix.mark(0, Era::Modern, Cell::Call, Mark::Passed);
        let lines: Vec<String> = matrix.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines[3], "  a peer  http   |   ok    -a  |   ok    -a");
        assert_eq!(lines[4], "  -a  cannot ask");
        assert_eq!((matrix.passed(), matrix.failures().len()), (2, 0));
    }

    #[test]
    fn a_cell_that_was_not_tried_is_a_failure() {
        assert_eq!(matrix().failures(), ["client a peer over http, 2026-07-28, call: was not tried"]);
    }

    #[test]
    fn a_failure_is_not_painted_over() {
        let mut matrix = matrix();
        matrix.mark(0, Era::Modern, Cell::Call, Mark::Failed("it broke".into()));
        matrix.mark(0, Era::Modern, Cell::Call, Mark::Passed);
        assert_eq!(matrix.failures(), ["client a peer over http, 2026-07-28, call: it broke"]);
    }
}
