//! A part of a leg that is a span of its own.

use std::future::Future;

use tracing::{Instrument as _, Span, instrument::Instrumented};

use crate::error::Error;

/// A step or a question, told of while it lasts. Most often nothing.
#[derive(Clone, Debug)]
pub(crate) struct Spanned(pub(super) Span);

impl Spanned {
    pub(crate) fn none() -> Self {
        Self(Span::none())
    }

    /// Whatever `work` tells of belongs here.
    pub(crate) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.in_scope(work)
    }

    /// The same, of something that is waited for.
    pub(crate) fn within<F: Future>(self, work: F) -> Instrumented<F> {
        work.instrument(self.0)
    }

    /// It did not work out.
    pub(crate) fn failed(&self, error: &Error) {
        failed(&self.0, error.kind().name());
    }
}

pub(super) fn failed(span: &Span, error: &'static str) {
    span.record("error.type", error);
    span.record("otel.status_code", "ERROR");
}
