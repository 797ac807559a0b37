//! Laws of records and logs.

use std::collections::{HashMap, HashSet};

use super::{Entry, Evidence, Verdict, last_noted};
use crate::note::{Note, Op};

pub(super) fn all(evidence: &Evidence) -> Vec<Verdict> {
    vec![
        updates_are_kept(evidence),
        one_winner(evidence),
        updates_follow_each_other(evidence),
        appends_are_kept(evidence),
        appends_are_whole(evidence),
        nothing_else_was_written(evidence),
        reads_never_go_back(evidence),
    ]
}

fn updates_are_kept(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::new("no acknowledged update is lost");
    for note in &evidence.notes {
        if let Note::Wrote { key, op, place, .. } = note {
            let found = evidence.records.get(key).and_then(|history| history.get(*place));
            verdict.ensure(found == Some(op), || {
                format!("`{key}` has {found:?} as number {place}, where {op} was acknowledged")
            });
        }
    }
    verdict
}

fn one_winner(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::new("no two winners of one revision");
    let (mut winners, mut revisions) = (HashMap::new(), HashMap::new());
    for note in &evidence.notes {
        if let Note::Wrote { key, op, expected, revision, .. } = note {
            let other = winners.insert((key, expected), op);
            verdict.ensure(other.is_none(), || {
                format!("{op} and {other:?} were both acknowledged on `{key}` at revision {expected:?}")
            });
            let other = revisions.insert((key, revision), op);
            verdict
                .ensure(other.is_none(), || format!("{op} and {other:?} made `{key}` revision {revision}"));
        }
    }
    verdict
}

fn updates_follow_each_other(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::new("each update replaced the revision it named");
    let made: HashMap<(&String, usize), u64> = evidence
        .notes
        .iter()
        .filter_map(|note| match note {
            Note::Wrote { key, place, revision, .. } => Some(((key, *place), *revision)),
            _ => None,
        })
        .collect();
    for note in &evidence.notes {
        let Note::Wrote { key, op, place, expected, .. } = note else { continue };
        let before = place.checked_sub(1).map(|place| made.get(&(key, place)));
        match before {
            None => verdict
                .ensure(expected.is_none(), || format!("{op} is first in `{key}` but replaced {expected:?}")),
            Some(Some(revision)) => verdict.ensure(*expected == Some(*revision), || {
                format!("{op} on `{key}` replaced {expected:?}, but before it was {revision}")
            }),
            // The one before was never acknowledged, so its revision is not known.
            Some(None) => {}
        }
    }
    verdict
}

fn appends_are_kept(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::new("no acknowledged append is lost or moved");
    for note in &evidence.notes {
        if let Note::Appended { log, op, at, count } = note {
            let entries = evidence.logs.get(log).map_or(&[][..], Vec::as_slice);
            let there = entries.iter().skip(usize::try_from(*at).unwrap_or(usize::MAX));
            let ours = (1..=*count).map(|part| Entry { op: *op, part, count: *count });
            let kept = there.take(usize::try_from(*count).unwrap_or(0)).copied().eq(ours);
            verdict
                .ensure(kept, || format!("`{log}` has something else at {at}, where {op} was acknowledged"));
        }
    }
    verdict
}

fn appends_are_whole(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::new("an append is there whole or not at all");
    for (log, entries) in &evidence.logs {
        let mut rest = entries.as_slice();
        while let Some(first) = rest.first() {
            let whole = (1..=first.count).map(|part| Entry { op: first.op, part, count: first.count });
            let parts = rest.iter().take_while(|it| it.op == first.op).count();
            let (run, others) = rest.split_at(parts);
            verdict.ensure(run.iter().copied().eq(whole), || {
                format!("`{log}` has {parts} of the {} entries of {}", first.count, first.op)
            });
            rest = others;
        }
    }
    verdict
}

/// A write that nobody noted can only be the last of a task that was killed before it could note it.
fn nothing_else_was_written(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::new("nothing was written but what was wanted, and that once");
    let mut wanted: HashMap<Op, &str> = HashMap::new();
    for note in &evidence.notes {
        match note {
            Note::Wrote { key: name, op, .. }
            | Note::MayHaveWritten { key: name, op }
            | Note::Appended { log: name, op, .. }
            | Note::MayHaveAppended { log: name, op, .. } => wanted.insert(*op, name),
            _ => None,
        };
    }
    let last = last_noted(&evidence.notes);
    let records = evidence.records.iter().flat_map(|(key, ops)| ops.iter().map(move |op| (key, *op)));
    let firsts = |(log, entries)| {
        let entries: &Vec<Entry> = entries;
        entries.iter().filter(|entry| entry.part == 1).map(move |entry| (log, entry.op))
    };
    let (mut seen, mut strangers) = (HashSet::new(), HashSet::new());
    for (name, op) in records.chain(evidence.logs.iter().flat_map(firsts)) {
        verdict.ensure(seen.insert(op), || format!("{op} is there twice, once in `{name}`"));
        if let Some(place) = wanted.get(&op) {
            verdict.ensure(place == name, || format!("{op} is in `{name}`, but was for `{place}`"));
        } else {
            let is_last = op.3 > last.get(&op.task()).copied().unwrap_or(0);
            verdict.ensure(is_last && strangers.insert(op.task()), || {
                format!("`{name}` has {op}, which its writer was told had failed")
            });
        }
    }
    verdict
}

fn reads_never_go_back(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::new("what was seen is seen by every later read");
    verdict.examined = evidence.records.values().map(Vec::len).sum();
    for note in &evidence.notes {
        if let Note::WentBack { name, had, saw } = note {
            verdict.ensure(false, || format!("`{name}` was {had} long and then {saw}"));
        }
    }
    verdict
}

#[cfg(test)]
mod tests;
