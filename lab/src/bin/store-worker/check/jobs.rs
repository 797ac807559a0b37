//! Laws of jobs.

use std::collections::BTreeMap;

use super::{Evidence, Verdict};
use crate::note::Note;

/// By how much clocks and their reading may differ, in milliseconds.
const SLACK: u64 = 100;

pub(super) fn all(evidence: &Evidence) -> Vec<Verdict> {
    let jobs = gather(evidence);
    vec![
        every_job_is_done(evidence, &jobs),
        nothing_is_left(evidence),
        one_holder(&jobs),
        acknowledged_is_over(&jobs),
        leases_last(evidence, &jobs),
        repeats_are_redeliveries(&jobs),
        delays_are_kept(&jobs),
        payloads_are_kept(evidence),
    ]
}

/// All that was noted of one job.
#[derive(Debug, Default)]
struct Story {
    /// How often it may have been added: more than once if a push was made again after its answer was
    /// lost, for by then the job may have been done, and its id be free.
    lives: usize,
    /// When it was added, and how long it had to wait. Unknown if that was a push whose answer was lost.
    pushed: Option<(u64, u64)>,
    leased: Vec<Held>,
    /// Attempts that were extended, and when.
    extended: Vec<(u32, u64)>,
    done: Vec<u32>,
    acked: Vec<u32>,
    nacked: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    attempt: u32,
    sent: u64,
    got: u64,
}

/// Counts of what happened to jobs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) done: usize,
    /// Leases after the first.
    pub(crate) redeliveries: usize,
    /// Work that was done more than once.
    pub(crate) repeats: usize,
    /// Jobs that may have been added more than once.
    pub(crate) pushed_again: usize,
}

impl Tally {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let jobs = gather(evidence);
        Self {
            done: jobs.values().filter(|job| !job.done.is_empty()).count(),
            redeliveries: jobs.values().flat_map(|job| &job.leased).filter(|it| it.attempt > 1).count(),
            repeats: jobs.values().map(|job| job.done.len().saturating_sub(1)).sum(),
            pushed_again: jobs.values().filter(|job| job.lives > 1).count(),
        }
    }
}

type Stories<'a> = BTreeMap<&'a str, Story>;

fn gather(evidence: &Evidence) -> Stories<'_> {
    let mut jobs = Stories::new();
    for note in &evidence.notes {
        match note {
            Note::Resumed { id } | Note::MayHavePushed { id } => jobs.entry(id).or_default().lives += 1,
            Note::Pushed { id, sent, delay, added } => {
                let job = jobs.entry(id).or_default();
                if *added {
                    job.lives += 1;
                    job.pushed = Some((*sent, *delay));
                }
            }
            Note::Leased { id, attempt, sent, got } => {
                jobs.entry(id).or_default().leased.push(Held { attempt: *attempt, sent: *sent, got: *got });
            }
            Note::Extended { id, attempt, sent } => {
                jobs.entry(id).or_default().extended.push((*attempt, *sent));
            }
            Note::Done { id, attempt } => jobs.entry(id).or_default().done.push(*attempt),
            Note::Acked { id, attempt } => jobs.entry(id).or_default().acked.push(*attempt),
            Note::Nacked { id, attempt } => jobs.entry(id).or_default().nacked.push(*attempt),
            _ => {}
        }
    }
    for job in jobs.values_mut() {
        job.leased.sort_by_key(|held| held.attempt);
    }
    jobs
}

/// The jobs that were added once, and so have one story.
fn plain<'a>(jobs: &'a Stories<'_>) -> impl Iterator<Item = (&'a str, &'a Story)> {
    jobs.iter().filter(|(_, job)| job.lives <= 1).map(|(id, job)| (*id, job))
}

fn every_job_is_done(evidence: &Evidence, jobs: &Stories<'_>) -> Verdict {
    let mut verdict = Verdict::new("every job is done");
    for number in 0..evidence.jobs {
        let id = format!("job-{number}");
        let done = jobs.get(id.as_str()).is_some_and(|job| !job.done.is_empty());
        verdict.ensure(done, || format!("{id} was never done"));
    }
    verdict
}

fn nothing_is_left(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::new("no job is left over, and none is dead");
    let depth = &evidence.depth;
    verdict.ensure(depth.waiting + depth.leased + depth.dead == 0, || format!("the queue holds {depth:?}"));
    verdict
}

fn one_holder(jobs: &Stories<'_>) -> Verdict {
    let mut verdict = Verdict::new("one attempt has one holder");
    for (id, job) in jobs {
        for held in &job.leased {
            let holders = job.leased.iter().filter(|it| it.attempt == held.attempt).count();
            verdict.ensure(holders <= job.lives.max(1), || {
                format!("attempt {} of {id} was given to {holders}", held.attempt)
            });
        }
    }
    verdict
}

fn acknowledged_is_over(jobs: &Stories<'_>) -> Verdict {
    let mut verdict = Verdict::new("an acknowledged job is not given again");
    for (id, job) in jobs {
        let acked = job.acked.len();
        verdict.ensure(acked <= job.lives.max(1), || format!("{id} was acknowledged {acked} times"));
    }
    for (id, job) in plain(jobs) {
        for acked in &job.acked {
            let again = job.leased.iter().find(|held| held.attempt > *acked);
            verdict.ensure(again.is_none(), || {
                format!("{id} was acknowledged in attempt {acked}, then {again:?}")
            });
        }
    }
    verdict
}

fn leases_last(evidence: &Evidence, jobs: &Stories<'_>) -> Verdict {
    let mut verdict = Verdict::new("no job is taken over before its lease has run out");
    for (id, job) in plain(jobs) {
        for pair in job.leased.windows(2) {
            let [held, next] = pair else { continue };
            if job.nacked.contains(&held.attempt) {
                continue;
            }
            let extended = job.extended.iter().filter(|(attempt, _)| *attempt == held.attempt);
            let since = extended.map(|(_, sent)| *sent).fold(held.sent, u64::max);
            verdict.ensure(next.got + SLACK >= since + evidence.lease, || {
                format!(
                    "attempt {} of {id} was given after {} ms of a lease of {}",
                    next.attempt,
                    next.got.saturating_sub(since),
                    evidence.lease
                )
            });
        }
    }
    verdict
}

fn repeats_are_redeliveries(jobs: &Stories<'_>) -> Verdict {
    let mut verdict = Verdict::new("what was done twice was given twice");
    for (id, job) in jobs {
        for attempt in &job.done {
            let same = job.done.iter().filter(|it| *it == attempt).count();
            verdict.ensure(same <= job.lives.max(1), || {
                format!("attempt {attempt} of {id} was done {same} times")
            });
        }
    }
    verdict
}

fn delays_are_kept(jobs: &Stories<'_>) -> Verdict {
    let mut verdict = Verdict::new("no delayed job comes before its time");
    for (id, job) in plain(jobs) {
        let (Some((sent, delay)), Some(first)) = (job.pushed, job.leased.first()) else { continue };
        if delay > 0 {
            verdict.ensure(first.got + SLACK >= sent + delay, || {
                format!("{id} came after {} ms instead of {delay}", first.got.saturating_sub(sent))
            });
        }
    }
    verdict
}

fn payloads_are_kept(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::new("every job comes with its own payload");
    for note in &evidence.notes {
        match note {
            Note::Mixed { id, payload } => verdict.ensure(false, || format!("{id} came with `{payload}`")),
            Note::Leased { .. } => verdict.examined += 1,
            _ => {}
        }
    }
    verdict
}

#[cfg(test)]
mod tests;
