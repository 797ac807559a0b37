//! The telemetry of a host: spans of `tracing` and metrics of OpenTelemetry.
//!
//! Each request has a span and sends its trace context to the server. Requests of the server send their trace context
//! to the host. So a call is one trace, with any number of rounds. Without the feature `telemetry`, the module `off`
//! defines the same items, which do nothing.

#[cfg(not(feature = "telemetry"))]
mod off;
#[cfg(feature = "telemetry")]
mod on;

#[cfg(not(feature = "telemetry"))]
pub(crate) use self::off::Telling;
#[cfg(feature = "telemetry")]
pub use self::on::Telemetry;
#[cfg(feature = "telemetry")]
pub(crate) use self::on::Telling;
