//! Histograms of the values in a column.

use antiphon_results::snapshot::Bin;
use serde_json::Value;

/// The maximum number of bins of a histogram.
const BINS: u64 = 24;

/// A histogram with bins of equal width between the minimum and the maximum of a column.
#[derive(Debug)]
pub(super) enum Histogram {
    Whole { least: i64, greatest: i64, width: u64, counts: Vec<u64> },
    Real { least: f64, greatest: f64, scale: f64, counts: Vec<u64> },
}

impl Histogram {
    /// Creates a histogram with bins whose bounds are integers.
    pub(super) fn whole(least: i64, greatest: i64) -> Option<Self> {
        let span = greatest.checked_sub(least).map_or_else(|| greatest.abs_diff(least), i64::unsigned_abs);
        if greatest < least {
            return None;
        }
        let width = span / BINS + 1;
        let bins = span / width + 1;
        Some(Self::Whole { least, greatest, width, counts: vec![0; usize::try_from(bins).ok()?] })
    }

    pub(super) fn real(least: f64, greatest: f64) -> Option<Self> {
        let span = greatest - least;
        if !span.is_finite() || span < 0.0 {
            return None;
        }
        let bins = if span > 0.0 { BINS } else { 1 };
        #[expect(clippy::cast_precision_loss, reason = "there are few bins")]
        let scale = if span > 0.0 { bins as f64 / span } else { 0.0 };
        // If the range is too small to be divided, the histogram has one bin.
        let (bins, scale) = if scale.is_finite() { (bins, scale) } else { (1, 0.0) };
        Some(Self::Real { least, greatest, scale, counts: vec![0; usize::try_from(bins).ok()?] })
    }

    /// Counts a value in its bin. A value outside the range of the histogram is counted in the first or the last bin.
    /// Values outside the range occur if the footer claims a wrong range.
    pub(super) fn count_whole(&mut self, value: i64) {
        if let Self::Whole { least, width, counts, .. } = self {
            let bin = value.max(*least).abs_diff(*least) / *width;
            let last = counts.len() - 1;
            counts[usize::try_from(bin).unwrap_or(last).min(last)] += 1;
        }
    }

    pub(super) fn count_real(&mut self, value: f64) {
        if let Self::Real { least, scale, counts, .. } = self
            && value.is_finite()
        {
            let last = counts.len() - 1;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "what is out of range becomes an end of it"
            )]
            let bin = ((value - *least) * *scale) as usize;
            counts[bin.min(last)] += 1;
        }
    }

    /// Returns the bins of the histogram. `show` formats the bounds of integer bins.
    pub(super) fn finish(self, show: impl Fn(i64) -> Value) -> Vec<Bin> {
        match self {
            Self::Whole { least, greatest, width, counts } => {
                let edge = |at: usize| {
                    let edge = i128::from(least) + i128::from(width) * at as i128;
                    i64::try_from(edge.min(i128::from(greatest))).unwrap_or(greatest)
                };
                let bin = |(at, count)| Bin { from: show(edge(at)), to: show(edge(at + 1)), count };
                counts.into_iter().enumerate().map(bin).collect()
            }
            Self::Real { least, greatest, counts, .. } => {
                let bins = counts.len();
                #[expect(clippy::cast_precision_loss, reason = "there are few bins")]
                let edge = |at: usize| {
                    let edge = least + (greatest - least) * (at as f64 / bins as f64);
                    Value::from(if at == bins { greatest } else { edge })
                };
                let bin = |(at, count)| Bin { from: edge(at), to: edge(at + 1), count };
                counts.into_iter().enumerate().map(bin).collect()
            }
        }
    }
}
