//! Asks questions in the terminal, one at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;

use super::screen::Screen;

/// The terminal. The terminal shows one question at a time.
#[derive(Debug)]
pub(crate) struct Terminal {
    pub(crate) screen: Screen,
    turn: Mutex<()>,
    /// Whether the user interrupted the CLI. After an interrupt, no further question is asked.
    interrupted: AtomicBool,
}

/// The answer to a question, or the reason why the question has no answer.
pub(crate) enum Asked<T> {
    Answered(T),
    /// The user closed the question.
    Closed,
    /// The user interrupted the CLI.
    Interrupted,
}

impl Terminal {
    pub(super) fn new() -> Self {
        Self { screen: Screen::new(), turn: Mutex::new(()), interrupted: AtomicBool::new(false) }
    }

    /// Asks a question after all earlier questions have ended. `question` runs on a blocking thread, so `question` can
    /// block.
    pub(crate) async fn ask<T, F>(&self, question: F) -> Asked<T>
    where
        T: Send + 'static,
        F: FnOnce() -> Asked<T> + Send + 'static,
    {
        let _turn = self.turn.lock().await;
        if self.is_interrupted() {
            return Asked::Interrupted;
        }
        self.screen.hold();
        let held = Held(&self.screen);
        let asked = tokio::task::spawn_blocking(question).await.unwrap_or(Asked::Closed);
        drop(held);
        if matches!(asked, Asked::Interrupted) {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        asked
    }

    /// Returns whether the user interrupted the CLI.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// A guard that restores the terminal and the progress display on drop, even if the caller stops waiting for the
/// answer.
struct Held<'a>(&'a Screen);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        restore();
        self.0.release();
    }
}

/// Restores the terminal after a question.
pub(crate) fn restore() {
    if crossterm::terminal::is_raw_mode_enabled().unwrap_or(false) {
        let _ = crossterm::terminal::disable_raw_mode();
        let _ = crossterm::execute!(
            std::io::stderr(),
            crossterm::cursor::Show,
            crossterm::event::DisableBracketedPaste
        );
    }
}
