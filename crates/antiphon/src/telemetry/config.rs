use std::fmt;

use opentelemetry::{
    InstrumentationScope, global,
    metrics::{Meter, MeterProvider},
};

/// The telemetry of a server: its meter provider, and the content of its spans.
///
/// Metrics are recorded with an OpenTelemetry meter provider. Spans are `tracing` spans with the target `antiphon`.
/// They appear in the context of log lines. If the program has a `tracing-opentelemetry` layer, they also become
/// OpenTelemetry spans. This crate does not export telemetry and does not set globals.
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
    /// Creates telemetry with your meter provider.
    pub fn new(meters: &impl MeterProvider) -> Self {
        Self { meter: meters.meter_with_scope(scope()), content: false }
    }

    /// Creates telemetry with the program's global meter provider. A provider that is set later is not used.
    pub fn global() -> Self {
        Self { meter: global::meter_with_scope(scope()), content: false }
    }

    /// Sets whether spans contain user data. Default: no.
    ///
    /// The data is: tool arguments (`gen_ai.tool.call.arguments`), tool results (`gen_ai.tool.call.result`), and the
    /// URIs of resources. A tracing system is usually not designed to protect user data. Logs and metrics never contain
    /// it.
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
