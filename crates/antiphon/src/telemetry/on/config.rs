use std::fmt;

use opentelemetry::{
    InstrumentationScope, global,
    metrics::{Meter, MeterProvider},
};

/// The telemetry settings of a server. The settings determine where the server records metrics, and whether spans
/// contain user data.
///
/// The server records metrics with an OpenTelemetry meter provider. Spans are `tracing` spans with the target
/// `antiphon`, and these spans also appear in the context of log lines. If your program has a `tracing-opentelemetry`
/// layer, the `tracing` spans also become OpenTelemetry spans. This crate does not export telemetry, and does not
/// change global providers.
///
/// ```
/// use antiphon::{Server, telemetry::Telemetry};
///
/// // Before this call, the program must set its global meter provider.
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
    /// Creates telemetry that records metrics with your meter provider.
    pub fn new(meters: &impl MeterProvider) -> Self {
        Self { meter: meters.meter_with_scope(scope()), content: false }
    }

    /// Creates telemetry that records metrics with the global meter provider. Set the global meter provider before you
    /// call this method. If you set the global meter provider later, the server does not use this provider.
    pub fn global() -> Self {
        Self { meter: global::meter_with_scope(scope()), content: false }
    }

    /// Sets whether spans contain user data. Default: no.
    ///
    /// User data means tool arguments (`gen_ai.tool.call.arguments`), tool results (`gen_ai.tool.call.result`), and
    /// the URIs of resources. A tracing system is usually not designed to protect user data. Logs and metrics never
    /// contain user data.
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
