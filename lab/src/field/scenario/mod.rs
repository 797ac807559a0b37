//! The scenarios. Each is a function whose documentation states its pass condition.

use anyhow::Result;

use super::{Break, Client, Field, Fleet, key_ring};
use crate::services::Backend;

mod backlog;
mod clocks;
mod expiry;
mod hostile;
mod keys;
mod large;
mod lives;
mod lost_jobs;
mod newer_format;
mod sigterm;
mod skew;
mod sleep;
mod tokens;

/// A scenario, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Scenario {
    /// Runs sleep while all replicas are killed and restarted, and nobody calls.
    Sleep,
    /// One of three replicas has another key ring, an older one, a newer one; keys are rotated.
    Keys,
    /// Jobs, wake-ups and answers are deleted behind the servers' backs.
    LostJobs,
    /// A replica with calls of all kinds in flight is sent SIGTERM.
    Sigterm,
    /// Hostile inputs on every entry point, under a memory limit.
    Hostile,
    /// Runs outlive their configured life; an outage outlives every claim; an operator retries.
    Lives,
    /// Tokens end while their connections are open; a second client has fewer scopes.
    Tokens,
    /// Task records have the format of a newer version.
    NewerFormat,
    /// An older program and today's share one store.
    Skew,
    /// Records above 256 KiB are read while they are written.
    Large,
    /// The clock of one replica is an hour ahead, and another one is 20 minutes behind.
    Clocks,
    /// Two million jobs wait.
    Backlog,
    /// A million records have expired.
    Expiry,
}

impl Scenario {
    pub(super) const ALL: [Self; 13] = [
        Self::Sleep,
        Self::Keys,
        Self::LostJobs,
        Self::Sigterm,
        Self::Hostile,
        Self::Lives,
        Self::Tokens,
        Self::NewerFormat,
        Self::Skew,
        Self::Large,
        Self::Clocks,
        Self::Backlog,
        Self::Expiry,
    ];

    /// What people say on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Keys => "keys",
            Self::LostJobs => "lost-jobs",
            Self::Sigterm => "sigterm",
            Self::Hostile => "hostile",
            Self::Lives => "lives",
            Self::Tokens => "tokens",
            Self::NewerFormat => "newer-format",
            Self::Skew => "skew",
            Self::Large => "large",
            Self::Clocks => "clocks",
            Self::Backlog => "backlog",
            Self::Expiry => "expiry",
        }
    }

    /// Whether it says anything about this backend.
    pub(super) fn runs_on(self, backend: Backend) -> bool {
        match self {
            Self::Hostile | Self::Backlog | Self::Expiry => matches!(backend, Backend::Postgres),
            _ => true,
        }
    }

    /// Whether it measures time under load, so that nothing else may run beside it. In `skew`, two servers write many large
    /// records: on two cores, three backends at once take longer than the scenario waits.
    pub(super) fn is_load(self) -> bool {
        matches!(self, Self::Hostile | Self::Backlog | Self::Expiry | Self::Skew)
    }

    pub(super) fn run(self, field: &mut Field) -> Result<String> {
        match self {
            Self::Sleep => sleep::run(field),
            Self::Keys => keys::run(field),
            Self::LostJobs => lost_jobs::run(field),
            Self::Sigterm => sigterm::run(field),
            Self::Hostile => hostile::run(field),
            Self::Lives => lives::run(field),
            Self::Tokens => tokens::run(field),
            Self::NewerFormat => newer_format::run(field),
            Self::Skew => skew::run(field),
            Self::Large => large::run(field),
            Self::Clocks => clocks::run(field),
            Self::Backlog => backlog::run(field),
            Self::Expiry => expiry::run(field),
        }
    }
}
