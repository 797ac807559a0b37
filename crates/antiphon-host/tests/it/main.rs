//! The host through its front door.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asks;
#[cfg(feature = "auth")]
mod auth;
mod calls;
#[cfg(all(feature = "http", feature = "websocket", feature = "sse"))]
mod drain;
#[path = "../contract/frames.rs"]
mod frames;
mod host_frames;
#[cfg(feature = "http")]
mod http;
mod legacy_tasks_layer;
mod lifecycle;
mod pages;
#[cfg(all(feature = "process", unix))]
mod programs;
#[cfg(all(feature = "http", feature = "process", feature = "proxy"))]
mod proxy;
#[cfg(all(feature = "http", feature = "results"))]
mod results;
mod support;
mod tasks;
#[cfg(feature = "telemetry")]
mod telemetry;
