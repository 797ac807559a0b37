//! What must be true in the end.

use std::collections::BTreeMap;

use serde_json::Value;

use super::client::Run;
use super::evidence::{Cause, Evidence, ONCE, STEPS};
use crate::chaos::cluster::{Verdict, notes::Note};

/// What is no law, but worth telling.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) legs: u64,
    /// Legs beyond those that are needed where nobody dies.
    pub(super) more_legs: u64,
    pub(super) effects: u64,
    pub(super) repeats: BTreeMap<Cause, u64>,
    pub(super) unknown: BTreeMap<Cause, u64>,
    pub(super) stalls: u64,
}

/// Holds the evidence against every law.
pub(super) fn all(evidence: &Evidence) -> (Vec<Verdict>, Tally) {
    let mut tally = Tally::default();
    for line in &evidence.lines {
        match &line.note {
            Note::Leg { .. } => tally.legs += 1,
            Note::Effect { .. } => tally.effects += 1,
            Note::Stalled { .. } => tally.stalls += 1,
            _ => {}
        }
    }
    tally.more_legs = tally.legs.saturating_sub(evidence.runs.iter().map(|run| run.needs).sum());
    let verdicts = vec![
        every_run_has_ended(evidence),
        runs_left_alone_come_to_their_end(evidence),
        no_run_is_lost(evidence),
        every_result_is_right(evidence),
        what_was_seen_once_stays(evidence),
        at_most_once_is_at_most_once(evidence),
        unknown_only_over_a_death(evidence, &mut tally),
        repeated_only_over_a_death(evidence, &mut tally),
        results_do_not_change(evidence),
        keys_are_used_once(evidence),
    ];
    (verdicts, tally)
}

fn every_run_has_ended(evidence: &Evidence) -> Verdict {
    let open = evidence.runs.iter().filter(|run| run.end.is_none() && !run.is_left);
    let complaints = open.map(|run| format!("{} ({}) never ended", run.name, run.task)).collect();
    Verdict { law: "every run ends", examined: evidence.runs.len(), complaints }
}

/// Runs whose client started them and never looked again, and runs of which no client ever heard.
fn runs_left_alone_come_to_their_end(evidence: &Evidence) -> Verdict {
    let left = evidence.runs.iter().filter(|run| run.is_left).map(|run| (run.name.as_str(), false));
    let orphans = evidence.orphans.iter().map(|(name, asks)| (name.as_str(), *asks));
    let orphans = orphans.filter(|(name, _)| evidence.was_begun(name));
    let all: Vec<_> = left.chain(orphans).collect();
    let behind = all.iter().filter_map(|(name, asks)| evidence.is_behind(name, *asks));
    let complaints = behind.chain(evidence.stranded.iter().cloned()).collect();
    Verdict { law: "a run that is left alone comes to its end", examined: all.len(), complaints }
}

fn no_run_is_lost(evidence: &Evidence) -> Verdict {
    let complaints = evidence.runs.iter().flat_map(|run| run.lost.clone()).collect();
    Verdict { law: "a task that was created is known", examined: evidence.runs.len(), complaints }
}

/// What the tool says of a run that ended well.
fn report(run: &Run) -> Option<&Value> {
    let end = run.end.as_ref()?;
    (end["status"] == "completed" && end["result"]["isError"] != true)
        .then(|| &end["result"]["structuredContent"])
}

