//! What a server tells of itself.

#[cfg(feature = "prometheus")]
mod answers;
mod deploy;
#[cfg(all(feature = "http", feature = "prometheus"))]
mod health;
mod logs;
#[cfg(feature = "prometheus")]
mod metrics;
mod spans;

use antiphon::{
    ServerBuilder,
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::TaskPolicy,
    telemetry::Telemetry,
    testing::Answers,
};
use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::json;
use tracing_subscriber::{layer::SubscriberExt as _, util::SubscriberInitExt as _};

#[derive(Deserialize, JsonSchema)]
struct Secret {
    secret: String,
}

#[derive(Deserialize, JsonSchema)]
struct Given {
    given: String,
}

/// One step, two questions.
async fn keep(ctx: &Ctx, given: Given) -> Result<String> {
    let receipt: String = ctx.step("reserve", || async { Ok("receipt-4711".to_owned()) }).await?;
    let first = ctx.elicit::<Secret>("First?").key("first").await?.accepted()?.secret;
    let second = ctx.elicit::<Secret>("Second?").key("second").await?.accepted()?.secret;
    Ok(format!("{receipt} {} {first} {second}", given.given))
}

fn secrets() -> Answers {
    Answers::new()
        .accept("first", json!({"secret": "hunter2"}))
        .accept("second", json!({"secret": "swordfish"}))
}

fn builder(keys: &KeyRing, policy: TaskPolicy) -> ServerBuilder {
    Server::builder("told", "1.0.0")
        .with_seal(SealConfig::default().with_keys(keys.clone()))
        .tool(Tool::new("keep", "Keeps two secrets", keep).with_tasks(policy))
}

/// Hears every span of this thread, and so of a test's whole runtime, for as long as it is kept.
struct Heard {
    exporter: InMemorySpanExporter,
    _provider: SdkTracerProvider,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Heard {
    fn begin() -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let guard = tracing_subscriber::registry().with(layer).set_default();
        Self { exporter, _provider: provider, _guard: guard }
    }

    /// All spans of ours that have ended, in the order in which they did.
    fn spans(&self) -> Vec<SpanData> {
        // The SDK has spans, too.
        let ours = ["mcp.method.name", "gen_ai.operation.name", "antiphon.key"];
        let spans = self.exporter.get_finished_spans().unwrap();
        spans.into_iter().filter(|span| ours.iter().any(|key| attribute(span, key).is_some())).collect()
    }

    /// Those of this name.
    fn named(&self, name: &str) -> Vec<SpanData> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }

    /// The same, once there are so many: a leg of a task ends after whoever looks has seen what came of it.
    async fn soon(&self, name: &str, count: usize) -> Vec<SpanData> {
        for _ in 0..500 {
            let spans = self.named(name);
            if spans.len() >= count {
                return spans;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("there never were {count} spans `{name}`, but {:?}", names(&self.spans()));
    }
}

fn names(spans: &[SpanData]) -> Vec<String> {
    spans.iter().map(|span| span.name.to_string()).collect()
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|KeyValue { key: name, .. }| name.as_str() == key);
    found.map(|KeyValue { value, .. }| value.as_str().into_owned())
}

/// Spans are heard of through `tracing`; metrics of these tests go nowhere.
fn spans_only() -> Telemetry {
    Telemetry::global()
}
