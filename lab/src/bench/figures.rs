//! What was measured, as data: every benchmark says the same of each thing it measures.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::measure::Spread;
use crate::table::thousands;

/// Microseconds of the server's processor time.
pub(super) const CPU: &str = "µs of CPU";
/// So many in a second.
pub(super) const RATE: &str = "a second";
/// Mebibytes.
pub(super) const MIB: &str = "MiB";

/// One thing that was measured: ours, and the same without us where there is such a thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) ours: f64,
    /// What `bare` is; empty where there is none.
    pub(super) beside: String,
    pub(super) bare: Option<f64>,
    /// Ours by bare; where slices were measured in turn, the median of the pairs.
    pub(super) ratio: Option<f64>,
    /// Between which ratios half of the pairs lie.
    pub(super) middle: Option<(f64, f64)>,
    pub(super) asked: Option<Asked>,
    /// What an operator can plan with it, if anything.
    pub(super) sizing: Option<String>,
}

/// What a figure is held to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Asked {
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// Of ours alone, in its unit.
    AtMost(f64),
}

impl Figure {
    pub(super) fn new(name: impl Into<String>, unit: &str, ours: f64) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            ours,
            beside: String::new(),
            bare: None,
            ratio: None,
            middle: None,
            asked: None,
            sizing: None,
        }
    }

    /// Sets it beside what somebody else took for the same.
    pub(super) fn beside(mut self, who: &str, bare: f64) -> Self {
        self.beside = who.into();
        self.bare = Some(bare);
        // Nothing at all is nothing to compare with.
        self.ratio = (bare > 0.0).then(|| self.ours / bare);
        self
    }

    /// Takes the ratio from pairs of slices, on which a slow moment of the machine falls alike.
    pub(super) fn paired(mut self, ratio: &Spread) -> Self {
        self.ratio = Some(ratio.median);
        self.middle = Some((ratio.low, ratio.high));
        self
    }

    pub(super) fn asked(mut self, asked: impl Into<Option<Asked>>) -> Self {
        self.asked = asked.into();
        self
    }

    pub(super) fn sizing(mut self, what: impl Into<String>) -> Self {
        self.sizing = Some(what.into());
        self
    }

    /// Whether it is as good as was asked for; `None` where nothing was.
    pub(super) fn is_met(&self) -> Option<bool> {
        Some(match self.asked? {
            Asked::RatioAtMost(limit) => self.ratio.is_some_and(|ratio| ratio <= limit),
            Asked::RatioAtLeast(limit) => self.ratio.is_some_and(|ratio| ratio >= limit),
            Asked::AtMost(limit) => self.ours <= limit,
        })
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtMost(limit) | Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::RatioAtLeast(limit) => write!(f, "at least {limit}"),
        }
    }
}

/// What is not as good as was asked for, in words.
pub(super) fn missed(figures: &[Figure]) -> Vec<String> {
    let missed = figures.iter().filter(|figure| figure.is_met() == Some(false));
    let said = missed.filter_map(|figure| {
        let asked = figure.asked?;
        let found = match asked {
            Asked::AtMost(_) => format!("{} {}", short(figure.ours), figure.unit),
            Asked::RatioAtMost(_) | Asked::RatioAtLeast(_) => {
                format!("{} times {}", figure.ratio.map_or_else(|| "no".into(), short), figure.beside)
            }
        };
        Some(format!("{}: {found}, {asked}", figure.name))
    });
    said.collect()
}

/// Three digits or more, with commas between thousands.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        small if small < 0.0995 => format!("{value:.3}"),
        small if small < 9.995 => format!("{value:.2}"),
        middle if middle < 99.95 => format!("{value:.1}"),
        _ => thousands(&format!("{value:.0}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_met_or_missed_and_one_not_asked_for_is_neither() {
        let figure =
            |asked: Option<Asked>| Figure::new("get", "µs", 120.0).beside("redis", 100.0).asked(asked);
        assert_eq!(figure(None).is_met(), None);
        assert_eq!(figure(Some(Asked::RatioAtMost(1.25))).is_met(), Some(true));
        assert_eq!(figure(Some(Asked::RatioAtMost(1.15))).is_met(), Some(false));
        assert_eq!(figure(Some(Asked::RatioAtLeast(1.3))).is_met(), Some(false));
        assert_eq!(figure(Some(Asked::AtMost(200.0))).is_met(), Some(true));
        // A ratio that could not be had does not pass for a good one.
        let alone = Figure::new("get", "µs", 1.0).beside("redis", 0.0).asked(Asked::RatioAtMost(1.0));
        assert_eq!(alone.is_met(), Some(false));
    }

    #[test]
    fn what_is_missed_is_said_with_its_limit() {
        let slow = Figure::new("get", "µs", 150.0).beside("redis", 100.0).asked(Asked::RatioAtMost(1.25));
        let late = Figure::new("p50", "ms", 21.0).asked(Asked::AtMost(20.0));
        let fine = Figure::new("p99", "ms", 21.0).asked(Asked::AtMost(200.0));
        assert_eq!(
            missed(&[slow, late, fine]),
            ["get: 1.50 times redis, at most 1.25", "p50: 21.0 ms, at most 20"]
        );
    }

    #[test]
    fn pairs_decide_the_ratio() {
        let spread = Spread { low: 1.01, median: 1.05, high: 1.1 };
        let figure = Figure::new("call", CPU, 60.0).beside("rmcp", 50.0).paired(&spread);
        assert_eq!((figure.ratio, figure.middle), (Some(1.05), Some((1.01, 1.1))));
    }

    #[test]
    fn numbers_are_short_and_have_commas() {
        let shown: Vec<String> = [0.0123, 1.0, 9.996, 99.96, 999.6, 1_234_567.0].map(short).into();
        assert_eq!(shown, ["0.012", "1.00", "10.0", "100", "1,000", "1,234,567"]);
    }
}
