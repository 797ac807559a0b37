//! The rules that the evidence must follow in the end.

use std::collections::{BTreeMap, BTreeSet};

use super::run::{Checks, Reply, Run};
use crate::chaos::cluster::Verdict;
use crate::chaos::cluster::notes::{Line, Note};

pub(super) const ENDS: &str = "every run ends";
pub(super) const OWNER: &str = "only the owner of a question answers it";
pub(super) const ONCE: &str = "a question is answered once";
pub(super) const EFFECT: &str = "an effect happens at most once";

/// The questions and the steps of a run. Only a run that asks twice has the last of each.
const QUESTIONS: [&str; 2] = ["word", "second_word"];
const STEPS: [&str; 3] = ["begin", "use", "use_again"];

/// What is known in the end.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) runs: Vec<Run>,
    pub(super) lines: Vec<Line>,
    /// How often a result was read again, and the results that were different.
    pub(super) looked_again: Checks,
    /// Runs that operators still see at work.
    pub(super) stranded: Vec<String>,
}

/// Numbers for the report.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) legs: u64,
    pub(super) effects: u64,
    pub(super) unknown: u64,
    pub(super) answers: u64,
    pub(super) taken: u64,
    pub(super) used: u64,
    pub(super) lost: u64,
}

/// Applies every rule to the evidence.
pub(super) fn all(evidence: &Evidence) -> Vec<Verdict> {
    let runs = &evidence.runs;
    vec![
        every_run_ends(runs),
        every_result_follows_from_its_answers(evidence),
        no_acknowledged_answer_is_lost(runs),
        questions_are_answered_once(evidence),
        same_answers_are_acknowledged_again(runs),
        only_owners_answer(evidence),
        no_reply_names_another_task(runs),
        effects_happen_at_most_once(evidence),
        observed("tasks, tickets and forms are good on every replica", runs, |run| &run.known),
        observed("a waiting result names its task in text and in data", runs, |run| &run.waiting),
        observed("an answer that does not fit uses nothing up", runs, |run| &run.misfits),
        results_do_not_change(evidence),
        no_run_is_left_without_a_worker(evidence),
    ]
}

/// Counts what the report shows.
pub(super) fn tally(evidence: &Evidence) -> Tally {
    let mut tally = Tally::default();
    for line in &evidence.lines {
        match &line.note {
            Note::Leg { .. } => tally.legs += 1,
            Note::Effect { .. } => tally.effects += 1,
            Note::Unknown { .. } => tally.unknown += 1,
            _ => {}
        }
    }
    for (_, reply) in questions(&evidence.runs).flat_map(|(_, _, replies, _)| replies) {
        tally.answers += 1;
        match reply {
            Reply::Taken => tally.taken += 1,
            Reply::Used => tally.used += 1,
            Reply::Lost => tally.lost += 1,
        }
    }
    tally
}

type Asked<'a> = (&'a Run, &'a str, &'a [(String, Reply)], &'a [String]);

/// Returns all questions: the run, the wire key, the replies to the owner's answers, and the answers of other users.
fn questions(runs: &[Run]) -> impl Iterator<Item = Asked<'_>> {
    runs.iter().flat_map(|run| {
        let questions = run.questions.iter();
        questions.map(move |(wire, it)| (run, wire.as_str(), it.replies.as_slice(), it.foreign.as_slice()))
    })
}

/// Returns the answers that the server acknowledged.
fn acknowledged(replies: &[(String, Reply)]) -> impl Iterator<Item = &str> {
    replies.iter().filter(|(_, reply)| *reply == Reply::Taken).map(|(word, _)| word.as_str())
}

/// Returns the verdict on what the clients checked themselves.
fn observed(law: &'static str, runs: &[Run], checks: impl Fn(&Run) -> &Checks) -> Verdict {
    let examined = runs.iter().map(|run| checks(run).examined).sum();
    let complaints = runs.iter().flat_map(|run| checks(run).complaints.clone()).collect();
    Verdict { law, examined, complaints }
}

fn every_run_ends(runs: &[Run]) -> Verdict {
    let open = runs.iter().filter(|run| run.end.is_none());
    let open = open.map(|run| format!("{} ({}) did not end: {}", run.name, run.task, run.last));
    Verdict { law: ENDS, examined: runs.len(), complaints: open.collect() }
}

fn every_result_follows_from_its_answers(evidence: &Evidence) -> Verdict {
    let mut checks = Checks::default();
    let effects = effects(&evidence.lines);
    for run in &evidence.runs {
        let Some(end) = &run.end else { continue };
        let finding = run.finding();
        checks.check(finding.is_some_and(|finding| finding["run"] == run.name.as_str()), || {
            format!("{} ended with {end}", run.name)
        });
        let Some(finding) = finding else { continue };
        let asked = if run.asks_twice { 2 } else { 1 };
        let words: Vec<&str> = QUESTIONS[..asked].iter().filter_map(|key| run.word(key)).collect();
        let text = format!("{}: {}", run.name, words.join(" and "));
        checks.check(words.len() == asked && finding["text"] == text.as_str(), || {
            format!("{} returned {}, not `{text}`", run.name, finding["text"])
        });
        let unknown = finding["unknown"].as_array();
        for step in &STEPS[..=asked] {
            let happened = effects.get(&(run.name.as_str(), *step)).map_or(&[][..], Vec::as_slice);
            let is_right = match finding["values"][*step].as_str() {
                Some(value) => happened.contains(&value),
                None => unknown.is_some_and(|unknown| unknown.iter().any(|it| it == *step)),
            };
            checks.check(is_right, || format!("{}: `{step}` is not in the ledger as {finding}", run.name));
        }
    }
    of("every result follows from its answers", checks)
}

