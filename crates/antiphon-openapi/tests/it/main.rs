//! Tools from documents, called by an MCP client, against a real HTTP server that records what it receives.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and its helpers too")]

mod api;
mod calls;
mod convert;
mod credentials;
mod result_sets;
mod tasks;
