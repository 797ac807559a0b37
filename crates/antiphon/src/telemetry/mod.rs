//! Telemetry: `tracing` spans and OpenTelemetry metrics.
//!
//! This module uses the APIs of `tracing` and OpenTelemetry, but does not contain an exporter. Your application adds
//! exporters. Without the feature `telemetry`, the module `off` replaces all items, and does nothing. With the feature
//! `telemetry`, the module `on` has these parts:
//!
//! - `config`: the settings of the operator.
//! - `instruments`: all metrics in one table. A test checks that the reference documentation contains the same table.
//! - `recorder`: the metrics that do not belong to a leg.
//! - `request`: the telemetry of one request, according to the semantic conventions for MCP.
//! - `leg`: the telemetry of one leg. The journal contains the trace context of the first leg. Later legs on any
//!   replica use the trace context of the first leg.
//!
//! **Invariant:** a replay does not create spans and does not change metrics. A step has a span only when the side
//! effect of the step runs. The server counts a journal entry when the server records the entry. The server counts a
//! leg when the server sends the leg's response or stores the leg's result.
//!
//! **Invariant:** spans contain names and numbers. If the operator enables user data in spans, spans also contain
//! recorded data of a run. Logs never contain recorded data of a run.

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
    /// The leg returned questions to the client (a round of MCP 2026-07-28).
    Round,
    /// The task waits for users or for a point in time.
    Waits,
    /// The leg failed, and the task will be retried.
    Again,
    /// The tool has cleaned up after the run was cancelled.
    CleanedUp,
    /// Another worker executes the run now, and counts the work.
    Lost,
    /// The run has ended: it succeeded, failed or was cancelled, or the server gave up the run.
    Over(Outcome),
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    /// The run failed. The value is the name of the error kind.
    Failed(&'static str),
    Cancelled,
    Drifted,
    /// The server has given up the run, so an operator must retry or remove the run.
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
