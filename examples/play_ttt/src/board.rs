//! The rules.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whom a move is by. X moves first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mark {
    /// X.
    X,
    /// O.
    O,
}

impl Mark {
    /// The other side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::X => Self::O,
            Self::O => Self::X,
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What is in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
enum Cell {
    /// Nothing yet.
    #[default]
    #[serde(rename = "")]
    Free,
    X,
    O,
}

impl From<Mark> for Cell {
    fn from(mark: Mark) -> Self {
        match mark {
            Mark::X => Self::X,
            Mark::O => Self::O,
        }
    }
}

/// Nine cells, counted from 0, row by row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Board([Cell; 9]);

/// Rows, columns, diagonals.
const LINES: [[usize; 3]; 8] =
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];

impl Board {
    /// The cells nobody has, in order.
    pub fn free(&self) -> Vec<usize> {
        (0..9).filter(|cell| self.0[*cell] == Cell::Free).collect()
    }

    /// How many moves were made.
    pub fn played(&self) -> u8 {
        self.0.iter().map(|cell| u8::from(*cell != Cell::Free)).sum()
    }

    /// Whether a cell can be played.
    ///
    /// # Errors
    ///
    /// When it cannot, with what to do instead.
    pub fn check(&self, cell: usize) -> Result<(), String> {
        let free = self.free();
        if free.contains(&cell) {
            return Ok(());
        }
        let free: Vec<String> = free.iter().map(usize::to_string).collect();
        Err(format!("cell {cell} is taken; pick one of {}", free.join(", ")))
    }

    /// Puts a mark into a cell that can be played.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn place(&mut self, cell: usize, mark: Mark) -> Result<(), String> {
        self.check(cell)?;
        self.0[cell] = mark.into();
        Ok(())
    }

    /// Who has three in a line, and where.
    pub fn won(&self) -> Option<(Mark, [usize; 3])> {
        let has = |mark: Mark, line: &[usize; 3]| line.iter().all(|cell| self.0[*cell] == mark.into());
        let won = |mark| LINES.iter().find(|line| has(mark, line)).map(|line| (mark, *line));
        won(Mark::X).or_else(|| won(Mark::O))
    }

    /// Whether there is nothing left to play for.
    pub fn is_over(&self) -> bool {
        self.won().is_some() || self.free().is_empty()
    }
}

/// Draws it. Free cells show their number, so that they can be named.
impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (row, cells) in self.0.chunks(3).enumerate() {
            if row > 0 {
                f.write_str("\n---+---+---\n")?;
            }
            for (column, cell) in cells.iter().enumerate() {
                let bar = if column > 0 { "|" } else { "" };
                match cell {
                    Cell::Free => write!(f, "{bar} {} ", 3 * row + column)?,
                    mark => write!(f, "{bar} {mark:?} ")?,
                }
            }
        }
        Ok(())
    }
}
