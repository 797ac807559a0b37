//! The transports through their front doors: real sockets, the SDK on both sides.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod flood;
mod laws;
mod memory;
mod proxy;
mod reconnect;
mod sse;
mod support;
mod tasks;
mod websocket;