fn unknown_steps(report: &Value) -> Vec<&str> {
    report["unknown"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn every_result_is_right(evidence: &Evidence) -> Verdict {
    let effects = evidence.effects();
    let mut verdict =
        Verdict { law: "every result is what its steps came to", examined: 0, complaints: Vec::new() };
    for run in evidence.runs.iter().filter(|run| run.end.is_some()) {
        let Some(report) = report(run) else {
            verdict.complaints.push(format!(
                "{} ended with {}",
                run.name,
                run.end.as_ref().unwrap_or(&Value::Null)
            ));
            continue;
        };
        verdict.examined += 1;
        if report["run"] != run.name.as_str() || report["word"] != run.word.as_str() {
            verdict.complaints.push(format!("{} was given the result of another: {report}", run.name));
        }
        let unknown = unknown_steps(report);
        for step in STEPS {
            let happened = effects.get(&(run.name.as_str(), step)).map_or(&[][..], Vec::as_slice);
            let right = match report["values"][step].as_str() {
                Some(value) => happened.iter().any(|effect| effect.value == value),
                None => ONCE.contains(&step) && unknown.contains(&step),
            };
            if !right {
                verdict.complaints.push(format!("{}: `{step}` is not in the ledger as {report}", run.name));
            }
        }
    }
    verdict
}

/// A value that the tool has gone on with is the one it ends with.
fn what_was_seen_once_stays(evidence: &Evidence) -> Verdict {
    let reports: BTreeMap<&str, &Value> =
        evidence.runs.iter().filter_map(|run| Some((run.name.as_str(), report(run)?))).collect();
    let mut verdict =
        Verdict { law: "what a tool has seen it sees again", examined: 0, complaints: Vec::new() };
    for ((run, step), effects) in evidence.effects() {
        let Some(report) = reports.get(run) else { continue };
        for effect in effects {
            for (before, value) in effect.saw {
                verdict.examined += 1;
                if report["values"][before] != value.as_str() {
                    verdict.complaints.push(format!(
                        "{run}: at `{step}` the tool had seen {value} of `{before}`, and ended with {}",
                        report["values"][before]
                    ));
                }
            }
        }
    }
    verdict
}

fn at_most_once_is_at_most_once(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict { law: "at most once is at most once", examined: 0, complaints: Vec::new() };
    for ((run, step), effects) in evidence.effects() {
        if ONCE.contains(&step) {
            verdict.examined += 1;
            if effects.len() > 1 {
                verdict.complaints.push(format!("{run}: `{step}` happened {} times", effects.len()));
            }
        }
    }
    verdict
}

fn unknown_only_over_a_death(evidence: &Evidence, tally: &mut Tally) -> Verdict {
    let mut verdict =
        Verdict { law: "nobody knows only where somebody died", examined: 0, complaints: Vec::new() };
    for (run, report) in evidence.runs.iter().filter_map(|run| Some((run, report(run)?))) {
        verdict.examined += ONCE.len();
        for step in unknown_steps(report) {
            match evidence.cause_of_unknown(&run.name, step) {
                Some(cause) => *tally.unknown.entry(cause).or_default() += 1,
                None => verdict
                    .complaints
                    .push(format!("{}: nobody knows of `{step}`, and nobody died over it", run.name)),
            }
        }
    }
    verdict
}

fn repeated_only_over_a_death(evidence: &Evidence, tally: &mut Tally) -> Verdict {
    let reports: BTreeMap<&str, &Value> =
        evidence.runs.iter().filter_map(|run| Some((run.name.as_str(), report(run)?))).collect();
    let mut verdict =
        Verdict { law: "a step is repeated only where somebody died", examined: 0, complaints: Vec::new() };
    for ((run, step), effects) in evidence.effects() {
        if ONCE.contains(&step) {
            continue;
        }
        verdict.examined += effects.len();
        // Of a run whose client never heard of it, the last one is taken for the one that was written down.
        let kept = reports.get(run).and_then(|report| report["values"][step].as_str());
        let kept = kept.or_else(|| effects.last().map(|effect| effect.value));
        for effect in effects.iter().filter(|effect| Some(effect.value) != kept) {
            // What the tool was given was written down, so no fate of a leg excuses that it happened again.
            let cause = evidence.cause(effect.leg).filter(|_| !evidence.was_seen(run, step, effect.value));
            match cause {
                Some(cause) => *tally.repeats.entry(cause).or_default() += 1,
                None => verdict.complaints.push(format!(
                    "{run}: `{step}` was repeated, though leg {} of {} came to its end after it had done it at {}",
                    effect.leg, effect.process, effect.at
                )),
            }
        }
    }
    verdict
}

fn results_do_not_change(evidence: &Evidence) -> Verdict {
    let (examined, complaints) = (evidence.looked_again, evidence.changed.clone());
    Verdict { law: "a result does not change", examined, complaints }
}

fn keys_are_used_once(evidence: &Evidence) -> Verdict {
    let complaints = evidence.runs.iter().flat_map(|run| run.reused.clone()).collect();
    let examined = evidence.runs.iter().map(|run| run.keys.len()).sum();
    Verdict { law: "a key is asked once on the wire", examined, complaints }
}

#[cfg(test)]
mod tests;
