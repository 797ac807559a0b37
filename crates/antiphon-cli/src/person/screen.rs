//! What a person sees while a call is under way: a bar, and lines above it.

use std::{
    io::{IsTerminal as _, stderr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use antiphon_host::{Event, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::print::{clean, first_line};

/// How bad a line of a log can be, mildest first.
pub(crate) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The part of the terminal that tells how a call comes along: on standard error, and only there.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Whether bars can be drawn. Otherwise there are lines.
    bars: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bar: Option<ProgressBar>,
    /// What came while a question was on the screen, to be shown after it.
    held: Option<Vec<String>>,
    /// The mildest lines of a log that are shown; none, if it is beyond all.
    mildest: usize,
    /// What was said last to be waited for.
    said: Option<String>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { bars: stderr().is_terminal() && !dumb, state: Mutex::default() }
    }

    /// Shows lines of logs that are at least as bad as this.
    pub(crate) fn show_logs_from(&self, level: &str) {
        self.lock().mildest = LEVELS.iter().position(|known| *known == level).unwrap_or(LEVELS.len());
    }

    /// What the server tells beside its answers.
    pub(crate) fn tell(&self, event: &Event) {
        match event {
            Event::Log { level, logger, data } => self.log(level, logger.as_deref(), data),
            Event::Reconnected => self.line("the connection was lost, and made again"),
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

    /// A line of its own, above the bar.
    pub(crate) fn line(&self, text: &str) {
        let text = clean(text);
        let state = &mut *self.lock();
        match (&mut state.held, &state.bar) {
            (Some(held), _) => held.push(text),
            (None, Some(bar)) => bar.suspend(|| eprintln!("{text}")),
            (None, None) => eprintln!("{text}"),
        }
    }

    /// How far the call has come.
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
            // In thousandths, because progress may have a fraction.
            bar.set_style(style("{bar:30} {percent}% {wide_msg}"));
            bar.set_length(thousandths(total));
            bar.set_position(thousandths(progress.progress));
        }
        bar.set_message(message);
        bar.tick();
    }

    /// What is waited for, in words.
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

    /// The same, but only where there is a bar: not worth a line of its own.
    pub(crate) fn status_quietly(&self, text: &str) {
        if self.bars {
            self.status(text);
        }
    }

    /// Makes room for a question. What comes meanwhile is kept.
    pub(super) fn hold(&self) {
        let mut state = self.lock();
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
        state.held.get_or_insert_default();
    }

    /// The question is answered.
    pub(super) fn release(&self) {
        let mut state = self.lock();
        for line in state.held.take().into_iter().flatten() {
            eprintln!("{line}");
        }
        // Whoever has answered sees that it goes on.
        if let Some(said) = state.said.clone().filter(|_| self.bars) {
            state.bar.get_or_insert_with(spinner).set_message(said);
        }
    }

    /// Removes the bar: the call is over.
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
    // Nonsense becomes 0 or the most there is, as casts do.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let thousandths = (number * 1e3) as u64;
    thousandths
}
