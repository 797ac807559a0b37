//! Spans of steps and questions.

use std::future::Future;

use tracing::{Instrument as _, Span, instrument::Instrumented};

use crate::error::Error;

/// The span of a step or a question. The span is disabled if, for example, no subscriber collects spans.
#[derive(Clone, Debug)]
pub(crate) struct Spanned(pub(super) Span);

impl Spanned {
    pub(crate) fn none() -> Self {
        Self(Span::none())
    }

    /// Runs `work` inside the span.
    pub(crate) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.in_scope(work)
    }

    /// Runs a future inside the span.
    pub(crate) fn within<F: Future>(self, work: F) -> Instrumented<F> {
        work.instrument(self.0)
    }

    /// Records an error in the span.
    pub(crate) fn failed(&self, error: &Error) {
        failed(&self.0, error.kind().name());
    }
}

pub(super) fn failed(span: &Span, error: &'static str) {
    span.record("error.type", error);
    span.record("otel.status_code", "ERROR");
}
