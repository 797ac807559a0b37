#![doc = include_str!("../docs/sse.md")]

#[cfg(feature = "sse-client")]
mod client;
#[cfg(feature = "sse-client")]
mod event;
#[cfg(feature = "sse-server")]
mod server;
#[cfg(feature = "sse-server")]
mod session;

#[cfg(feature = "sse-client")]
pub use client::{SseClient, SseClientConfig};
#[cfg(feature = "sse-server")]
pub use server::{SseConfig, router};
#[cfg(feature = "sse-server")]
pub use session::SseTransport;
