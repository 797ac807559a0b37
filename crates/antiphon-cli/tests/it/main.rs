//! The command against a real server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod runs;
