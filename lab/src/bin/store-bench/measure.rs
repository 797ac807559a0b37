//! Slices of both sides in turn, so that whatever else the machine does falls on both alike.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::side::{Operation, Side};

/// How often a side goes before it is the other's turn.
const SLICE: usize = 10;
const WARM_UP: usize = 30;

/// The medians of slices, in microseconds: ours, and the bare one beside it.
pub(crate) struct Pairs {
    operation: Operation,
    slices: Vec<(f64, f64)>,
}

/// What is told about one operation. Times are microseconds.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    operation: &'static str,
    ours: f64,
    bare: f64,
    /// The median of the pairs' ratios, and where the middle half of them lies.
    ratio: f64,
    low: f64,
    high: f64,
    slices: usize,
}

impl Pairs {
    pub(crate) async fn measure(
        ours: &mut dyn Side,
        bare: &mut dyn Side,
        operation: Operation,
        time: Duration,
    ) -> Result<Self> {
        for _ in 0..WARM_UP {
            ours.run(operation).await?;
            bare.run(operation).await?;
        }
        let mut slices = Vec::new();
        let start = Instant::now();
        while start.elapsed() < time || slices.len() < 2 {
            // Each goes first as often as second.
            slices.push(if slices.len() % 2 == 0 {
                let first = slice(ours, operation).await?;
                (first, slice(bare, operation).await?)
            } else {
                let first = slice(bare, operation).await?;
                (slice(ours, operation).await?, first)
            });
        }
        ensure!(slices.len() > 1, "nothing was measured");
        Ok(Self { operation, slices })
    }

    pub(crate) fn row(&self) -> Row {
        let ratios = sorted(self.slices.iter().map(|(ours, bare)| ours / bare));
        Row {
            operation: self.operation.name(),
            ours: middle(&sorted(self.slices.iter().map(|(ours, _)| *ours))),
            bare: middle(&sorted(self.slices.iter().map(|(_, bare)| *bare))),
            ratio: middle(&ratios),
            low: ratios[ratios.len() / 4],
            high: ratios[ratios.len() * 3 / 4],
            slices: self.slices.len(),
        }
    }
}

async fn slice(side: &mut dyn Side, operation: Operation) -> Result<f64> {
    let mut times = Vec::with_capacity(SLICE);
    for _ in 0..SLICE {
        times.push(side.run(operation).await?.as_secs_f64() * 1e6);
    }
    Ok(middle(&sorted(times.into_iter())))
}

pub(crate) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The median of sorted values.
pub(crate) fn middle(sorted: &[f64]) -> f64 {
    let upper = sorted[sorted.len() / 2];
    if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[sorted.len() / 2 - 1], upper) } else { upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_pairs_not_that_of_medians() {
        let slices = vec![(10.0, 10.0), (20.0, 10.0), (90.0, 90.0)];
        let row = Pairs { operation: Operation::Get, slices }.row();
        assert!((row.ours - 20.0).abs() < f64::EPSILON && (row.bare - 10.0).abs() < f64::EPSILON);
        assert!((row.ratio - 1.0).abs() < f64::EPSILON);
    }
}
