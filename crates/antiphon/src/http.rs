//! Serving over HTTP: settings, health probes, operator routes, and a server for any axum router.
//!
//! [`Server::router`](crate::Server::router), [`Server::serve_http`](crate::Server::serve_http) and similar methods
//! take these types.

pub use axum;

#[doc(inline)]
pub use crate::server::http::{
    Health, HttpConfig, MemoryBudget, OperatorConfig, ServeConfig, serve, shutdown_signal,
};
