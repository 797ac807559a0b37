//! The telemetry of one request, according to the OpenTelemetry conventions for MCP.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use antiphon_transport::trace;
use opentelemetry::{
    Context, KeyValue,
    trace::{SpanContext, TraceContextExt as _},
};
use serde_json::{Map, Value};
use tracing::{Instrument as _, Span, field::Empty, instrument::Instrumented};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::{Recorder, recorder::Telling, spanned};

/// The properties of a request that the server can read before it processes the request.
#[derive(Debug)]
pub(crate) struct About<'a> {
    /// The name of the method, or `_OTHER` if MCP has no method with this name. Clients can send any text as a method
    /// name.
    pub(crate) method: &'static str,
    /// The name of the tool or prompt, if the server has an item with this name. Clients can send any text as a name.
    pub(crate) name: Option<&'a str>,
    /// The URI of the resource, which can contain private data.
    pub(crate) uri: Option<&'a str>,
    pub(crate) arguments: Option<&'a Map<String, Value>>,
    pub(crate) revision: &'static str,
    pub(crate) id: String,
    pub(crate) meta: &'a Map<String, Value>,
    /// Whether the request used HTTP. If `true`, `header` is the trace context of the HTTP request.
    pub(crate) http: bool,
    pub(crate) header: Option<(&'a str, Option<&'a str>)>,
    /// Whether the request belongs to a run. If `true`, the server can determine the parent span only after it has
    /// decrypted the sealed state.
    pub(crate) is_run: bool,
}

/// How a request has ended.
#[derive(Debug)]
pub(crate) enum Ended<'a> {
    Answered,
    /// The tool returned an error result.
    Failed,
    /// The server returned a JSON-RPC error.
    Refused(i32),
    /// The result of the tool. The span contains the result of the tool only if spans contain user data.
    Said(&'a Value),
}

/// The span of a request. The request's extensions contain this value, so that later code can set the parent of the
/// span.
#[derive(Clone)]
pub(crate) struct RequestSpan(Arc<Request>);

struct Request {
    telling: Arc<Telling>,
    span: Span,
    /// The trace context that the client sent.
    remote: Option<SpanContext>,
    placed: AtomicBool,
    is_run: bool,
    began: Instant,
    method: &'static str,
    name: Option<KeyValue>,
    revision: &'static str,
    transport: &'static str,
}

impl RequestSpan {
    /// Creates the span of a request. Returns `None` if telemetry is off.
    pub(crate) fn begin(recorder: &Recorder, about: &About<'_>) -> Option<Self> {
        let telling = Arc::clone(recorder.0.as_ref()?);
        let About { method, name, revision, .. } = *about;
        let transport = if about.http { "tcp" } else { "pipe" };
        // A span of the SDK lasts as long as the connection, so the SDK's span must not be the parent of this span.
        let span = tracing::info_span!(
            target: "antiphon",
            parent: None,
            "mcp",
            otel.name = Empty,
            otel.kind = "server",
            otel.status_code = Empty,
            mcp.method.name = method,
            mcp.protocol.version = revision,
            gen_ai.operation.name = Empty,
            gen_ai.tool.name = Empty,
            gen_ai.prompt.name = Empty,
            jsonrpc.request.id = about.id,
            rpc.response.status_code = Empty,
            "error.type" = Empty,
            network.transport = transport,
            network.protocol.name = about.http.then_some("http"),
            antiphon.run = Empty,
            antiphon.way = Empty,
            antiphon.leg = Empty,
            antiphon.ended = Empty,
            antiphon.error = Empty,
            antiphon.replayed = Empty,
            antiphon.entries = Empty,
            antiphon.channel = Empty,
        );
        match name {
            Some(name) => span.record("otel.name", format!("{method} {name}").as_str()),
            None => span.record("otel.name", method),
        };
        let label = match method {
            "prompts/get" => "gen_ai.prompt.name",
            _ => "gen_ai.tool.name",
        };
        if let Some(name) = name {
            span.record(label, name);
        }
        if method == "tools/call" {
            span.record("gen_ai.operation.name", "execute_tool");
        }
        if telling.content {
            if let Some(uri) = about.uri {
                span.set_attribute("mcp.resource.uri", uri.to_owned());
            }
            // These tools receive answers of users as arguments. The tools that the form calls also receive a view key.
            let is_secret = matches!(name, Some("ask_open" | "ask_answer" | "task_answer"));
            if let Some(arguments) = about.arguments.filter(|_| !is_secret) {
                let arguments = serde_json::to_string(arguments).unwrap_or_default();
                span.set_attribute("gen_ai.tool.call.arguments", arguments);
            }
        }
        let remote = trace::read(about.meta)
            .or_else(|| about.header.and_then(|(parent, state)| trace::parse(parent, state)));
        telling.instruments.requests.add(1, &[]);
        Some(Self(Arc::new(Request {
            telling,
            span,
            remote,
            placed: AtomicBool::new(false),
            is_run: about.is_run,
            began: Instant::now(),
            method,
            name: name.map(|name| KeyValue::new(label, name.to_owned())),
            revision,
            transport,
        })))
    }

