//! The host through its front door.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asks;
#[cfg(feature = "auth")]
mod auth;
mod calls;
#[cfg(feature = "http")]
mod http;
mod legacy_tasks_layer;
mod lifecycle;
mod pages;
#[cfg(all(feature = "http", feature = "results"))]
mod results;
mod support;
mod tasks;
#[cfg(feature = "telemetry")]
mod telemetry;
