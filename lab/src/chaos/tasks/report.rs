//! Says what was found.

use std::collections::BTreeMap;
use std::time::Duration;

use super::evidence::{Cause, Evidence};
use super::{Figures, laws};
use crate::chaos::cluster::{Cluster, Found, Report, crew};

/// Prints the figures and one line a law.
pub(super) fn print(cluster: &Cluster, time: Duration, figures: &Figures, evidence: &Evidence) -> Found {
    let (verdicts, tally) = laws::all(evidence);
    let of = |counts: &BTreeMap<Cause, u64>, cause: Cause| counts.get(&cause).copied().unwrap_or(0);
    let rows = vec![
        ("seed", cluster.seed),
        ("workers", crew::WORKERS as u64),
        ("front ends", crew::FRONTS as u64),
        ("runs", evidence.runs.len() as u64),
        ("kills", figures.killed + figures.fallen),
        ("of those, between an effect and its record", figures.fallen),
        ("restarts of the server", figures.restarts),
        ("legs", tally.legs),
        ("legs beyond those needed", tally.more_legs),
        ("effects", tally.effects),
        ("steps repeated over a death", of(&tally.repeats, Cause::Death)),
        ("steps repeated while the server was away", of(&tally.repeats, Cause::Absence)),
        ("steps repeated after a stall", of(&tally.repeats, Cause::Stall)),
        ("indeterminate over a death", of(&tally.unknown, Cause::Death)),
        ("indeterminate while the server was away", of(&tally.unknown, Cause::Absence)),
        ("indeterminate after a stall", of(&tally.unknown, Cause::Stall)),
        ("requests nobody answered", figures.unanswered),
        ("runs whose client left", evidence.runs.iter().filter(|run| run.is_left).count() as u64),
        ("calls that may have begun a run", figures.orphans),
        ("times a process stalled", tally.stalls),
    ];
    Report { title: "chaos tasks", engine: cluster.engine, rows, time, verdicts }.print()
}
