//! The telemetry of one leg.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Instant,
};

use antiphon_replay::{Journal, Key, Machine, Tally};
use antiphon_transport::trace;
use opentelemetry::{
    Context, KeyValue,
    trace::{SpanContext, TraceContextExt as _},
};
use serde_json::Value;
use tracing::{Instrument as _, Span, field::Empty, instrument::Instrumented};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::{How, Outcome, Recorder, RequestSpan, Spanned, recorder::Telling, spanned};
use rmcp::model::Extensions;

use crate::protocol::Revision;

/// The span and the metrics of a leg.
#[derive(Default)]
pub(crate) struct LegSpan(Option<Box<LegSpanInner>>);

struct LegSpanInner {
    telling: Arc<Telling>,
    span: Span,
    method: &'static str,
    /// The name of the tool or prompt.
    name: Option<KeyValue>,
    way: &'static str,
    began: Instant,
    left: Mutex<Option<Left>>,
    /// The number of new user answers that the tool received, for each channel and each kind of answer.
    answers: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    /// Whether the span belongs only to the leg. If `false`, the span belongs to a request, and the request records the
    /// errors.
    own: bool,
    /// A marker that is set when the span records the run's ID, so that the span records the ID only once.
    named: OnceLock<()>,
}

/// The counts of a leg. The telemetry saves these counts when the driver takes the replay machine out of the run.
struct Left {
    tally: Tally,
    /// The MCP methods of the questions that this leg asked and that no earlier leg has asked.
    asks: Vec<&'static str>,
}

