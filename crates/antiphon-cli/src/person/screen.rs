//! Shows the progress of a call: a bar, and lines above it.

use std::{
    io::{IsTerminal as _, stderr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use antiphon_host::{Event, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::print::{clean, first_line};

/// The severities of log messages, lowest first.
pub(crate) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The progress display of a call. The display writes only to standard error.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Whether the terminal can draw bars. If the terminal cannot draw bars, progress is printed as lines.
    bars: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bar: Option<ProgressBar>,
    /// Lines that arrived during a question. The held lines are printed after the question.
    held: Option<Vec<String>>,
    /// The index of the lowest severity to show. If the index is `LEVELS.len()`, no log message is shown.
    mildest: usize,
    /// The last status text that was shown.
    said: Option<String>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { bars: stderr().is_terminal() && !dumb, state: Mutex::default() }
    }

    /// Shows log messages of this severity or higher.
    pub(crate) fn show_logs_from(&self, level: &str) {
        self.lock().mildest = LEVELS.iter().position(|known| *known == level).unwrap_or(LEVELS.len());
    }

    /// Shows a log message or a reconnect.
    pub(crate) fn tell(&self, event: &Event) {
        match event {
            Event::Log { level, logger, data } => self.log(level, logger.as_deref(), data),
            Event::Reconnected => self.line("the connection was lost and restored"),
            _ => {}
        }
    }

    fn log(&self, level: &str, logger: Option<&str>, data: &Value) {
        let badness = LEVELS.iter().position(|known| *known == level).unwrap_or(LEVELS.len() - 1);
        if badness < self.lock().mildest {
            return;
        }
        let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
        let from = logger.map_or_else(String::new, |logger| format!(" {logger}:"));
        self.line(&format!("[{level}]{from} {text}"));
    }

    /// Prints a line above the progress bar.
    pub(crate) fn line(&self, text: &str) {
        let text = clean(text);
        let state = &mut *self.lock();
        match (&mut state.held, &state.bar) {
            (Some(held), _) => held.push(text),
            (None, Some(bar)) => bar.suspend(|| eprintln!("{text}")),
            (None, None) => eprintln!("{text}"),
        }
    }

    /// Shows the progress of the call.
    pub(crate) fn progress(&self, progress: &Progress) {
        let message = progress.message.as_deref().map(first_line).unwrap_or_default();
        let total = progress.total.filter(|total| *total > 0.0);
        if !self.bars {
            let far = match total {
                Some(total) => format!("{}/{total}", progress.progress),
                None => progress.progress.to_string(),
            };
            self.line(format!("progress {far} {message}").trim_end());
            return;
        }
        let mut state = self.lock();
        if state.held.is_some() {
            return;
        }
        let bar = state.bar.get_or_insert_with(spinner);
        if let Some(total) = total {
            // The bar counts in thousandths, because progress can have a fraction.
            bar.set_style(style("{bar:30} {percent}% {wide_msg}"));
            bar.set_length(thousandths(total));
            bar.set_position(thousandths(progress.progress));
        }
        bar.set_message(message);
        bar.tick();
    }

    /// Shows a status text.
    pub(crate) fn status(&self, text: &str) {
        let text = first_line(text);
        let mut state = self.lock();
        let news = state.said.as_ref() != Some(&text);
        state.said = Some(text.clone());
        if !self.bars {
            drop(state);
            if news {
                self.line(&text);
            }
        } else if state.held.is_none() {
            state.bar.get_or_insert_with(spinner).set_message(text);
        }
    }

    /// Shows a status text, but only if the terminal draws bars. Without bars, the text is omitted, because the text is
    /// not important enough for a separate line.
    pub(crate) fn status_quietly(&self, text: &str) {
        if self.bars {
            self.status(text);
        }
    }

    /// Hides the progress bar while the user answers a question. Lines that arrive during the question are kept.
    pub(super) fn hold(&self) {
        let mut state = self.lock();
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
        state.held.get_or_insert_default();
    }

    /// Prints the kept lines and shows the bar again.
    pub(super) fn release(&self) {
        let mut state = self.lock();
        for line in state.held.take().into_iter().flatten() {
            eprintln!("{line}");
        }
        // The status shows that the call continues after the answer.
        if let Some(said) = state.said.clone().filter(|_| self.bars) {
            state.bar.get_or_insert_with(spinner).set_message(said);
        }
    }

    /// Removes the bar after the call has ended.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.said = None;
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(style("{spinner} {wide_msg}"));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn thousandths(number: f64) -> u64 {
    // If the number is invalid, the conversion returns 0 or the maximum.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let thousandths = (number * 1e3) as u64;
    thousandths
}
