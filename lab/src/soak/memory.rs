//! Whether memory stays what it is.

use serde::Serialize;

use super::replicas::{COUNT, ELDEST};
use super::samples::{Body, Sample};

/// More growth than this, in hundredths, is no longer flat.
pub(super) const FLAT: f64 = 5.0;

/// How long a process takes to warm up, in seconds.
const WARM: f64 = 300.0;

/// What is judged must last so long, in seconds.
const LONG: f64 = 900.0;

/// How memory went.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// Of each process that lived long enough after it was warm, in the order in which they began.
    pub(super) lives: Vec<Growth>,
    /// Of the one that was there from the beginning to the end, over the last three quarters.
    pub(super) eldest: Option<Growth>,
    /// All replicas together, when they were warm and in the end, in MiB.
    pub(super) fleet: Option<(f64, f64)>,
}

/// A straight line through the samples of one process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Growth {
    pub(super) replica: usize,
    /// Seconds since the beginning.
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) first_mib: f64,
    pub(super) last_mib: f64,
    /// In hundredths of what it was at first.
    pub(super) percent: f64,
}

impl Memory {
    pub(super) fn of(samples: &[Sample]) -> Self {
        let mut lives = Vec::new();
        for replica in 0..COUNT {
            let bodies: Vec<Body> = samples.iter().filter_map(|sample| sample.replicas[replica]).collect();
            for life in bodies.chunk_by(|one, other| one.start == other.start) {
                let warm = life.first().map_or(f64::MAX, |first| first.at + WARM);
                let points: Vec<(f64, f64)> = points(life).filter(|point| point.0 >= warm).collect();
                lives.extend(Growth::through(replica, &points).filter(|it| it.to - it.from >= LONG));
            }
        }
        let end = samples.last().map_or(0.0, |sample| sample.at);
        let eldest: Vec<Body> = samples.iter().filter_map(|sample| sample.replicas[ELDEST]).collect();
        let late: Vec<_> = points(&eldest).filter(|point| point.0 >= end / 4.0).collect();
        let eldest = Growth::through(ELDEST, &late).filter(|it| it.to - it.from >= LONG);
        Self { lives, eldest, fleet: fleet(samples, end) }
    }

    /// Whether it can be said that it grows, or that it does not; nothing after too short a time.
    pub(super) fn is_flat(&self) -> Option<bool> {
        let eldest = self.eldest?.percent < FLAT;
        let fleet = self.fleet.is_none_or(|(first, last)| (last / first - 1.0) * 100.0 < FLAT);
        Some(eldest && fleet)
    }
}

fn points(bodies: &[Body]) -> impl Iterator<Item = (f64, f64)> {
    bodies.iter().map(|body| (body.at, body.rss_mib))
}

/// The mean of the whole fleet over three minutes, once all were warm and in the end.
fn fleet(samples: &[Sample], end: f64) -> Option<(f64, f64)> {
    let mean = |from: f64| {
        let whole = |sample: &Sample| {
            sample.replicas.iter().map(|body| body.map(|body| body.rss_mib)).sum::<Option<f64>>()
        };
        let during = samples.iter().filter(|sample| sample.at >= from && sample.at < from + 180.0);
        let sums: Vec<f64> = during.filter_map(whole).collect();
        (!sums.is_empty()).then(|| sums.iter().sum::<f64>() / crate::bench::as_f64(sums.len()))
    };
    (end > WARM + LONG).then(|| Some((mean(WARM)?, mean(end - 180.0)?)))?
}

impl Growth {
    fn through(replica: usize, points: &[(f64, f64)]) -> Option<Self> {
        let (from, to) = (points.first()?.0, points.last()?.0);
        let count = crate::bench::as_f64(points.len());
        let middle = points.iter().map(|point| point.0).sum::<f64>() / count;
        let mean = points.iter().map(|point| point.1).sum::<f64>() / count;
        let spread: f64 = points.iter().map(|point| (point.0 - middle).powi(2)).sum();
        if spread == 0.0 {
            return None;
        }
        let slope = points.iter().map(|point| (point.0 - middle) * (point.1 - mean)).sum::<f64>() / spread;
        let (first, last) = (mean + slope * (from - middle), mean + slope * (to - middle));
        let percent = (last / first - 1.0) * 100.0;
        Some(Self { replica, from, to, first_mib: first, last_mib: last, percent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rss: impl Fn(f64) -> f64) -> Vec<Sample> {
        let sample = |at: f64| {
            let body = |start| Some(Body { start, at, rss_mib: rss(at), files: 9 });
            let replicas = [body(0), body(1 + u64::from(at > 600.0)), body(9)];
            Sample {
                at,
                requests: 0,
                errors: 0,
                p50_ms: None,
                p99_ms: None,
                waiting: None,
                dead: None,
                replicas,
            }
        };
        (0..720).map(|number| sample(f64::from(number) * 5.0)).collect()
    }

    #[test]
    fn what_stays_is_flat_and_what_grows_is_not() {
        let flat = Memory::of(&samples(|at| 80.0 + (at / 10.0).sin()));
        assert_eq!(flat.is_flat(), Some(true), "{flat:?}");
        let grows = Memory::of(&samples(|at| 80.0 + at / 300.0));
        assert_eq!(grows.is_flat(), Some(false), "{grows:?}");
        // Two that lived to the end, and one that was replaced after ten minutes and then lived on.
        assert_eq!(grows.lives.len(), 3);
    }

    #[test]
    fn a_short_time_says_nothing() {
        assert_eq!(Memory::of(&samples(|_| 80.0)[..60]).is_flat(), None);
    }
}