impl LegSpan {
    /// Creates the telemetry for the leg of a request. `journal` is the journal from which the run resumes.
    pub(crate) fn of_request(
        recorder: &Recorder,
        (revision, extensions): (Revision, &Extensions),
        (method, name): (&'static str, &str),
        journal: Option<&Journal>,
    ) -> Self {
        let Some(telling) = recorder.0.as_ref().map(Arc::clone) else { return Self(None) };
        // The URI of a resource can contain private data, so the span does not contain the URI.
        let name = match method {
            "tools/call" => Some(KeyValue::new("gen_ai.tool.name", name.to_owned())),
            "prompts/get" => Some(KeyValue::new("gen_ai.prompt.name", name.to_owned())),
            _ => None,
        };
        let run = journal.and_then(place_of);
        let (span, way) = match extensions.get::<RequestSpan>() {
            Some(operation) if revision == Revision::Rounds => (operation.place(run).clone(), "rounds"),
            Some(operation) => (operation.place(run).clone(), "session"),
            None => (local(name.as_ref()), "local"),
        };
        if journal.is_none() {
            let mut about = vec![KeyValue::new("mcp.method.name", method)];
            about.extend(name.clone());
            telling.instruments.begun.add(1, &about);
        }
        let leg = journal.map_or(0, |journal| journal.round) + 1;
        Self::new(telling, span, (method, name), way, (leg.into(), journal))
    }

    /// Creates the telemetry for the leg of a task.
    pub(crate) fn of_task(recorder: &Recorder, tool: &str, task: &str, leg: u64, journal: &Journal) -> Self {
        let Some(telling) = recorder.0.as_ref().map(Arc::clone) else { return Self(None) };
        let span = tracing::info_span!(
            target: "antiphon",
            parent: None,
            "leg",
            otel.name = format_args!("leg {tool}"),
            otel.kind = "consumer",
            otel.status_code = Empty,
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = tool,
            "error.type" = Empty,
            antiphon.task = task,
            antiphon.run = Empty,
            antiphon.way = Empty,
            antiphon.leg = Empty,
            antiphon.ended = Empty,
            antiphon.error = Empty,
            antiphon.replayed = Empty,
            antiphon.entries = Empty,
            antiphon.channel = Empty,
        );
        if let Some(run) = place_of(journal) {
            let _ = span.set_parent(Context::new().with_remote_span_context(run));
        }
        let name = Some(KeyValue::new("gen_ai.tool.name", tool.to_owned()));
        Self::new(telling, span, ("tools/call", name), "task", (leg, Some(journal)))
    }

    fn new(
        telling: Arc<Telling>,
        span: Span,
        (method, name): (&'static str, Option<KeyValue>),
        way: &'static str,
        (leg, journal): (u64, Option<&Journal>),
    ) -> Self {
        span.record("antiphon.way", way);
        span.record("antiphon.leg", int(leg));
        let own = matches!(way, "task" | "local");
        let (began, left, named) = (Instant::now(), Mutex::new(None), OnceLock::new());
        let answers = Mutex::default();
        let told = LegSpanInner { telling, span, method, name, way, began, left, answers, own, named };
        if let Some(journal) = journal {
            told.name_run(&journal.run);
        }
        Self(Some(Box::new(told)))
    }

    /// Runs the leg inside its span.
    pub(crate) fn within<F: Future>(&self, leg: F) -> Instrumented<F> {
        leg.instrument(self.0.as_ref().map_or_else(Span::none, |told| told.span.clone()))
    }

    /// Writes the trace context of the run's first leg into the journal. Later legs of the run use the trace context of
    /// the first leg.
    pub(crate) fn mark(&self, journal: &mut Journal) {
        let Some(told) = &self.0 else { return };
        told.name_run(&journal.run);
        if journal.trace.is_none() {
            journal.trace = line(&told.span);
        }
    }

    /// Writes the trace context into the `_meta` of a question.
    pub(crate) fn put_place(&self, request: &mut Value) {
        if let Some(told) = &self.0 {
            put(request, &context(&told.span));
        }
    }

    /// Creates the span of a question that is sent while the tool waits. `to_client` is true if the question is sent to
    /// the client, and false if the question is sent to a provider.
    pub(crate) fn ask(&self, request: &mut Value, to_client: bool) -> Spanned {
        let Some(told) = &self.0 else { return Spanned::none() };
        let method = method(request);
        told.count_ask(method, if to_client { told.way } else { "provider" });
        if !to_client {
            // The client for a provider's model creates the span for this request.
            return Spanned::none();
        }
        let span = tracing::info_span!(
            target: "antiphon",
            parent: &told.span,
            "ask",
            otel.name = method,
            otel.kind = "client",
            otel.status_code = Empty,
            mcp.method.name = method,
            "error.type" = Empty,
        );
        put(request, &context(&span));
        Spanned(span)
    }

    /// Counts a user's answer by channel and by kind (`outcome`). The leg adds the counts to the metrics when the leg
    /// ends. Call this method once for each answer, but not on replay.
    pub(crate) fn answered(&self, channel: &'static str, outcome: &'static str) {
        let Some(told) = &self.0 else { return };
        let mut answers = told.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry((channel, outcome)).or_default() += 1;
    }

    /// Creates the span of a step whose side effect runs now.
    pub(crate) fn step(&self, key: &Key) -> Spanned {
        // Internal steps have an empty name, and have no span.
        let Some(told) = self.0.as_ref().filter(|_| !key.name().is_empty()) else { return Spanned::none() };
        let name = key.name();
        Spanned(tracing::info_span!(
            target: "antiphon",
            parent: &told.span,
            "step",
            otel.name = format_args!("step {name}"),
            otel.status_code = Empty,
            antiphon.key = key.as_str(),
            "error.type" = Empty,
        ))
    }

    /// Saves the counts of the replay machine, because the telemetry needs the counts at the end of the leg.
    pub(crate) fn leaving(&self, machine: &Machine) {
        let Some(told) = &self.0 else { return };
        let new = machine.pending().into_iter().filter(|(key, _)| !machine.is_unanswered(key));
        let left = Left { tally: machine.tally(), asks: new.map(|(_, request)| method(request)).collect() };
        *told.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
    }

    /// Records the end of the leg. Call this method when the response is about to be sent, or when the result is
    /// stored.
    pub(crate) fn ended(&self, how: How) {
        if let Some(told) = &self.0 {
            told.ended(how);
        }
    }
}

impl LegSpanInner {
    fn name_run(&self, run: &str) {
        if !run.is_empty() && self.named.set(()).is_ok() {
            self.span.record("antiphon.run", run);
        }
    }

    fn with_name(&self, about: impl IntoIterator<Item = KeyValue>) -> Vec<KeyValue> {
        about.into_iter().chain(self.name.clone()).collect()
    }

    fn count_ask(&self, method: &'static str, way: &'static str) {
        let about =
            self.with_name([KeyValue::new("mcp.method.name", method), KeyValue::new("antiphon.way", way)]);
        self.telling.instruments.asks.add(1, &about);
    }

    fn count_answers(&self, answers: &BTreeMap<(&'static str, &'static str), u64>) {
        if answers.is_empty() {
            return;
        }
        let channels: BTreeSet<&str> = answers.keys().map(|(channel, _)| *channel).collect();
        let channels: Vec<&str> = channels.into_iter().collect();
        self.span.record("antiphon.channel", channels.join(",").as_str());
        for ((channel, outcome), count) in answers {
            let about = self.with_name([
                KeyValue::new("antiphon.channel", *channel),
                KeyValue::new("antiphon.outcome", *outcome),
            ]);
            self.telling.instruments.answers.add(*count, &about);
        }
    }

    fn ended(&self, how: How) {
        let it = &self.telling.instruments;
        let ended = match how {
            How::Round => "asked",
            How::Waits => "waits",
            How::Again => "retried",
            How::CleanedUp => "cleaned_up",
            How::Lost => "lost",
            How::Over(Outcome::Completed) => "returned",
            How::Over(_) => "failed",
        };
        self.span.record("antiphon.ended", ended);
        let about =
            self.with_name([KeyValue::new("antiphon.way", self.way), KeyValue::new("antiphon.ended", ended)]);
        it.leg.record(self.began.elapsed().as_secs_f64(), &about);
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).take();
        let answers = std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner));
        if how == How::Lost {
            return;
        }
        self.count_answers(&answers);
        if let Some(Left { tally, asks }) = left {
            self.count(tally);
            // In a session, the server has already counted each question when it sent the question.
            if matches!(how, How::Round | How::Waits) {
                for method in asks {
                    self.count_ask(method, self.way);
                }
            }
        }
        match how {
            How::Round => it.rounds.add(1, &self.with_name([])),
            How::Over(outcome) => self.over(outcome),
            How::Waits | How::Again | How::CleanedUp | How::Lost => {}
        }
    }

    fn over(&self, outcome: Outcome) {
        let it = &self.telling.instruments;
        let mut about = self.with_name([
            KeyValue::new("mcp.method.name", self.method),
            KeyValue::new("antiphon.outcome", outcome.name()),
        ]);
        if let Some(error) = outcome.error() {
            self.span.record("antiphon.error", error);
            if self.own {
                spanned::failed(&self.span, error);
            }
            about.push(KeyValue::new("error.type", error));
        }
        it.ended.add(1, &about);
        if outcome == Outcome::Drifted {
            it.drifts.add(1, &self.with_name([]));
        }
    }

    fn count(&self, tally: Tally) {
        let it = &self.telling.instruments;
        let new = [("ask", tally.asks), ("step", tally.steps), ("fold", tally.folds)];
        self.span.record("antiphon.replayed", int(tally.replayed));
        self.span.record("antiphon.entries", int(new.iter().map(|(_, count)| count).sum()));
        for (kind, count) in new.into_iter().filter(|(_, count)| *count > 0) {
            it.entries.add(count, &[KeyValue::new("antiphon.kind", kind)]);
        }
        if tally.replayed > 0 {
            it.replayed.add(tally.replayed, &[]);
        }
    }
}

