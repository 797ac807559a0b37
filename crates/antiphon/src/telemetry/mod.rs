//! Telemetry: `tracing` spans and OpenTelemetry metrics.
//!
//! This module uses the APIs of `tracing` and OpenTelemetry, but contains no exporter. Your application adds
//! exporters. Without the feature `telemetry`, the module does nothing (`off`). With the feature, it has these parts
//! (`on`):
//!
//! - `config`: the settings of the operator.
//! - `instruments`: all metrics in one table. A test compares this table with the reference documentation.
//! - `recorder`: the metrics that do not belong to a leg.
//! - `request`: the telemetry of one request, according to the semantic conventions for MCP.
//! - `leg`: the telemetry of one leg. The journal contains the trace context of the first leg. Later legs on any
//!   replica use this trace context.
//!
//! **Invariant:** a replay creates no spans, and counts nothing. A step has a span only when its side effect runs. A
//! journal entry is counted when it is recorded. A leg is counted when its response is sent or its result is stored.
//!
//! **Invariant:** spans contain names and numbers. If the operator enables this, spans also contain recorded data of a
//! run. Logs never contain recorded data of a run.

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

/// How a leg has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The leg returned questions to the client.
    Round,
    /// The task waits for users or for a point in time.
    Waits,
    /// The leg failed, and the task will be retried.
    Again,
    /// The tool has cleaned up after the run was cancelled.
    CleanedUp,
    /// Another worker executes the run now, and counts the work.
    Lost,
    /// The run has ended.
    Over(Outcome),
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    /// The run failed with an error of this kind.
    Failed(&'static str),
    Cancelled,
    Drifted,
    /// The server has given up the run. An operator must act.
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
