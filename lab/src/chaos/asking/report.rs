//! Prints what was found.

use std::time::Duration;

use super::Figures;
use super::client::USERS;
use super::laws::{self, Evidence};
use crate::chaos::cluster::{Cluster, Found, Report, crew};

/// Prints the numbers, and one line for each rule.
pub(super) fn print(cluster: &Cluster, time: Duration, figures: &Figures, evidence: &Evidence) -> Found {
    let (verdicts, tally) = (laws::all(evidence), laws::tally(evidence));
    let rows = vec![
        ("seed", cluster.seed),
        ("users", USERS),
        ("workers", crew::WORKERS as u64),
        ("front ends", crew::FRONTS as u64),
        ("runs", evidence.runs.len() as u64),
        ("kills", figures.killed + figures.fallen),
        ("of those, of a front end during an answer", figures.during),
        ("of those, between an effect and its record", figures.fallen),
        ("restarts of the server", figures.restarts),
        ("legs", tally.legs),
        ("effects", tally.effects),
        ("steps with an unknown outcome", tally.unknown),
        ("answers", tally.answers),
        ("of those, acknowledged", tally.taken),
        ("of those, refused as used", tally.used),
        ("of those, without an acknowledgement", tally.lost),
        ("requests without a response", figures.unanswered),
        ("calls without a result", figures.orphans),
    ];
    Report { title: "chaos asking", engine: cluster.engine, rows, time, verdicts }.print()
}
