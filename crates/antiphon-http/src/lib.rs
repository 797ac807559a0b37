//! HTTP for MCP servers, and for any other axum router.
//!
//! - [`serve`]: a function that serves a router over HTTP/1.1. The function limits connections, headers and slow
//!   clients, and shuts down gracefully.
//! - `endpoint`, with the feature `endpoint`: an MCP endpoint over streamable HTTP. The sessions of the endpoint are
//!   in the memory of one process, or several replicas share the sessions.
//! - `auth`, with the feature `auth`: a tower layer that authenticates callers and checks scopes.
//!
//! The feature `http` of the crate `antiphon` re-exports this crate. So a server that depends on `antiphon` does not
//! need a second dependency.
//!
//! # Features
//!
//! No feature of this crate is enabled by default.
//!
//! | feature | adds |
//! |---|---|
//! | `auth` | `auth`: authentication with OAuth 2.1 tokens, API keys or client certificates from a proxy, and scopes |
//! | `endpoint` | `endpoint`: MCP over streamable HTTP, on `rmcp` and `antiphon-store` |
//! | `results` | with `auth`: result sets of `antiphon-results` belong to the authenticated caller |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "auth")]
pub mod auth;
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

/// The minimum length of an API key or an operator's token, in bytes. An attacker could guess shorter secrets.
pub const MIN_SECRET_BYTES: usize = 24;
