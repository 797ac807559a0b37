use std::{fmt, future::Future, sync::Arc, time::Instant};

use antiphon_llm::{Model, Observed};
use antiphon_transport::trace;
use opentelemetry::{
    Context, InstrumentationScope, KeyValue, global,
    metrics::{Histogram, Meter, MeterProvider},
    trace::TraceContextExt as _,
};
use serde_json::{Map, Value};
use tracing::{Instrument as _, Span, field::Empty, instrument::Instrumented};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::error::Error;

/// The name of the histogram for the duration of requests, from OpenTelemetry's conventions for MCP.
const OPERATION: &str = "mcp.client.operation.duration";

/// The bucket bounds from the conventions, in seconds.
const SECONDS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The telemetry settings of a host, for metrics and spans.
///
/// The host records metrics with an OpenTelemetry meter provider. Spans are `tracing` spans with the target `antiphon`.
/// If your program has a `tracing-opentelemetry` layer, the host's spans become OpenTelemetry spans. The host then
/// sends the trace context of its spans to servers in `_meta`. Metrics and spans do not contain the content of requests
/// and responses.
///
/// ```
/// use antiphon_host::{Host, Telemetry};
///
/// let host = Host::builder("my-chat", "1.0.0").with_telemetry(Telemetry::global()).build();
/// # let _ = host;
/// ```
#[derive(Clone)]
pub struct Telemetry {
    meter: Meter,
}

impl Telemetry {
    /// Creates telemetry that records metrics with your meter provider.
    pub fn new(meters: &impl MeterProvider) -> Self {
        Self { meter: meters.meter_with_scope(scope()) }
    }

    /// Creates telemetry that records metrics with the global meter provider. Set the global provider before you call
    /// `global`, because a provider that is set later is not used.
    pub fn global() -> Self {
        Self { meter: global::meter_with_scope(scope()) }
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("antiphon-host").with_version(env!("CARGO_PKG_VERSION")).build()
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

/// The telemetry, if the application enabled telemetry.
#[derive(Clone, Default)]
pub(crate) struct Telling(Option<Arc<Instruments>>);

struct Instruments {
    meter: Meter,
    operation: Histogram<f64>,
}

impl Telling {
    pub(crate) fn new(telemetry: Telemetry) -> Self {
        let Telemetry { meter } = telemetry;
        let operation = meter
            .f64_histogram(OPERATION)
            .with_description("duration of requests, from sending to the response")
            .with_unit("s")
            .with_boundaries(SECONDS.to_vec())
            .build();
        Self(Some(Arc::new(Instruments { meter, operation })))
    }

    /// Wraps a model, so that its requests are recorded.
    pub(crate) fn model(&self, model: Arc<dyn Model>) -> Arc<dyn Model> {
        match &self.0 {
            Some(telling) => Arc::new(Observed::new(model, &telling.meter)),
            None => model,
        }
    }

    /// Returns the span of a call. The span includes all rounds and the task of the call.
    pub(crate) fn call(&self, tool: &str) -> Spanned {
        if self.0.is_none() {
            return Spanned(Span::none());
        }
        Spanned(tracing::info_span!(
            target: "antiphon",
            "call",
            otel.name = format_args!("execute_tool {tool}"),
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = tool,
        ))
    }

    /// Returns the span of a request, and writes its trace context into `_meta`.
    pub(crate) fn request(&self, method: &str, params: &mut Value) -> RequestSpan {
        let Some(telling) = &self.0 else { return RequestSpan(None) };
        let name = match method {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            _ => None,
        };
        let label = if method == "prompts/get" { "gen_ai.prompt.name" } else { "gen_ai.tool.name" };
        let span = tracing::info_span!(
            target: "antiphon",
            "mcp",
            otel.name = Empty,
            otel.kind = "client",
            otel.status_code = Empty,
            mcp.method.name = method,
            gen_ai.tool.name = Empty,
            gen_ai.prompt.name = Empty,
            rpc.response.status_code = Empty,
            "error.type" = Empty,
        );
        let mut about = vec![KeyValue::new("mcp.method.name", method.to_owned())];
        if let Some(name) = name {
            span.record("otel.name", format!("{method} {name}").as_str());
            span.record(label, name);
            about.push(KeyValue::new(label, name.to_owned()));
        } else {
            span.record("otel.name", method);
        }
        put_place(&span, params);
        let telling = Arc::clone(telling);
        RequestSpan(Some(Box::new(RequestSpanInner { telling, span, about, began: Instant::now() })))
    }

    /// Returns the span for a request from the server. The parent of this span is the span that the server sent with
    /// the request.
    pub(crate) fn answer(&self, method: &str, params: &Value) -> Spanned {
        if self.0.is_none() {
            return Spanned(Span::none());
        }
        let span = tracing::info_span!(
            target: "antiphon",
            "answer",
            otel.name = method,
            otel.kind = "server",
            mcp.method.name = method,
        );
        if let Some(place) = params.get("_meta").and_then(Value::as_object).and_then(trace::read) {
            // This call fails if no OpenTelemetry layer is installed. In this case, no parent is needed.
            let _ = span.set_parent(Context::new().with_remote_span_context(place));
        }
        Spanned(span)
    }
}

fn put_place(span: &Span, params: &mut Value) {
    let context = span.context();
    let place = context.span().span_context().clone();
    let Some(params) = params.as_object_mut().filter(|_| place.is_valid()) else { return };
    let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    if let Some(meta) = meta.as_object_mut() {
        trace::write(&place, meta);
    }
}

/// A span of the host. The span is disabled if telemetry is disabled.
pub(crate) struct Spanned(Span);

impl Spanned {
    pub(crate) fn within<F: Future>(self, work: F) -> Instrumented<F> {
        work.instrument(self.0)
    }
}

/// The span of a request.
pub(crate) struct RequestSpan(Option<Box<RequestSpanInner>>);

struct RequestSpanInner {
    telling: Arc<Instruments>,
    span: Span,
    about: Vec<KeyValue>,
    began: Instant,
}

impl RequestSpan {
    pub(crate) fn within<F: Future>(&self, work: F) -> Instrumented<F> {
        work.instrument(self.0.as_ref().map_or_else(Span::none, |told| told.span.clone()))
    }

    pub(crate) fn ended(self, answer: Result<&Value, &Error>) {
        let Some(told) = self.0 else { return };
        let RequestSpanInner { telling, span, mut about, began } = *told;
        if let Err(Error::Server { code, .. }) = answer {
            span.record("rpc.response.status_code", code.to_string().as_str());
            about.push(KeyValue::new("rpc.response.status_code", code.to_string()));
        }
        let error = match answer {
            Ok(result) => (result["isError"] == true).then(|| "tool_error".to_owned()),
            Err(error) => Some(kind(error)),
        };
        if let Some(error) = error {
            span.record("error.type", error.as_str());
            span.record("otel.status_code", "ERROR");
            about.push(KeyValue::new("error.type", error));
        }
        telling.operation.record(began.elapsed().as_secs_f64(), &about);
    }
}

/// Returns the kind of an error. The error message is not recorded, because the message can be any text of the server.
fn kind(error: &Error) -> String {
    match error {
        Error::Server { code, .. } => return code.to_string(),
        Error::Timeout { .. } => "timeout",
        Error::Lost { .. } => "lost",
        Error::Malformed { .. } => "malformed",
        Error::Unauthorized { .. } => "unauthorized",
        _ => "_OTHER",
    }
    .to_owned()
}
