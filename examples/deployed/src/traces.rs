use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::Settings;

/// Where log lines and spans go, for as long as the process lives.
#[derive(Debug)]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Begins: lines of JSON to standard error, spans to the collector if there is one.
    ///
    /// # Errors
    ///
    /// When `RUST_LOG` is no filter, or the collector cannot be set up.
    pub fn begin(settings: &Settings) -> anyhow::Result<Self> {
        let provider = settings.collector.is_some().then(|| provider(&settings.replica)).transpose()?;
        // Spans of ours, whatever is logged.
        let spans = provider.as_ref().map(|provider| {
            let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("onboarding"));
            layer.with_filter(EnvFilter::new("antiphon=info"))
        });
        let lines = tracing_subscriber::fmt::layer().json().with_writer(std::io::stderr);
        let filter = EnvFilter::try_new(&settings.log).context("RUST_LOG is not a valid filter")?;
        tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans).try_init()?;
        Ok(Self(provider))
    }

    /// Sends what is left.
    pub fn end(self) {
        if let Some(provider) = self.0
            && let Err(error) = provider.shutdown()
        {
            tracing::warn!(%error, "the last OpenTelemetry spans could not be sent");
        }
    }
}

/// The exporter reads where to send from the environment, as every one of OpenTelemetry's does.
fn provider(replica: &str) -> anyhow::Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder().with_http().build().context("the span exporter is not valid")?;
    let instance = opentelemetry::KeyValue::new("service.instance.id", replica.to_owned());
    let resource = Resource::builder().with_service_name("onboarding").with_attribute(instance).build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}
