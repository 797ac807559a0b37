//! Replacements for the items of the module `on`. The replacements do nothing.

use std::{future::Future, sync::Arc};

use antiphon_llm::Model;
use serde_json::Value;

use crate::error::Error;

/// Telemetry that is disabled.
#[derive(Clone, Default)]
pub(crate) struct Telling(());

#[expect(clippy::unused_self, reason = "the same signatures with and without the feature")]
impl Telling {
    pub(crate) fn model(&self, model: Arc<dyn Model>) -> Arc<dyn Model> {
        model
    }

    pub(crate) fn call(&self, _: &str) -> Spanned {
        Spanned
    }

    pub(crate) fn request(&self, _: &str, _: &mut Value) -> RequestSpan {
        RequestSpan
    }

    pub(crate) fn answer(&self, _: &str, _: &Value) -> Spanned {
        Spanned
    }
}

pub(crate) struct Spanned;

#[expect(clippy::unused_self, reason = "the same signatures with and without the feature")]
impl Spanned {
    pub(crate) fn within<F: Future>(self, work: F) -> F {
        work
    }
}

pub(crate) struct RequestSpan;

#[expect(clippy::unused_self, reason = "the same signatures with and without the feature")]
impl RequestSpan {
    pub(crate) fn within<F: Future>(&self, work: F) -> F {
        work
    }

    pub(crate) fn ended(self, _: Result<&Value, &Error>) {}
}
