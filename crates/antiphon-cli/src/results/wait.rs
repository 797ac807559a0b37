//! What a person sees while the server is not ready.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A spinner that turns while the server is not ready, where somebody sees it.
#[derive(Clone)]
pub(crate) struct Waiting(ProgressBar);

impl Waiting {
    pub(crate) fn new() -> Self {
        // Drawn only once it ticks, so who never waits never sees it.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        Self(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())))
    }

    /// Sets what the spinner says: `being sorted…`.
    pub(crate) fn says(&self, what: &'static str) {
        self.0.set_message(what);
    }

    /// Shows the spinner, or hides it.
    pub(crate) fn show(&self, shown: bool) {
        if shown { self.begin() } else { self.over() }
    }

    fn begin(&self) {
        if std::io::stderr().is_terminal() && (self.0.is_hidden() || self.0.is_finished()) {
            self.0.set_draw_target(ProgressDrawTarget::stderr());
            self.0.reset();
            self.0.enable_steady_tick(Duration::from_millis(120));
        }
    }

    fn over(&self) {
        self.0.disable_steady_tick();
        self.0.finish_and_clear();
    }
}
