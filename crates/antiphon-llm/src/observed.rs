//! Records spans and metrics of a model, with the names of OpenTelemetry's conventions for generative AI.

use std::{fmt, time::Instant};

use opentelemetry::{
    KeyValue,
    metrics::{Histogram, Meter},
};
use tracing::{Instrument as _, field::Empty};

use crate::{BoxFuture, Error, Model, Reply, Request, Result};

/// The name of the histogram for the duration of requests to a model, in seconds.
pub const OPERATION_DURATION: &str = "gen_ai.client.operation.duration";
/// The name of the histogram for the number of tokens in requests and replies.
pub const TOKEN_USAGE: &str = "gen_ai.client.token.usage";

/// The bucket bounds of the duration histogram, in seconds, as in OpenTelemetry's conventions.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// A wrapper that records the requests to a model as spans and metrics. Neither spans nor metrics contain the content
/// of messages.
///
/// ```
/// # use antiphon_llm::{Model, Observed};
/// # fn example(model: impl Model, meter: &opentelemetry::metrics::Meter) -> impl Model {
/// Observed::new(model, meter)
/// # }
/// ```
pub struct Observed<M> {
    model: M,
    duration: Histogram<f64>,
    tokens: Histogram<u64>,
}

impl<M: Model> Observed<M> {
    /// Wraps `model`. The wrapper records each request to `model` as a span, and in metrics that `meter` creates.
    pub fn new(model: M, meter: &Meter) -> Self {
        let duration = meter
            .f64_histogram(OPERATION_DURATION)
            .with_description("Duration of requests to models")
            .with_unit("s")
            .with_boundaries(SECONDS.to_vec())
            .build();
        let tokens = meter
            .u64_histogram(TOKEN_USAGE)
            .with_description("Number of tokens in requests and replies")
            .with_unit("{token}")
            .with_boundaries(TOKENS.to_vec())
            .build();
        Self { model, duration, tokens }
    }

    async fn observe(&self, request: &Request) -> Result<Reply> {
        let name = self.model.name();
        let span = tracing::info_span!(
            target: "antiphon",
            "chat",
            otel.name = format_args!("chat {name}"),
            otel.kind = "client",
            otel.status_code = Empty,
            gen_ai.operation.name = "chat",
            gen_ai.request.model = name,
            gen_ai.request.max_tokens = i64::from(request.max_tokens),
            gen_ai.response.model = Empty,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            "error.type" = Empty,
        );
        let began = Instant::now();
        let replied = self.model.reply(request).instrument(span.clone()).await;
        let mut about = vec![
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.request.model", name.to_owned()),
        ];
        match &replied {
            Ok(reply) => {
                span.record("gen_ai.response.model", reply.model.as_str());
                if let Some(reason) = &reply.stop_reason {
                    span.record("gen_ai.response.finish_reasons", reason.as_str());
                }
                if let Some(usage) = reply.usage() {
                    span.record("gen_ai.usage.input_tokens", int(usage.input_tokens));
                    span.record("gen_ai.usage.output_tokens", int(usage.output_tokens));
                    for (kind, count) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
                        about.push(KeyValue::new("gen_ai.token.type", kind));
                        self.tokens.record(count, &about);
                        about.pop();
                    }
                }
            }
            Err(error) => {
                let kind = kind(error);
                span.record("error.type", kind);
                span.record("otel.status_code", "ERROR");
                about.push(KeyValue::new("error.type", kind));
            }
        }
        self.duration.record(began.elapsed().as_secs_f64(), &about);
        replied
    }
}

/// Converts a count to a signed integer, because span attributes cannot be unsigned integers.
fn int(count: u64) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// Returns the kind of an error. The error message is not recorded, because it can contain the provider's text and
/// parts of the prompt.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Unsupported { .. } => "unsupported",
        Error::Rejected { .. } => "rejected",
        Error::Unauthorized { .. } => "unauthorized",
        Error::RateLimited { .. } => "rate_limited",
        Error::Unavailable(_) => "unavailable",
        Error::Timeout(_) => "timeout",
        Error::Limit(_) => "limit",
        Error::Config(_) => "config",
        Error::Malformed(_) => "malformed",
    }
}

impl<M: Model> Model for Observed<M> {
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(self.observe(request))
    }

    fn name(&self) -> &str {
        self.model.name()
    }
}

impl<M: fmt::Debug> fmt::Debug for Observed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observed").field(&self.model).finish()
    }
}
