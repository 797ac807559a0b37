//! Replacements for the telemetry items, if the feature `telemetry` is off. The replacements do nothing.

use std::future::Future;

use antiphon_replay::{Journal, Key, Machine};
use antiphon_store::Depth;
use rmcp::model::Extensions;
use serde_json::Value;

use super::{How, Outcome};
use crate::{error::Error, protocol::Revision};

/// A recorder that records nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(());

#[expect(clippy::unused_self, reason = "the same signatures with and without the feature")]
impl Recorder {
    pub(crate) fn is_on(&self) -> bool {
        false
    }

    pub(crate) fn seal_refused(&self, _: &'static str) {}

    pub(crate) fn seal_sent(&self, _: usize) {}

    pub(crate) fn shed(&self) {}

    pub(crate) fn run_begun(&self, _: &str) {}

    pub(crate) fn run_ended(&self, _: &str, _: Outcome) {}

    pub(crate) fn leased(&self, _: u32) -> Leased {
        Leased(())
    }

    pub(crate) fn depth(&self, _: Depth) {}

    pub(crate) fn task_unreadable(&self, _: &'static str) {}

    pub(crate) fn task_repaired(&self, _: &str) {}

    pub(crate) fn run_expired(&self, _: &str) {}

    #[cfg_attr(not(feature = "results"), expect(dead_code, reason = "only result sets call this function"))]
    pub(crate) fn results(&self, _: &'static str, _: u64, _: u64, _: Option<&'static str>) {}
}

pub(crate) struct Leased(());

#[expect(clippy::unused_self, reason = "the same signatures with and without the feature")]
impl Leased {
    pub(crate) fn became(&mut self, _: &'static str) {}
}

/// The span of a leg, without telemetry.
#[derive(Debug, Default)]
pub(crate) struct LegSpan(());

#[expect(clippy::unused_self, reason = "the same signatures with and without the feature")]
impl LegSpan {
    pub(crate) fn of_request(
        _: &Recorder,
        _: (Revision, &Extensions),
        _: (&'static str, &str),
        _: Option<&Journal>,
    ) -> Self {
        Self(())
    }

    pub(crate) fn of_task(_: &Recorder, _: &str, _: &str, _: u64, _: &Journal) -> Self {
        Self(())
    }

    pub(crate) fn within<F: Future>(&self, leg: F) -> F {
        leg
    }

    pub(crate) fn mark(&self, _: &mut Journal) {}

    pub(crate) fn put_place(&self, _: &mut Value) {}

    pub(crate) fn ask(&self, _: &mut Value, _: bool) -> Spanned {
        Spanned(())
    }

    pub(crate) fn answered(&self, _: &'static str, _: &'static str) {}

    pub(crate) fn step(&self, _: &Key) -> Spanned {
        Spanned(())
    }

    pub(crate) fn leaving(&self, _: &Machine) {}

    pub(crate) fn ended(&self, _: How) {}
}

/// The span of a step or question, without telemetry.
#[derive(Debug)]
pub(crate) struct Spanned(());

#[expect(clippy::unused_self, reason = "the same signatures with and without the feature")]
impl Spanned {
    pub(crate) fn none() -> Self {
        Self(())
    }

    pub(crate) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    pub(crate) fn within<F: Future>(self, work: F) -> F {
        work
    }

    pub(crate) fn failed(&self, _: &Error) {}
}

pub(crate) fn begun(_: &Extensions) -> Option<Journal> {
    None
}

pub(crate) fn put_place(_: &mut Value, _: &Journal) {}
