//! What is looked at every few seconds.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::replicas::{COUNT, Replicas};
use super::tally::Tally;
use crate::proc::resident_mib;

/// How often.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// One process at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Body {
    /// Which start of a replica's it is: another number is another process.
    pub(super) start: u64,
    /// Seconds since the beginning.
    pub(super) at: f64,
    pub(super) rss_mib: f64,
    pub(super) files: usize,
}

/// All that is seen at one time.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sample {
    /// Seconds since the beginning.
    pub(super) at: f64,
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    /// Legs of tasks that wait for a worker, and that are dead; nothing if nobody says.
    pub(super) waiting: Option<u64>,
    pub(super) dead: Option<u64>,
    pub(super) replicas: [Option<Body>; COUNT],
}

/// All samples.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<Vec<Sample>>);

impl Samples {
    pub(super) fn take(&self, began: Instant, replicas: &Replicas, tally: &Tally) {
        let interval = tally.take_interval();
        let at = began.elapsed().as_secs_f64();
        let body = |number: usize| {
            let life = replicas.life(number)?;
            Some(Body {
                start: life.start,
                at,
                rss_mib: resident_mib(life.pid).ok()?,
                files: files(life.pid)?,
            })
        };
        let figures: Vec<String> = (0..COUNT).filter_map(|number| figures(replicas, number)).collect();
        // All replicas say the same of one queue, some a little later.
        let depth = |state: &str| figures.iter().filter_map(|text| depth(text, state)).max();
        let sample = Sample {
            at,
            requests: interval.latency.total(),
            errors: interval.slips,
            p50_ms: interval.latency.permille(500),
            p99_ms: interval.latency.permille(990),
            waiting: depth("waiting"),
            dead: depth("dead"),
            replicas: std::array::from_fn(body),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
    }

    pub(super) fn all(&self) -> Vec<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn files(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// A replica that is stopped or gone says nothing.
fn figures(replicas: &Replicas, number: usize) -> Option<String> {
    let said = replicas.places[number].get("/metrics", Duration::from_millis(500)).ok()?;
    String::from_utf8(said.body).ok()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a gauge of jobs is a small count"
)]
fn depth(figures: &str, state: &str) -> Option<u64> {
    let label = format!("antiphon_state=\"{state}\"");
    let ours = |line: &&str| line.starts_with("antiphon_queue_depth") && line.contains(&label);
    let line = figures.lines().find(ours)?;
    Some(line.rsplit(' ').next()?.parse::<f64>().ok()?.max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_read() {
        let figures = "antiphon_queue_depth{antiphon_state=\"leased\"} 3\nantiphon_queue_depth{antiphon_state=\"waiting\",x=\"y\"} 12\n";
        assert_eq!((depth(figures, "waiting"), depth(figures, "dead")), (Some(12), None));
    }
}
