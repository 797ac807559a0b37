//! Shows a spinner while the server is not ready.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A spinner that is shown while the server is not ready, if standard error is a terminal.
#[derive(Clone)]
pub(crate) struct Waiting(ProgressBar);

impl Waiting {
    pub(crate) fn new() -> Self {
        // The spinner is drawn after its first tick, so no spinner appears before a fast response.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        Self(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())))
    }

    /// Sets the text of the spinner, for example `being sorted…`.
    pub(crate) fn says(&self, what: &'static str) {
        self.0.set_message(what);
    }

    /// Shows or hides the spinner.
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
