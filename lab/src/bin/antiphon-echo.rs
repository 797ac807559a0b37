//! An echo tool on Antiphon, set up like `bare-echo`. With `--telemetry metrics` it counts, with `--telemetry spans` it
//! traces, too.

use antiphon::{
    http::HttpConfig,
    prelude::*,
    telemetry::{Prometheus, Telemetry},
};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use tokio::net::TcpListener;
use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _};

// ANCHOR: tool
#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say again.
    text: String,
}

async fn echo(_: &Ctx, args: Echo) -> Result<String> {
    Ok(args.text)
}
// ANCHOR_END: tool

/// Takes spans as a collector would, and keeps none: what sending them costs is the network's.
#[derive(Debug)]
struct Nowhere;

impl SpanExporter for Nowhere {
    async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = lab::programs::address()?;
    let mut builder = Server::builder("echo", "1.0.0").tool(Tool::new("echo", "Says it again", echo));
    let told = std::env::args().skip_while(|argument| argument != "--telemetry").nth(1);
    if told.is_some() {
        builder = builder.with_telemetry(Telemetry::new(&Prometheus::new("echo")?));
    }
    if told.as_deref() == Some("spans") {
        let provider = SdkTracerProvider::builder().with_batch_exporter(Nowhere).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("echo"));
        tracing_subscriber::registry().with(EnvFilter::new("antiphon=info")).with(layer).try_init()?;
    }
    let config = HttpConfig::default().with_sessions(false).with_json_response(true);
    let listener = TcpListener::bind(address).await?;
    Ok(builder.build()?.serve_listener(listener, config, std::future::pending()).await?)
}
