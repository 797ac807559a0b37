//! HTTP for MCP servers and for any other axum router.
//!
//! - [`serve`]: serves a router over HTTP/1.1 with limits for connections, headers and stalled readers, and a
//!   graceful shutdown.
//! - `endpoint`, with the feature `endpoint`: an MCP endpoint over streamable HTTP, with sessions in memory
//!   or shared.
//! - `auth`, with the feature `auth`: authenticates callers and checks scopes, as a tower layer.
//!
//! `antiphon` with the feature `http` re-exports all of it, so a server needs no second dependency.
//!
//! # Features
//!
//! No feature is enabled by default.
//!
//! | feature | adds |
//! |---|---|
//! | `auth` | `auth`: OAuth 2.1 tokens, API keys, client certificates behind a proxy, scopes |
//! | `endpoint` | `endpoint`: MCP over streamable HTTP, on `rmcp` and `antiphon-store` |
//! | `results` | with `auth`: callers own the result sets of `antiphon-results` |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "auth")]
pub mod auth;
mod body;
#[cfg(feature = "endpoint")]
mod endpoint;
mod serve;
mod shutdown;

#[cfg(feature = "endpoint")]
pub use self::endpoint::{Application, HttpConfig, Received, SharedSessions, endpoint};
pub use self::{
    serve::{ServeConfig, serve},
    shutdown::shutdown_signal,
};

/// The smallest length of an API key or an operator's token, in bytes, so that it cannot be guessed.
pub const MIN_SECRET_BYTES: usize = 24;
