//! What a host tells of itself: spans of `tracing`, metrics of OpenTelemetry.
//!
//! A request is a span, and tells the server where it belongs; so does what a server asks on the way, the other way
//! round. One call is one tree, however many rounds it takes. Without the feature, `off` has the same names with nothing
//! in them.

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
