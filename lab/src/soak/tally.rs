//! What is counted while it runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::fault::Fault;
use super::histogram::Histogram;
use super::visit::Kind;

/// What a client may meet while something is broken, and tries again after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Slip {
    /// No connection, or one that broke.
    Broken,
    /// No answer in time.
    Late,
    /// 502, 503 or 504.
    Unavailable,
    /// 500, or an internal error.
    Failed,
    /// 429: too many requests after a pause.
    Busy,
    /// The tool could not do its work and said so.
    Tool,
    /// A session, or a stream of one, that is gone.
    Session,
}

impl Slip {
    pub(super) const ALL: [Self; 7] =
        [Self::Broken, Self::Late, Self::Unavailable, Self::Failed, Self::Busy, Self::Tool, Self::Session];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Broken => "connection",
            Self::Late => "no answer",
            Self::Unavailable => "503",
            Self::Failed => "500",
            Self::Busy => "429",
            Self::Tool => "tool error",
            Self::Session => "session",
        }
    }
}

/// What must never happen, whatever is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Never {
    Wrong,
    Lost,
    Effects,
    Foreign,
    Accepted,
    Unprovoked,
}

impl Never {
    pub(super) const ALL: [Self; 6] =
        [Self::Wrong, Self::Lost, Self::Effects, Self::Foreign, Self::Accepted, Self::Unprovoked];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong answer",
            Self::Lost => "run, task or set lost",
            Self::Effects => "effect twice or missing",
            Self::Foreign => "data of another caller opened",
            Self::Accepted => "hostile call not rejected correctly",
            Self::Unprovoked => "failure without a fault",
        }
    }
}

/// Why a visit did not come to its right end.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) never: Never,
    pub(super) what: String,
}

impl Failure {
    pub(super) fn new(never: Never, what: impl fmt::Display) -> Self {
        Self { never, what: what.to_string() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Never::Wrong, format!("{error:#}"))
    }
}

/// All that is counted.
#[derive(Debug, Default, Clone)]
pub(super) struct Counts {
    pub(super) visits: BTreeMap<Kind, u64>,
    /// Requests that were answered in the end, and how many of them not at the first try.
    pub(super) requests: u64,
    pub(super) retried: u64,
    /// Tries that failed, by what was broken at the time.
    pub(super) slips: BTreeMap<(Slip, Option<Fault>), u64>,
    pub(super) broken_laws: BTreeMap<Never, u64>,
    pub(super) complaints: Vec<String>,
    /// From when a request was due until it was answered, all tries included.
    pub(super) latency: BTreeMap<Kind, Histogram>,
    pub(super) calm: Histogram,
    pub(super) stormy: Histogram,
    /// What was refused, and had to be.
    pub(super) refused: BTreeMap<&'static str, u64>,
    /// Visits that began later than they were due, because nobody was free.
    pub(super) late: u64,
    /// Rows that were compared, of sets that were read to their end.
    pub(super) rows: u64,
}

impl Counts {
    pub(super) fn all(&self) -> Histogram {
        let mut all = self.calm.clone();
        all.merge(&self.stormy);
        all
    }

    pub(super) fn slipped(&self) -> u64 {
        self.slips.values().sum()
    }

    pub(super) fn failures(&self) -> u64 {
        self.broken_laws.values().sum()
    }
}

/// What was counted since somebody last looked.
#[derive(Debug, Default, Clone)]
pub(super) struct Interval {
    pub(super) latency: Histogram,
    pub(super) slips: u64,
}

/// The counters, shared by all.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<(Counts, Interval)>);

/// How many failures are kept in words.
const SHOWN: usize = 40;

impl Tally {
    pub(super) fn answered(&self, kind: Kind, time: Duration, tries: u32, is_calm: bool) {
        let (counts, interval) = &mut *self.lock();
        counts.requests += 1;
        counts.retried += u64::from(tries > 1);
        counts.latency.entry(kind).or_default().add(time);
        if is_calm { &mut counts.calm } else { &mut counts.stormy }.add(time);
        interval.latency.add(time);
    }

    pub(super) fn slipped(&self, slip: Slip, cause: Option<Fault>) {
        let (counts, interval) = &mut *self.lock();
        *counts.slips.entry((slip, cause)).or_default() += 1;
        interval.slips += 1;
    }

    pub(super) fn failed(&self, who: &str, failure: &Failure) {
        let (counts, _) = &mut *self.lock();
        *counts.broken_laws.entry(failure.never).or_default() += 1;
        if counts.complaints.len() < SHOWN {
            counts.complaints.push(format!("{who}: {}: {}", failure.never.name(), failure.what));
        }
    }

    /// Changes whatever else is counted.
    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.lock().0);
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().0.clone()
    }

    pub(super) fn take_interval(&self) -> Interval {
        std::mem::take(&mut self.lock().1)
    }

    fn lock(&self) -> MutexGuard<'_, (Counts, Interval)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
