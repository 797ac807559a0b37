//! Says what was found.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::{
    Plan,
    check::{self, Evidence, Verdict},
    note::Note,
    survey,
};

const SHOWN: usize = 5;

/// Checks everything and prints one line a law; fails if one was broken.
pub(crate) async fn run(plan: &Plan) -> Result<()> {
    let evidence = survey::evidence(plan).await?;
    for (what, count) in counts(&evidence) {
        println!("  {what:<58} {count:>7}");
    }
    println!();
    let verdicts = check::all(&evidence);
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

fn counts(evidence: &Evidence) -> Vec<(&'static str, usize)> {
    let mut notes: BTreeMap<&str, usize> = BTreeMap::new();
    for note in &evidence.notes {
        *notes.entry(kind(note)).or_default() += 1;
    }
    let of = |kind: &str| notes.get(kind).copied().unwrap_or(0);
    let tally = check::tally(evidence);
    vec![
        ("updates acknowledged", of("wrote")),
        ("appends acknowledged", of("appended")),
        ("writes whose answer was lost", of("lost")),
        ("records", evidence.records.len()),
        ("jobs done", tally.done),
        ("leases after the first", tally.redeliveries),
        ("jobs done again after a redelivery", tally.repeats),
        ("jobs pushed again after a lost answer", tally.pushed_again),
        ("leases extended", of("extended")),
        ("leases lost", of("lease lost")),
    ]
}

fn kind(note: &Note) -> &'static str {
    match note {
        Note::Wrote { .. } => "wrote",
        Note::Appended { .. } => "appended",
        Note::MayHaveWritten { .. } | Note::MayHaveAppended { .. } => "lost",
        Note::Extended { .. } => "extended",
        Note::LeaseLost { .. } => "lease lost",
        _ => "else",
    }
}
