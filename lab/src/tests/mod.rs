//! The SDK's own client against Antiphon's servers, and replicas over real services.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../crates/antiphon/tests/it/checked.rs"]
#[expect(dead_code, reason = "only frames are checked here")]
pub(crate) mod checked;
mod models;
#[path = "../../../crates/antiphon/tests/it/replicas/mod.rs"]
pub(crate) mod replicas;
mod replicas_services;
mod sdk_client;
