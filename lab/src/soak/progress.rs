//! What is shown while it runs.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::fault::Fault;
use super::tally::Counts;

/// How often a line is written where there is no terminal.
const LINE: Duration = Duration::from_secs(30);

/// A bar, or a line now and then.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    last: Mutex<(Option<Fault>, Instant)>,
}

impl Progress {
    pub(super) fn new(length: Duration) -> Self {
        let style = ProgressStyle::with_template("{bar:40} {elapsed} of {len} s; {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(length.as_secs()).with_style(style);
        Self { bar, last: Mutex::new((None, Instant::now())) }
    }

    /// Something is being broken.
    pub(super) fn tell(&self, fault: Fault) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(fault);
    }

    pub(super) fn show(&self, began: Instant, counts: &Counts) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let all = counts.all();
        let ms = |share: u64| all.permille(share).unwrap_or_default();
        let fault = last.0.map_or("nothing broken yet", Fault::name);
        let message = format!(
            "{} requests, {} failed tries, {} failures, p50 {:.1} ms, p99 {:.0} ms; {fault}",
            counts.requests,
            counts.slipped(),
            counts.failures(),
            ms(500),
            ms(990)
        );
        if self.bar.is_hidden() && last.1.elapsed() > LINE {
            eprintln!("{:>5} s: {message}", began.elapsed().as_secs());
            last.1 = Instant::now();
        }
        self.bar.set_position(began.elapsed().as_secs());
        self.bar.set_message(message);
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
