#![doc = include_str!("docs/lib.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "__fuzz")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "__core")]
mod inbox;
#[cfg(feature = "__client")]
mod reconnect;

mod error;

#[cfg(feature = "server")]
pub mod boxed;
#[cfg(feature = "server")]
pub mod drain;
#[cfg(feature = "guard")]
pub mod guard;
#[cfg(feature = "guard")]
pub mod identity;
#[cfg(feature = "server")]
pub mod jitter;
#[cfg(feature = "legacy-tasks")]
pub mod legacy_tasks;
pub mod revision;
#[cfg(feature = "server")]
pub mod session;
#[cfg(any(feature = "sse-server", feature = "sse-client"))]
pub mod sse;
#[cfg(feature = "guard")]
pub mod streamable;
#[doc(hidden)]
pub mod text;
#[cfg(feature = "trace")]
pub mod trace;
#[cfg(feature = "__websocket")]
pub mod websocket;
#[cfg(feature = "legacy-tasks")]
pub mod weight;

pub use error::{Error, Result};
#[cfg(feature = "__core")]
pub use inbox::TRANSPORT_ERROR;
#[cfg(feature = "__client")]
pub use reconnect::Reconnect;
