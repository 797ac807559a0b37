use std::fmt;

use opentelemetry::{
    InstrumentationScope, global,
    metrics::{Meter, MeterProvider},
};

/// What a server tells of itself, and to whom.
///
/// Metrics go to a meter provider of OpenTelemetry's. Spans are `tracing`'s, of the target `antiphon`: they become
/// OpenTelemetry's where the program has a layer of `tracing-opentelemetry`, and are in the log's context in any case.
/// Nothing is exported by this crate, and no global is set.
///
/// ```
/// use antiphon::{Server, telemetry::Telemetry};
///
/// // The program has set its global meter provider before.
/// let server = Server::builder("trips", "1.0.0").with_telemetry(Telemetry::global()).build()?;
/// # let _ = server;
/// # Ok::<(), antiphon::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Telemetry {
    pub(super) meter: Meter,
    pub(super) content: bool,
}

impl Telemetry {
    /// To a meter provider of your own.
    pub fn new(meters: &impl MeterProvider) -> Self {
        Self { meter: meters.meter_with_scope(scope()), content: false }
    }

    /// To the program's global meter provider. What is set after this is not told.
    pub fn global() -> Self {
        Self { meter: global::meter_with_scope(scope()), content: false }
    }

    /// Sets whether spans hold what tools were given and what they answered, as `gen_ai.tool.call.arguments` and
    /// `gen_ai.tool.call.result`, and the address of a resource that is read. That is your users' data, in a system that
    /// was not made to keep it. Logs and metrics hold none either way. Default: no.
    #[must_use]
    pub fn with_content(mut self, content: bool) -> Self {
        self.content = content;
        self
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("antiphon").with_version(env!("CARGO_PKG_VERSION")).build()
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("content", &self.content).finish_non_exhaustive()
    }
}
