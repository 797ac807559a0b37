//! What a server tells of itself: spans of `tracing`, metrics of OpenTelemetry.
//!
//! This knows the two interfaces and no exporter: an application brings those, and what it does not bring costs
//! nothing. Without the feature `telemetry`, it does nothing.
//!
//! - `config`: what an operator sets.
//! - `instruments`: every metric, in one table that the reference is checked against.
//! - `recorder`: whoever is told; counts what belongs to no leg.
//! - `request`: one request, as MCP's conventions have it.
//! - `leg`: one leg of a run. The first leg's place in its trace travels in the journal, so the others find it
//!   wherever they run.
//!
//! **Invariant:** what is replayed is not told. A step is a span where it was taken, an entry counts where it was
//! recorded, and a leg counts when what came of it is out or written.
//! **Invariant:** names and numbers, never a value of the run's, unless the operator wants them; and then in spans
//! only, never in a log.

#[cfg(feature = "telemetry")]
mod config;
#[cfg(feature = "telemetry")]
mod instruments;
#[cfg(feature = "telemetry")]
mod leg;
#[cfg(not(feature = "telemetry"))]
mod off;
#[cfg(feature = "prometheus")]
mod prometheus;
#[cfg(feature = "telemetry")]
mod recorder;
#[cfg(feature = "telemetry")]
mod request;
#[cfg(feature = "telemetry")]
mod spanned;

#[cfg(feature = "telemetry")]
pub use self::config::Telemetry;
#[cfg(not(feature = "telemetry"))]
pub(crate) use self::off::{LegSpan, Recorder, Spanned, begun, put_place};
#[cfg(feature = "prometheus")]
pub use self::prometheus::Prometheus;
#[cfg(feature = "telemetry")]
pub(crate) use self::{
    leg::{LegSpan, begun, put_place},
    recorder::Recorder,
    request::{About, Ended, RequestSpan},
    spanned::Spanned,
};
use crate::{
    error::{Error, ErrorKind},
    output::Returned,
};

/// How a leg ended, once that is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The client was asked in a round.
    Round,
    /// It waits, as a task: for people or for time.
    Waits,
    /// It failed and is tried again, as a task.
    Again,
    /// It cleaned up after a run that was over already.
    CleanedUp,
    /// Somebody else has the run: what this leg did counts there.
    Lost,
    /// The run is over.
    Over(Outcome),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    /// With an error of this kind.
    Failed(&'static str),
    Cancelled,
    Drifted,
    /// It was given up: a person has to look.
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
