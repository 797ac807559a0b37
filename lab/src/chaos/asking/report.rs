//! Prints what was found.

use std::time::Duration;

use super::Figures;
use super::client::USERS;
use super::laws::{self, Evidence, Verdict};
use crate::chaos::tasks::crew;
use crate::table::Table;

const SHOWN: usize = 5;

/// The rules that were broken, and the rules that applied to nothing.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) broken: Vec<&'static str>,
    pub(super) idle: Vec<&'static str>,
}

/// Prints the numbers, and one line for each rule.
pub(super) fn print(
    engine: &str,
    seed: u64,
    time: Duration,
    figures: &Figures,
    evidence: &Evidence,
) -> Found {
    let (verdicts, tally) = (laws::all(evidence), laws::tally(evidence));
    let mut table = Table::new(["chaos asking", engine]);
    let rows = [
        ("seed", seed),
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
    let named = |is_meant: fn(&Verdict) -> bool| {
        verdicts.iter().filter(|verdict| is_meant(verdict)).map(|verdict| verdict.law).collect::<Vec<_>>()
    };
    let broken = named(|verdict| !verdict.complaints.is_empty());
    println!("\n{} passed, {} failed", verdicts.len() - broken.len(), broken.len());
    Found { broken, idle: named(|verdict| verdict.examined == 0) }
}