    /// Sets the parent of the span, and returns the span. By default, the parent is the trace context that the client
    /// sent. If the run began in another trace, the run's trace context becomes the parent, and the client's trace
    /// context becomes a link.
    ///
    /// A span accepts a parent only before the span is entered, so only the first call of `place` sets the parent.
    pub(super) fn place(&self, run: Option<SpanContext>) -> &Span {
        let Request { span, remote, placed, .. } = &*self.0;
        if placed.swap(true, Ordering::Relaxed) {
            return span;
        }
        let parent = match (run, remote) {
            (Some(run), Some(remote)) if run.trace_id() != remote.trace_id() => {
                span.add_link(remote.clone());
                Some(run)
            }
            (_, Some(remote)) => Some(remote.clone()),
            (run, None) => run,
        };
        if let Some(parent) = parent {
            // If the program has no OpenTelemetry layer, setting the parent has no effect.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
        span
    }

    /// Runs the request inside its span. If the request belongs to a run, the run itself enters the span.
    pub(crate) fn within<F: Future>(&self, work: F) -> Instrumented<F> {
        work.instrument(if self.0.is_run { Span::none() } else { self.place(None).clone() })
    }

    /// Returns a guard. Dropping the guard records the end of the request, even if the request is cancelled.
    pub(crate) fn in_flight(&self) -> InFlight {
        InFlight { operation: self.clone(), error: Some("dropped"), code: None }
    }

    pub(crate) fn wants_content(&self) -> bool {
        self.0.telling.content
    }
}

/// A request in progress.
pub(crate) struct InFlight {
    operation: RequestSpan,
    error: Option<&'static str>,
    code: Option<i32>,
}

impl InFlight {
    pub(crate) fn ended(&mut self, ended: &Ended<'_>) {
        match ended {
            Ended::Answered => self.error = None,
            Ended::Failed => self.error = Some("tool_error"),
            Ended::Refused(code) => self.code = Some(*code),
            Ended::Said(result) => {
                self.operation.0.span.set_attribute("gen_ai.tool.call.result", result.to_string());
            }
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let request = &*self.operation.0;
        let span = self.operation.place(None);
        let mut about = vec![
            KeyValue::new("mcp.method.name", request.method),
            KeyValue::new("mcp.protocol.version", request.revision),
            KeyValue::new("network.transport", request.transport),
        ];
        about.extend(request.name.clone());
        if let Some(code) = self.code {
            let code = code.to_string();
            span.record("rpc.response.status_code", code.as_str());
            span.record("error.type", code.as_str());
            span.record("otel.status_code", "ERROR");
            about.push(KeyValue::new("rpc.response.status_code", code.clone()));
            about.push(KeyValue::new("error.type", code));
        } else if let Some(error) = self.error {
            spanned::failed(span, error);
            about.push(KeyValue::new("error.type", error));
        }
        let instruments = &request.telling.instruments;
        instruments.requests.add(-1, &[]);
        instruments.operation.record(request.began.elapsed().as_secs_f64(), &about);
    }
}
