//! One request of a client's, as OpenTelemetry's conventions for MCP have it.

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

/// What is known of a request before anybody works on it.
#[derive(Debug)]
pub(crate) struct About<'a> {
    /// A method that MCP has; anything else is `_OTHER`, because clients choose it.
    pub(crate) method: &'static str,
    /// The tool or prompt, if the server has it: again, clients choose.
    pub(crate) name: Option<&'a str>,
    /// The resource, which may say more than its reader would like.
    pub(crate) uri: Option<&'a str>,
    pub(crate) arguments: Option<&'a Map<String, Value>>,
    pub(crate) revision: &'static str,
    pub(crate) id: String,
    pub(crate) meta: &'a Map<String, Value>,
    /// Whether it came over HTTP, and with which place in a trace.
    pub(crate) http: bool,
    pub(crate) header: Option<(&'a str, Option<&'a str>)>,
    /// Whether it is a run, whose place is known only when its seal is open.
    pub(crate) is_run: bool,
}

/// How a request was answered.
#[derive(Debug)]
pub(crate) enum Ended<'a> {
    Answered,
    /// The tool says that it failed.
    Failed,
    /// With a JSON-RPC error.
    Refused(i32),
    /// With this, of which a span may tell if it is to hold contents.
    Said(&'a Value),
}

/// A request that is told of. It travels with the request, to whoever finds out where it belongs.
#[derive(Clone)]
pub(crate) struct RequestSpan(Arc<Request>);

struct Request {
    telling: Arc<Telling>,
    span: Span,
    /// Where the client says it belongs.
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
    /// `None` where nobody is told.
    pub(crate) fn begin(recorder: &Recorder, about: &About<'_>) -> Option<Self> {
        let telling = Arc::clone(recorder.0.as_ref()?);
        let About { method, name, revision, .. } = *about;
        let transport = if about.http { "tcp" } else { "pipe" };
        // The SDK's own spans last as long as a connection: nothing belongs below those.
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
            if let Some(arguments) = about.arguments {
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

    /// The span, in its place: where the client says, and if that is another trace than the run's, where the run is.
    ///
    /// A place is taken before the span is entered and never after, so whoever knows it first takes it.
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
            // Where no layer listens there is nothing to place.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
        span
    }

    /// Works on the request. What belongs to a run is told of by the run.
    pub(crate) fn within<F: Future>(&self, work: F) -> Instrumented<F> {
        work.instrument(if self.0.is_run { Span::none() } else { self.place(None).clone() })
    }

    /// The request ends when this is dropped: it may be given up at any time.
    pub(crate) fn in_flight(&self) -> InFlight {
        InFlight { operation: self.clone(), error: Some("dropped"), code: None }
    }

    pub(crate) fn wants_content(&self) -> bool {
        self.0.telling.content
    }
}

/// A request that is worked on.
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
