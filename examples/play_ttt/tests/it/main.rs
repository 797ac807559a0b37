//! Whole games, on every way there is to play them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod board;
mod games;
mod moves;
mod processes;
mod script;
mod smollm;
mod tasks;
mod wire;
