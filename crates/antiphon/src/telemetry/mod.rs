//! Telemetry: `tracing` spans and OpenTelemetry metrics.
//!
//! This module uses the APIs of `tracing` and OpenTelemetry, but no exporter. Your application adds exporters. Without
//! the feature `telemetry`, the module does nothing (`off`). With the feature, it consists of (`on`):
//!
//! - `config`: the operator's settings.
//! - `instruments`: all metrics, in one table that a test compares with the reference.
//! - `recorder`: the metrics that do not belong to a leg.
//! - `request`: one request, according to MCP's semantic conventions.
//! - `leg`: one leg of a run. The journal contains the trace context of the first leg, so that later legs on any
//!   replica use this trace context.
//!
//! **Invariant:** replay creates no spans and no counts. A step has a span only when it runs. A journal entry is
//! counted when it is recorded. A leg is counted when its answer is sent or its result is written. **Invariant:** spans
//! contain names and numbers, and values of a run only if the operator enables this. Logs never contain values of a
//! run.

#[cfg(not(feature = "telemetry"))]
mod off;
#[cfg(feature = "telemetry")]
mod on;
#[cfg(feature = "prometheus")]
mod prometheus;

#[cfg(not(feature = "telemetry"))]
pub(crate) use self::off::{LegSpan, Recorder, Spanned, begun, put_place};
#[cfg(feature = "telemetry")]
pub use self::on::Telemetry;
#[cfg(feature = "telemetry")]
pub(crate) use self::on::{About, Ended, LegSpan, Recorder, RequestSpan, Spanned, begun, put_place};
#[cfg(feature = "prometheus")]
pub use self::prometheus::Prometheus;
use crate::{
    error::{Error, ErrorKind},
    output::Returned,
};

/// The end of a leg, when it is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The leg returned questions to the client.
    Round,
    /// The task waits for users or for time.
    Waits,
    /// The leg failed, and the task is retried.
    Again,
    /// The leg cleaned up after the end of the run.
    CleanedUp,
    /// Another worker has the run and counts its work.
    Lost,
    /// The run has ended.
    Over(Outcome),
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    /// Failed with an error of this kind.
    Failed(&'static str),
    Cancelled,
    Drifted,
    /// Given up. An operator must act.
    Dead,
}

impl Outcome {
    pub(crate) fn of(result: &Result<impl Returned, Error>) -> Self {
        match result.as_ref().map_err(Error::kind) {
            Ok(output) if output.is_error() => Self::Failed("tool_error"),
            Ok(_) => Self::Completed,
            Err(ErrorKind::Cancelled) => Self::Cancelled,
            Err(ErrorKind::Drift(_)) => Self::Drifted,
            Err(kind) => Self::Failed(kind.name()),
        }
    }
}
