//! What came of it, as it is kept.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use super::Options;
use super::fault::Fault;
use super::histogram::Histogram;
use super::memory::Memory;
use super::samples::Sample;
use super::tally::{Counts, Never, Slip};
use super::visit::Kind;
use super::window::Window;
use crate::chaos::ledger::Audit;
use crate::place::{Machine, Source};
use crate::project::Project;

/// All figures.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    pub(super) about: About,
    pub(super) visits: BTreeMap<Kind, u64>,
    /// Requests that were answered, and how many of them not at the first try.
    pub(super) requests: u64,
    pub(super) retried: u64,
    /// Visits that began late because nobody was free.
    pub(super) late: u64,
    pub(super) latency: Vec<Latency>,
    pub(super) slips: Vec<Slipped>,
    pub(super) broken_laws: BTreeMap<Never, u64>,
    pub(super) complaints: Vec<String>,
    pub(super) refused: BTreeMap<&'static str, u64>,
    /// Rows of result sets that were compared.
    pub(super) rows: u64,
    pub(super) effects: Effects,
    /// Batches of spans that were sent.
    pub(super) spans: u64,
    pub(super) faults: BTreeMap<Fault, u64>,
    pub(super) windows: Vec<Span>,
    pub(super) memory: Option<Memory>,
    pub(super) samples: Vec<Sample>,
}

/// Which run it was.
#[derive(Debug, Default, Serialize)]
pub(super) struct About {
    pub(super) commit: String,
    pub(super) machine: String,
    pub(super) build: String,
    pub(super) store: &'static str,
    pub(super) rate: u64,
    pub(super) seed: u64,
    pub(super) seconds: f64,
}

/// How long requests took, in milliseconds from when they were due, all tries included.
#[derive(Debug, Serialize)]
pub(super) struct Latency {
    pub(super) of: &'static str,
    pub(super) requests: u64,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) p999: Option<f64>,
}

/// Tries that failed.
#[derive(Debug, Serialize)]
pub(super) struct Slipped {
    pub(super) slip: Slip,
    /// What was broken at the time.
    pub(super) during: Option<Fault>,
    pub(super) count: u64,
}

/// What the ledger says.
#[derive(Debug, Default, Serialize)]
pub(super) struct Effects {
    pub(super) all: u64,
    /// Those of which nobody knows, and how many of them happened.
    pub(super) unknown: u64,
    pub(super) unknown_happened: u64,
}

/// When something was broken, in seconds since the beginning.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Span {
    pub(super) fault: Fault,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Figures {
    pub(super) fn new(counts: &Counts, samples: &[Sample], audit: &Audit) -> Self {
        let whole = [("all", counts.all()), ("all, without a fault", counts.calm.clone())];
        let rest = [("all, during a fault", counts.stormy.clone())];
        let each =
            Kind::ALL.into_iter().filter_map(|kind| Some((kind.name(), counts.latency.get(&kind)?.clone())));
        let latency = whole.into_iter().chain(rest).chain(each);
        let mut broken_laws = counts.broken_laws.clone();
        let mut complaints = counts.complaints.clone();
        if !audit.problems.is_empty() {
            *broken_laws.entry(Never::Effects).or_default() += audit.problems.len() as u64;
            complaints.extend(audit.problems.iter().take(20).cloned());
        }
        Self {
            visits: counts.visits.clone(),
            requests: counts.requests,
            retried: counts.retried,
            late: counts.late,
            latency: latency.map(|(of, times)| Latency::new(of, &times)).collect(),
            slips: counts
                .slips
                .iter()
                .map(|((slip, during), count)| Slipped { slip: *slip, during: *during, count: *count })
                .collect(),
            broken_laws,
            complaints,
            refused: counts.refused.clone(),
            rows: counts.rows,
            effects: Effects {
                all: audit.effects,
                unknown: audit.unknown,
                unknown_happened: audit.unknown_happened,
            },
            memory: Some(Memory::of(samples)),
            samples: samples.to_vec(),
            ..Self::default()
        }
    }
}

impl Latency {
    fn new(of: &'static str, times: &Histogram) -> Self {
        let [p50, p99, p999] = [500, 990, 999].map(|share| times.permille(share));
        Self { of, requests: times.total(), p50, p99, p999 }
    }
}

impl About {
    pub(super) fn new(project: &Project, options: &Options, seed: u64) -> Result<Self> {
        let build = match (&options.binary, options.dev) {
            (Some(_), _) => "as given",
            (None, true) => "dev",
            (None, false) => "release",
        };
        Ok(Self {
            commit: Source::read(project)?.short(),
            machine: Machine::read()?.short(),
            build: build.into(),
            store: options.store.engine().name(),
            rate: options.rate,
            seed,
            seconds: 0.0,
        })
    }
}

/// The windows by the clock of the samples.
pub(super) fn windows(windows: &[Window], began: Instant) -> Vec<Span> {
    let seconds = |at: Instant| at.saturating_duration_since(began).as_secs_f64();
    let span = |window: &Window| Span {
        fault: window.fault,
        from: seconds(window.from),
        to: seconds(window.to.unwrap_or(window.from)),
    };
    windows.iter().map(span).collect()
}
