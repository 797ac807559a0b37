//! The SDK's own client against Antiphon's servers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod models;
mod sdk_client;
