#![doc = include_str!("../docs/websocket.md")]

#[cfg(feature = "websocket-client")]
mod client;
mod connection;
#[cfg(feature = "websocket-server")]
mod metered;
#[cfg(feature = "websocket-server")]
mod server;

#[cfg(feature = "websocket-client")]
pub use client::{WebSocketClient, WebSocketClientConfig};
#[cfg(feature = "websocket-server")]
pub use server::{WebSocketConfig, WebSocketTransport, router};

/// The WebSocket subprotocol for MCP. The client and the server must agree on this subprotocol.
pub const SUBPROTOCOL: &str = "mcp";
