//! One call is one tree of spans, on both sides.

use antiphon::prelude::*;
use antiphon_host::{Defaults, Form, Host, Shown, Telemetry};
use antiphon_llm::{Reply, Scripted};
use opentelemetry::trace::{SpanId, SpanKind, TracerProvider as _};
use opentelemetry_sdk::{
    metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider},
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use serde_json::json;
use tracing_subscriber::{layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::support::{BOTH, endpoint};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greet(ctx: &Ctx, _: ()) -> Result<String> {
    let Name { name } = ctx.elicit::<Name>("Who are you?").key("who").await?.accepted()?;
    let word = ctx.sample("A word of welcome?").await?.text().clone();
    Ok(format!("{word}, {name}"))
}

fn server() -> Server {
    Server::builder("greeter", "1.0.0")
        .tool(Tool::new("greet", "Greets", greet))
        .with_telemetry(antiphon::telemetry::Telemetry::global())
        .build()
        .unwrap()
}

fn id(span: &SpanData) -> SpanId {
    span.span_context.span_id()
}

/// The spans of this name and kind.
fn find(spans: &[SpanData], name: &str, kind: &SpanKind) -> Vec<SpanData> {
    spans.iter().filter(|span| span.name == name && span.span_kind == *kind).cloned().collect()
}

/// All spans, once a server's ends that is as long as its answer: a moment after that is out.
async fn ended(exporter: &InMemorySpanExporter) -> Vec<SpanData> {
    for _ in 0..500 {
        let spans = exporter.get_finished_spans().unwrap();
        let of = |kind: &SpanKind| find(&spans, "tools/call greet", kind).len();
        if of(&SpanKind::Server) > 0 && of(&SpanKind::Server) == of(&SpanKind::Client) {
            return spans;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("a server's spans never ended: {:?}", exporter.get_finished_spans());
}

#[tokio::test]
async fn a_call_with_its_rounds_and_answers_is_one_tree_over_both_sides() {
    for lifecycle in BOTH {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let guard = tracing_subscriber::registry().with(layer).set_default();
        let host = Host::builder("chat", "1")
            .with_lifecycle(lifecycle)
            .with_forms(|_: Form| async { Shown::Accept(json!({"name": "Ada"})) })
            .with_model(Scripted::new().otherwise(|_| Ok(Reply::new("m", "Welcome"))))
            .with_telemetry(Telemetry::global())
            .build();
        let connection = host.connect(endpoint(&server())).await.unwrap();
        let result = connection.call("greet", json!({})).await.unwrap();
        assert_eq!(json!(result.content)[0]["text"], "Welcome, Ada");
        let spans = ended(&exporter).await;
        drop(guard);
        let [call] = &find(&spans, "execute_tool greet", &SpanKind::Internal)[..] else {
            panic!("{spans:?}")
        };
        let asked = find(&spans, "tools/call greet", &SpanKind::Client);
        let served = find(&spans, "tools/call greet", &SpanKind::Server);
        assert_eq!(asked.len(), served.len());
        for (asked, served) in asked.iter().zip(&served) {
            assert_eq!(asked.parent_span_id, id(call));
            assert_eq!(served.parent_span_id, id(asked));
        }
        let answered = find(&spans, "elicitation/create", &SpanKind::Server);
        assert_eq!(answered.len(), 1);
        let [sampled] = &find(&spans, "sampling/createMessage", &SpanKind::Server)[..] else {
            panic!("{spans:?}")
        };
        let chats: Vec<_> = spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
        assert_eq!(chats.len(), 1);
        assert_eq!(chats[0].parent_span_id, id(sampled));
        let ours = [&asked, &served, &answered].into_iter().flatten().chain([call, sampled]);
        for span in ours {
            assert_eq!(span.span_context.trace_id(), call.span_context.trace_id(), "{}", span.name);
        }
    }
}

#[tokio::test]
async fn how_long_servers_take_is_measured() {
    let exporter = InMemoryMetricExporter::default();
    let meters =
        SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    let host =
        Host::builder("chat", "1").with_forms(Defaults).with_telemetry(Telemetry::new(&meters)).build();
    let connection = host.connect(endpoint(&server())).await.unwrap();
    connection.tools().await.unwrap();
    connection.call("unknown", json!({})).await.unwrap_err();
    meters.force_flush().unwrap();
    let text = format!("{:?}", exporter.get_finished_metrics().unwrap());
    for part in ["mcp.client.operation.duration", "tools/list", "tools/call", "-32602"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}
