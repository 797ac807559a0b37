use std::{borrow::Cow, fmt};

use opentelemetry::{
    InstrumentationScope,
    metrics::{Meter, MeterProvider},
};
use opentelemetry_sdk::{Resource, metrics::SdkMeterProvider};
use prometheus::{Registry, TextEncoder};

use crate::error::BuildError;

/// An OpenTelemetry meter provider that returns the recorded metrics in Prometheus format.
///
/// This type uses the Prometheus exporter of OpenTelemetry. Pass the meter provider to the server as its
/// [`Telemetry`](crate::telemetry::Telemetry). To serve the metrics at `/metrics`, also pass the meter provider to
/// [`Server::health_router`](crate::Server::health_router). If you also set this meter provider as the global meter
/// provider, it records the metrics of other libraries too.
///
/// ```
/// use antiphon::{telemetry::{Prometheus, Telemetry}, Server};
///
/// let prometheus = Prometheus::new("trips")?;
/// let server = Server::builder("trips", "1.0.0").with_telemetry(Telemetry::new(&prometheus)).build()?;
/// # let _ = server;
/// assert!(prometheus.text().contains("target_info"));
/// # Ok::<(), antiphon::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Prometheus {
    registry: Registry,
    provider: SdkMeterProvider,
}

impl Prometheus {
    /// Creates a meter provider. `service` is the service name that the metrics contain.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if the exporter cannot be created.
    pub fn new(service: impl Into<Cow<'static, str>>) -> Result<Self, BuildError> {
        let registry = Registry::new();
        // The exporter omits the scope information, because the names of metrics already contain the name of the
        // library.
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .map_err(|error| {
                let problem = format!("the Prometheus exporter cannot be created: {error}");
                BuildError { problems: vec![problem] }
            })?;
        let resource = Resource::builder().with_service_name(service.into().into_owned()).build();
        let provider = SdkMeterProvider::builder().with_resource(resource).with_reader(exporter).build();
        Ok(Self { registry, provider })
    }

    /// Returns all current metrics in the text format of Prometheus.
    pub fn text(&self) -> String {
        let families = self.registry.gather();
        TextEncoder::new().encode_to_string(&families).unwrap_or_else(|error| {
            tracing::error!(%error, "the metrics cannot be encoded in the Prometheus text format");
            String::new()
        })
    }
}

impl MeterProvider for Prometheus {
    fn meter_with_scope(&self, scope: InstrumentationScope) -> Meter {
        self.provider.meter_with_scope(scope)
    }
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus").finish_non_exhaustive()
    }
}
