//! How long things took, in a space that does not grow.

use std::time::Duration;

/// Steps of an octave: what is read is at most 4.5 % more than what was measured.
const STEPS: f64 = 16.0;

/// Microseconds up to an hour.
const BUCKETS: usize = 512;

/// Durations, counted by their size.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, time: Duration) {
        self.counts[bucket(time)] += 1;
        self.total += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(ours, theirs)| *ours += theirs);
        self.total += other.total;
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// So many in a thousand took no longer than this, in milliseconds; nothing, if nothing was measured.
    pub(super) fn permille(&self, share: u64) -> Option<f64> {
        let rank = (self.total * share).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map(|bucket| upper(bucket) / 1e3)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the logarithm of microseconds, from nought and far below 2^32"
)]
fn bucket(time: Duration) -> usize {
    let micros = time.as_secs_f64() * 1e6;
    ((micros.max(1.0).log2() * STEPS).ceil() as usize).min(BUCKETS - 1)
}

/// The most microseconds that are counted here.
fn upper(bucket: usize) -> f64 {
    let bucket = u32::try_from(bucket).map_or(f64::MAX, f64::from);
    (bucket / STEPS).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_that_is_slow_is_in_the_last_hundredth() {
        let mut histogram = Histogram::default();
        (0..990).for_each(|_| histogram.add(Duration::from_millis(2)));
        (0..10).for_each(|_| histogram.add(Duration::from_secs(3)));
        let near =
            |found: Option<f64>, wanted: f64| found.is_some_and(|it| it >= wanted && it < wanted * 1.05);
        assert!(near(histogram.permille(500), 2.0), "{:?}", histogram.permille(500));
        assert!(near(histogram.permille(990), 2.0), "{:?}", histogram.permille(990));
        assert!(near(histogram.permille(999), 3000.0), "{:?}", histogram.permille(999));
    }

    #[test]
    fn nothing_measured_has_no_middle_and_what_is_merged_is_counted() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        assert_eq!(one.permille(500), None);
        other.add(Duration::ZERO);
        one.merge(&other);
        assert_eq!((one.total(), one.permille(500)), (1, Some(0.001)));
    }
}
