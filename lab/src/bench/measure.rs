//! How servers are measured: a processor of their own, and the middle of many figures.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;

/// How long one server is measured before it is another's turn.
pub(super) const SLICE: Duration = Duration::from_millis(100);

/// Does `work` on one processor and comes back to another, so that servers and load keep out of each other's way.
///
/// What is started inside inherits the processor. Without `taskset` the figures are the same, with more noise.
pub(super) fn pinned<T>(processor: u8, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let move_to = |processor: u8| {
        let us = std::process::id().to_string();
        let mut command = Command::new("taskset");
        // It fails on a machine with one processor, where there is nothing to choose.
        let _ = command
            .args(["-c", "-p", &processor.to_string(), &us])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    };
    move_to(processor);
    let done = work();
    move_to(processor + 1);
    done
}

/// Where the middle of a set of values lies, and its middle half.
#[derive(Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let median =
            if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], upper) } else { upper };
        Some(Self { low: values[values.len() / 4], median, high: values[values.len() * 3 / 4] })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests stay far below 2^52")]
pub(crate) fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_between_the_middle_two() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { low: 2.0, median: 2.5, high: 4.0 });
        assert_eq!(Spread::of(vec![]), None);
    }
}
