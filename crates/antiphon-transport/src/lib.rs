#![doc = include_str!("docs/lib.md")]

#[cfg(feature = "__server")]
mod guard;
#[cfg(feature = "__core")]
mod inbox;
#[cfg(feature = "__client")]
mod reconnect;

mod error;

#[cfg(feature = "revise")]
pub mod revise;
#[cfg(any(feature = "sse-server", feature = "sse-client"))]
pub mod sse;
#[cfg(feature = "__websocket")]
pub mod websocket;

pub use error::{Error, Result};
#[cfg(feature = "__core")]
pub use inbox::TRANSPORT_ERROR;
#[cfg(feature = "__client")]
pub use reconnect::Reconnect;
