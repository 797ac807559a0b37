//! Asks for a move in tic-tac-toe on a drawn board.

mod draw;

use std::io::{IsTerminal as _, Write as _, stderr};

use antiphon_host::{BoxFuture, Form, FormHandler, Shown};
use crossterm::{
    cursor,
    event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, read},
    execute, queue,
    style::Print,
    terminal::{Clear, ClearType, disable_raw_mode, enable_raw_mode},
};
use serde::Deserialize;
use serde_json::json;

use super::{Person, forms, terminal::Asked};

/// The question key of the forms that are shown as a board.
pub(super) const KEY: &str = "pickMove";

/// A form handler that shows the form as a board, if the terminal supports cursor movement and has enough rows.
pub(super) struct Playing(pub(super) Person);

/// The board that the server sends with the form.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Board {
    /// The marks on the board, row by row. A free cell is an empty string.
    #[serde(rename = "board")]
    cells: [String; 9],
    you: String,
    #[serde(default)]
    model: String,
    last_move: Option<usize>,
    strategy: Option<String>,
}

impl FormHandler for Playing {
    fn show(&self, form: Form) -> BoxFuture<'_, Shown> {
        Box::pin(async move {
            let Self(person) = self;
            let asks_for_cell = form.fields.iter().any(|field| field.name == "cell");
            let context = form.context.as_ref().filter(|_| asks_for_cell);
            let board = context.and_then(|context| Board::deserialize(context).ok());
            let shown = match board.filter(|board| can_draw() && board.is_open()) {
                Some(board) => {
                    let message = form.message.clone();
                    match person.terminal().ask(move || pick(&board, &message)).await {
                        Asked::Answered(cell) => Shown::Accept(json!({"cell": cell})),
                        Asked::Closed => Shown::Decline,
                        Asked::Interrupted => Shown::Cancel,
                    }
                }
                None => forms::show(person, &form).await,
            };
            if !matches!(shown, Shown::Accept(_)) {
                person.decline();
            }
            shown
        })
    }
}

/// Returns whether the terminal supports cursor movement and has enough rows. With a message of three lines and a plan,
/// the board has 17 rows, and the cursor is below the board.
fn can_draw() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    let room = crossterm::terminal::size().is_ok_and(|(columns, rows)| columns >= 30 && rows >= 18);
    stderr().is_terminal() && !dumb && room
}

impl Board {
    fn is_free(&self, cell: usize) -> bool {
        self.cells[cell].is_empty()
    }

    fn is_open(&self) -> bool {
        (0..9).any(|cell| self.is_free(cell))
    }

    /// Returns the start cell of the cursor. The start cell is the middle cell if the middle cell is free.
    fn start(&self) -> usize {
        [4, 0, 2, 6, 8, 1, 3, 5, 7].into_iter().find(|cell| self.is_free(*cell)).unwrap_or(4)
    }
}

/// The action that a key press causes.
#[derive(Debug, PartialEq, Eq)]
enum Key {
    To(usize),
    Take,
    Leave,
    Interrupt,
    Nothing,
}

impl Key {
    fn of(event: KeyEvent, at: usize) -> Self {
        let (row, column) = (at / 3, at % 3);
        match event.code {
            KeyCode::Char('c' | 'd') if event.modifiers.contains(KeyModifiers::CONTROL) => Self::Interrupt,
            KeyCode::Up | KeyCode::Char('k') => Self::To((row + 2) % 3 * 3 + column),
            KeyCode::Down | KeyCode::Char('j') => Self::To((row + 1) % 3 * 3 + column),
            KeyCode::Left | KeyCode::Char('h') => Self::To(row * 3 + (column + 2) % 3),
            KeyCode::Right | KeyCode::Char('l') => Self::To(row * 3 + (column + 1) % 3),
            KeyCode::Char(digit @ '1'..='9') => Self::To(digit as usize - '1' as usize),
            KeyCode::Enter | KeyCode::Char(' ') => Self::Take,
            KeyCode::Esc | KeyCode::Char('q') => Self::Leave,
            _ => Self::Nothing,
        }
    }
}

/// Redraws the board in place until the user picks a cell.
fn pick(board: &Board, message: &str) -> Asked<usize> {
    // If the terminal fails, treat the question as closed by the user.
    picked(board, message).unwrap_or(Asked::Closed)
}

fn picked(board: &Board, message: &str) -> std::io::Result<Asked<usize>> {
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut at = board.start();
    let mut note = "";
    let mut height = 0;
    let _raw = Raw::begin()?;
    loop {
        height = put(&draw::lines(board, message, at, note, colour), height)?;
        let Event::Key(event) = read()? else { continue };
        if event.kind == KeyEventKind::Release {
            continue;
        }
        note = "";
        match Key::of(event, at) {
            Key::To(cell) => at = cell,
            Key::Take if board.is_free(at) => {
                put(&draw::chosen(board, at, colour), height)?;
                return Ok(Asked::Answered(at));
            }
            Key::Take => note = "that cell is taken",
            Key::Leave => return Ok(Asked::Closed),
            Key::Interrupt => return Ok(Asked::Interrupted),
            Key::Nothing => {}
        }
    }
}

/// Writes lines over the last `height` lines of the terminal. Returns the number of written lines.
fn put(lines: &[String], height: u16) -> std::io::Result<u16> {
    let mut out = stderr().lock();
    if height > 0 {
        queue!(out, cursor::MoveUp(height))?;
    }
    queue!(out, cursor::MoveToColumn(0), Clear(ClearType::FromCursorDown))?;
    for line in lines {
        queue!(out, Print(line), Print("\r\n"))?;
    }
    out.flush()?;
    Ok(u16::try_from(lines.len()).unwrap_or(u16::MAX))
}

/// The terminal in raw mode with a hidden cursor. Dropping a `Raw` restores the terminal, even after a panic.
struct Raw;

impl Raw {
    fn begin() -> std::io::Result<Self> {
        enable_raw_mode()?;
        let raw = Self;
        execute!(stderr(), cursor::Hide)?;
        Ok(raw)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = execute!(stderr(), cursor::Show);
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_go_round_and_digits_go_there() {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        for (code, from, to) in [
            (KeyCode::Up, 1, 7),
            (KeyCode::Down, 8, 2),
            (KeyCode::Left, 3, 5),
            (KeyCode::Right, 4, 5),
            (KeyCode::Char('9'), 0, 8),
        ] {
            assert_eq!(Key::of(key(code), from), Key::To(to), "{code:?} from {from}");
        }
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(Key::of(interrupt, 0), Key::Interrupt);
        assert_eq!(Key::of(key(KeyCode::Char('c')), 0), Key::Nothing);
    }
}
