//! What a person sees while the server is not ready.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A spinner that turns while the server is not ready, where somebody sees it.
#[derive(Clone)]
pub(crate) struct Waiting(ProgressBar);

impl Waiting {
    /// For what is waited: `being sorted…`.
    pub(crate) fn new(what: &'static str) -> Self {
        // Drawn only once it ticks, so who never waits never sees it.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        Self(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())).with_message(what))
    }

    pub(crate) fn begin(&self) {
        if std::io::stderr().is_terminal() && (self.0.is_hidden() || self.0.is_finished()) {
            self.0.set_draw_target(ProgressDrawTarget::stderr());
            self.0.reset();
            self.0.enable_steady_tick(Duration::from_millis(120));
        }
    }

    pub(crate) fn over(&self) {
        self.0.disable_steady_tick();
        self.0.finish_and_clear();
    }
}
