//! Draws the tic-tac-toe board in the terminal.

use crossterm::style::Stylize as _;

use super::Board;
use crate::print::{clean, first_line};

/// Draws the board with the cursor on the cell `at`.
pub(super) fn lines(board: &Board, message: &str, at: usize, note: &str, colour: bool) -> Vec<String> {
    let mut lines = head(board, message);
    lines.extend(grid(board, at, colour));
    lines.push(String::new());
    lines.push("  arrows or 1-9 move, Enter takes, q declines".to_owned());
    lines.push(format!("  {note}"));
    lines
}

/// Draws the board after the user's move.
pub(super) fn chosen(board: &Board, at: usize, colour: bool) -> Vec<String> {
    let mut after = board.clone();
    after.cells[at].clone_from(&board.you);
    after.last_move = Some(at);
    let mut lines = vec![String::new(), format!("  You take {}.", at + 1), String::new()];
    // Index 9 is outside the board, so no cell has the cursor.
    lines.extend(grid(&after, 9, colour));
    lines
}

fn head(board: &Board, message: &str) -> Vec<String> {
    let mut lines: Vec<String> = std::iter::once(String::new())
        .chain(clean(message.trim()).lines().take(3).map(|line| fitting(&format!("  {line}"))))
        .collect();
    let mark = |mark: &str| first_line(mark).chars().take(1).collect::<String>();
    lines.push(format!("  You are {}, the model is {}.", mark(&board.you), mark(&board.model)));
    if let Some(strategy) = board.strategy.as_deref().filter(|strategy| !strategy.is_empty()) {
        lines.push(fitting(&format!("  The model's plan: {}", first_line(strategy))));
    }
    lines.push(String::new());
    lines
}

/// Shortens a line to the width of the terminal. A wrapped line would make the counted height of the board wrong.
fn fitting(line: &str) -> String {
    let columns = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    // Wide characters can take two columns.
    let width =
        |line: &str| line.chars().map(|c| 1 + usize::from(!c.is_ascii() && c > '\u{1100}')).sum::<usize>();
    if width(&line) < columns {
        return line;
    }
    let mut cut = String::new();
    for c in line.chars() {
        if width(&cut) + 3 >= columns {
            break;
        }
        cut.push(c);
    }
    cut + "…"
}

fn grid(board: &Board, at: usize, colour: bool) -> Vec<String> {
    let mut lines = vec!["    ┌───┬───┬───┐".to_owned()];
    for row in 0..3 {
        let cells: Vec<String> =
            (row * 3..row * 3 + 3).map(|cell| cell_of(board, cell, at, colour)).collect();
        lines.push(format!("    │{}│", cells.join("│")));
        lines.push(
            if row < 2 {
                "    ├───┼───┼───┤"
            } else {
                "    └───┴───┴───┘"
            }
            .to_owned(),
        );
    }
    lines
}

/// Draws a cell, three columns wide: `[ ]` under the cursor, `(X)` for the last move. The marks are readable without
/// colours.
fn cell_of(board: &Board, cell: usize, at: usize, colour: bool) -> String {
    let mark = first_line(&board.cells[cell]).chars().next();
    let shown = mark.unwrap_or(if cell == at { ' ' } else { '·' });
    let last = board.last_move == Some(cell);
    let text = match (cell == at, last) {
        (true, _) => format!("[{shown}]"),
        (false, true) => format!("({shown})"),
        (false, false) => format!(" {shown} "),
    };
    if !colour {
        return text;
    }
    let styled = match mark {
        None => text.dark_grey(),
        Some(mark) if board.you.starts_with(mark) => text.green(),
        Some(_) => text.red(),
    };
    match (cell == at, last) {
        (true, _) => styled.reverse().to_string(),
        (false, true) => styled.bold().to_string(),
        (false, false) => styled.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_board_can_be_read_without_colours() {
        let board = json!({"board": ["X", "", "O", "", "", "", "", "", ""], "you": "X", "model": "O",
            "lastMove": 2, "strategy": "take the\u{1b}[31m corner"});
        let board = Board::deserialize(&board).unwrap();
        insta::assert_snapshot!(lines(&board, "Your move", 4, "", false).join("\n"), @"
        Your move
        You are X, the model is O.
        The model's plan: take the�[31m corner

          ┌───┬───┬───┐
          │ X │ · │(O)│
          ├───┼───┼───┤
          │ · │[ ]│ · │
          ├───┼───┼───┤
          │ · │ · │ · │
          └───┴───┴───┘

        arrows or 1-9 move, Enter takes, q declines
        ");
        insta::assert_snapshot!(chosen(&board, 4, false).join("\n"), @"
        You take 5.

          ┌───┬───┬───┐
          │ X │ · │ O │
          ├───┼───┼───┤
          │ · │(X)│ · │
          ├───┼───┼───┤
          │ · │ · │ · │
          └───┴───┴───┘
        ");
        assert!(lines(&board, "", 4, "", true).join("").contains("\u{1b}["));
    }
}
