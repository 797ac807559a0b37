//! The items of telemetry with the feature `telemetry`. `off` has the same items without the feature.

mod config;
mod instruments;
mod leg;
mod recorder;
mod request;
mod spanned;

pub use self::config::Telemetry;
pub(crate) use self::{
    leg::{LegSpan, begun, put_place},
    recorder::Recorder,
    request::{About, Ended, RequestSpan},
    spanned::Spanned,
};
use super::{How, Outcome};
