//! The telemetry items for builds with the feature `telemetry`. The module `off` contains the same items for builds
//! without this feature.

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
