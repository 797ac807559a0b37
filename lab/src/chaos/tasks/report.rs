//! Says what was found.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::evidence::{Cause, Evidence};
use super::laws::{self, Verdict};
use super::{Figures, crew};
use crate::table::Table;

const SHOWN: usize = 5;

/// Prints the figures and one line a law; fails if one was broken.
pub(super) fn print(
    engine: &str,
    seed: u64,
    time: Duration,
    figures: &Figures,
    evidence: &Evidence,
) -> Result<()> {
    let (verdicts, tally) = laws::all(evidence);
    let of = |counts: &BTreeMap<Cause, u64>, cause: Cause| counts.get(&cause).copied().unwrap_or(0);
    let mut table = Table::new(["chaos tasks", engine]);
    let rows = [
        ("seed", seed),
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
    for (name, value) in rows {
        table.row([name.into(), value.to_string()]);
    }
    table.row(["wall time".into(), format!("{:.1} s", time.as_secs_f64())]);
    println!("{table}");
    for Verdict { law, examined, complaints } in &verdicts {
        let result =
            if complaints.is_empty() { "ok".into() } else { format!("BROKEN {} times", complaints.len()) };
        println!("  {law:<58} {examined:>7} {result:>4}");
        for complaint in complaints.iter().take(SHOWN) {
            println!("    {complaint}");
        }
    }
    let failed = verdicts.iter().filter(|it| !it.complaints.is_empty()).count();
    println!("\n{} passed, {failed} failed", verdicts.len() - failed);
    ensure!(failed == 0, "{failed} laws were broken");
    let idle: Vec<&str> = verdicts.iter().filter(|it| it.examined == 0).map(|it| it.law).collect();
    ensure!(idle.is_empty(), "nothing was held against: {}", idle.join(", "));
    Ok(())
}
