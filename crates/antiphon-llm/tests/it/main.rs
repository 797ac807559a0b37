//! The crate through its front door.
#![cfg(all(feature = "providers", feature = "conformance", feature = "scripted"))]
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    reason = "a test fails by panicking, its helpers read better by value, and a skipped one says so"
)]

mod config;
mod contract;
mod failures;
mod golden;
mod laws;
mod replies;
mod shim;
mod support;