/// If a run did not end, the acknowledged answer had no effect, so it is lost.
fn no_acknowledged_answer_is_lost(runs: &[Run]) -> Verdict {
    let mut checks = Checks::default();
    for (run, wire, replies, _) in questions(runs) {
        let Some(first) = acknowledged(replies).next() else { continue };
        let word = run.word(wire);
        checks.check(word == Some(first), || {
            format!("{}: `{first}` was acknowledged for `{wire}`, and the result has {word:?}", run.name)
        });
    }
    of("an acknowledged answer is not lost", checks)
}

/// One answer is acknowledged, the tool receives one answer in all its legs, and effects use this answer.
fn questions_are_answered_once(evidence: &Evidence) -> Verdict {
    let mut checks = Checks::default();
    for (run, wire, replies, _) in questions(&evidence.runs) {
        let words: BTreeSet<&str> = acknowledged(replies).collect();
        checks.check(words.len() <= 1, || format!("{}: `{wire}` has the answers {words:?}", run.name));
        // If no answer was acknowledged, one of those that were sent was taken.
        if let Some(word) = run.word(wire).filter(|_| words.is_empty()) {
            let is_sent = replies.iter().any(|(sent, _)| sent == word);
            checks.check(is_sent, || format!("{}: nobody answered `{wire}` with `{word}`", run.name));
        }
    }
    let mut given: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for run in &evidence.runs {
        let words = QUESTIONS.iter().filter_map(|key| Some((*key, run.word(key)?)));
        for (key, word) in words {
            given.entry((&run.name, key)).or_default().insert(word);
        }
    }
    for line in &evidence.lines {
        match &line.note {
            Note::Saw { run, step, value } if QUESTIONS.contains(&step.as_str()) => {
                given.entry((run, step)).or_default().insert(value);
            }
            Note::Effect { run, saw, .. } => {
                for (key, word) in saw.iter().filter(|(key, _)| QUESTIONS.contains(&key.as_str())) {
                    given.entry((run, key)).or_default().insert(word);
                }
            }
            _ => {}
        }
    }
    for ((run, key), words) in given {
        checks.check(words.len() == 1, || format!("{run}: the tool received {words:?} for `{key}`"));
    }
    of(ONCE, checks)
}

/// The answer in the result is acknowledged however often it is sent, and no other answer is.
fn same_answers_are_acknowledged_again(runs: &[Run]) -> Verdict {
    let mut checks = Checks::default();
    for (run, wire, replies, _) in questions(runs).filter(|(_, _, replies, _)| replies.len() > 1) {
        let Some(word) = run.word(wire) else { continue };
        for (sent, reply) in replies.iter().filter(|(_, reply)| *reply != Reply::Lost) {
            let expected = if sent == word { Reply::Taken } else { Reply::Used };
            checks.check(*reply == expected, || {
                format!("{}: `{sent}` for `{wire}` was {reply:?}, and the result has `{word}`", run.name)
            });
        }
    }
    of("the same answers are acknowledged again, others are not", checks)
}

fn only_owners_answer(evidence: &Evidence) -> Verdict {
    let Verdict { examined, complaints, .. } = observed(OWNER, &evidence.runs, |run| &run.foreign);
    let mut checks = Checks { examined, complaints };
    let foreign = questions(&evidence.runs).flat_map(|(_, _, _, foreign)| foreign);
    let foreign: BTreeSet<&str> = foreign.map(String::as_str).collect();
    for (run, wire, ..) in questions(&evidence.runs) {
        if let Some(word) = run.word(wire) {
            checks.check(!foreign.contains(word), || {
                format!("{}: another user answered `{wire}` with `{word}`", run.name)
            });
        }
    }
    for line in &evidence.lines {
        if let Note::Saw { run, value, .. } = &line.note
            && foreign.contains(value.as_str())
        {
            checks.complaints.push(format!("{run}: the tool received `{value}` of another user"));
        }
    }
    of(OWNER, checks)
}

fn no_reply_names_another_task(runs: &[Run]) -> Verdict {
    let law = "no reply names another user's task";
    let Verdict { examined, complaints, .. } = observed(law, runs, |run| &run.secrets);
    let mut checks = Checks { examined, complaints };
    let owners: BTreeMap<&str, &str> =
        runs.iter().map(|run| (run.task.as_str(), run.user.as_str())).collect();
    for run in runs {
        for (task, owner) in run.listed.iter().filter_map(|task| Some((task, owners.get(task.as_str())?))) {
            checks.check(*owner == run.user, || {
                format!("{}: `{}` was shown {task} of `{owner}`", run.name, run.user)
            });
        }
    }
    of(law, checks)
}

fn effects_happen_at_most_once(evidence: &Evidence) -> Verdict {
    let mut checks = Checks::default();
    for ((run, step), values) in effects(&evidence.lines) {
        checks.check(values.len() == 1, || format!("{run}: `{step}` happened {} times", values.len()));
    }
    of(EFFECT, checks)
}

fn results_do_not_change(evidence: &Evidence) -> Verdict {
    of("a result does not change", evidence.looked_again.clone())
}

fn no_run_is_left_without_a_worker(evidence: &Evidence) -> Verdict {
    let (examined, complaints) = (evidence.runs.len(), evidence.stranded.clone());
    Verdict { law: "no run is left without a worker", examined, complaints }
}

fn of(law: &'static str, Checks { examined, complaints }: Checks) -> Verdict {
    Verdict { law, examined, complaints }
}

/// Returns the values of the effects of each run and step.
fn effects(lines: &[Line]) -> BTreeMap<(&str, &str), Vec<&str>> {
    let mut effects: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for line in lines {
        if let Note::Effect { run, step, value, .. } = &line.note {
            effects.entry((run, step)).or_default().push(value);
        }
    }
    effects
}

#[cfg(test)]
mod tests;
