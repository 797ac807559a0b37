//! Handles MCP requests with the service types of the SDK.

mod admit;
mod describe;
mod handler;
mod inner;
mod invoke;
mod join;
mod layered;
pub(crate) mod local;
pub(crate) mod middleware;
#[cfg(feature = "telemetry")]
mod observed;
mod permit;
mod promote;
mod service;
mod session;
mod single_use;
mod tasks_2025;
mod tasks_2026;

use crate::{
    protocol::Revision,
    run::{Client, fits},
};
pub(crate) use handler::Handler;
pub(crate) use inner::{DynHandler, Wrapped};
#[cfg(not(feature = "telemetry"))]
pub(crate) use layered::Layered as Served;
#[cfg(feature = "telemetry")]
pub(crate) use observed::Observed as Served;
pub(crate) use permit::Authorize;
pub(crate) use service::{About, PrincipalHook, Service, principal_of_identity};
