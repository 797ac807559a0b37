//! The terminal: one question at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;

use super::screen::Screen;

/// The terminal, where a person can be asked one question at a time.
#[derive(Debug)]
pub(crate) struct Terminal {
    pub(crate) screen: Screen,
    turn: Mutex<()>,
    /// Whether the person wants to leave: nothing more is asked.
    interrupted: AtomicBool,
}

/// How a question ended.
pub(crate) enum Asked<T> {
    Answered(T),
    /// They closed it.
    Closed,
    /// They want to leave.
    Interrupted,
}

impl Terminal {
    pub(super) fn new() -> Self {
        Self { screen: Screen::new(), turn: Mutex::new(()), interrupted: AtomicBool::new(false) }
    }

    /// Asks, when it is its turn. `question` may block: it has a thread of its own.
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

    /// Whether the person wants to leave.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// Gives the screen and the terminal back, also when nobody waits for the answer any more.
struct Held<'a>(&'a Screen);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        restore();
        self.0.release();
    }
}

/// The terminal as it was before a question.
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