/// Returns the initial journal of a new task. The initial journal contains the trace context of the request.
pub(crate) fn begun(extensions: &Extensions) -> Option<Journal> {
    let operation = extensions.get::<RequestSpan>()?;
    let mut journal = Journal::new(String::new());
    journal.trace = line(operation.place(None));
    Some(journal)
}

/// Writes the trace context of a task into the `_meta` of a question.
pub(crate) fn put_place(request: &mut Value, journal: &Journal) {
    if let Some(context) = place_of(journal) {
        put(request, &context);
    }
}

fn place_of(journal: &Journal) -> Option<SpanContext> {
    trace::from_line(journal.trace.as_deref()?)
}

/// Returns the trace context of a span. This call starts the span, so you must set the span's parent before this call.
fn context(span: &Span) -> SpanContext {
    span.context().span().span_context().clone()
}

fn line(span: &Span) -> Option<String> {
    trace::to_line(&context(span))
}

fn put(request: &mut Value, context: &SpanContext) {
    if !context.is_valid() {
        return;
    }
    let Some(params) = request.get_mut("params").and_then(Value::as_object_mut) else { return };
    let meta = params.entry("_meta").or_insert_with(|| Value::Object(serde_json::Map::new()));
    if let Some(meta) = meta.as_object_mut() {
        trace::write(context, meta);
    }
}

/// Creates the span of a call that the program itself makes, without a client.
fn local(name: Option<&KeyValue>) -> Span {
    let name = name.map(|name| name.value.as_str()).unwrap_or_default();
    tracing::info_span!(
        target: "antiphon",
        "execute",
        otel.name = format_args!("execute_tool {name}"),
        otel.status_code = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = &*name,
        "error.type" = Empty,
        antiphon.run = Empty,
        antiphon.way = Empty,
        antiphon.leg = Empty,
        antiphon.ended = Empty,
        antiphon.error = Empty,
        antiphon.replayed = Empty,
        antiphon.entries = Empty,
        antiphon.channel = Empty,
    )
}

/// Returns the MCP method of a question as a static text. A question has one of three methods.
fn method(request: &Value) -> &'static str {
    match request["method"].as_str() {
        Some("elicitation/create") => "elicitation/create",
        Some("sampling/createMessage") => "sampling/createMessage",
        Some("roots/list") => "roots/list",
        _ => "_OTHER",
    }
}

/// Converts a count into a signed number, because span attributes are signed.
fn int(count: u64) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

impl std::fmt::Debug for LegSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LegSpan").field(&self.0.as_ref().map(|told| told.way)).finish()
    }
}
