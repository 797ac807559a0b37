//! MCP over streamable HTTP: one endpoint for every protocol revision.

mod answer;
mod config;
mod local;
mod request;
mod shared;

use std::future::ready;

use antiphon_transport::drain::Drain;
use axum::response::Response;
use futures_util::future::BoxFuture;
use http::request::Parts;
use rmcp::model::Extensions;

pub use self::{answer::endpoint, config::HttpConfig, request::Received, shared::SharedSessions};

/// The server to which an MCP endpoint belongs. The server provides information for the endpoint that the SDK's
/// handler does not have.
pub trait Application: Send + Sync + 'static {
    /// Returns the shutdown state of the server. Every call of `drain` must return the same state.
    fn drain(&self) -> &Drain;

    /// Starts the background work of the server, unless this work has already started. The endpoint calls `begin` with
    /// every request. The default implementation does nothing.
    fn begin(&self) {}

    /// Returns whether [`principal`](Self::principal) can identify callers. If callers can be identified, only the
    /// caller that opened a session can use this session. Default: `false`.
    fn has_principals(&self) -> bool {
        false
    }

    /// Returns the principal (the name of the caller) of a request. Default: `None`.
    fn principal(&self, parts: &Parts) -> Option<String> {
        let _ = parts;
        None
    }

    /// Checks whether the caller is allowed to send a request. If the caller is not allowed to send the request, the
    /// future returns the HTTP response for the caller. Returns `None` if no check is necessary. `is_legacy` is true
    /// for requests of MCP 2025-11-25 or earlier. Default: `None`.
    fn challenge(&self, request: &Received, is_legacy: bool) -> Option<BoxFuture<'static, Option<Response>>> {
        let _ = (request, is_legacy);
        None
    }

    /// Returns the names of the lists that can change: `tools`, `prompts`, `resources`. If a replica stops, its
    /// clients receive a notification that the returned lists may have changed. Default: none.
    fn lists(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Waits until the server is connected to the change notifications of the other replicas. The default
    /// implementation returns immediately.
    fn hear_changes(&self) -> BoxFuture<'_, antiphon_store::Result<()>> {
        Box::pin(ready(Ok(())))
    }
}

/// Returns the principal of the HTTP request that contained a message.
fn principal_of(app: &dyn Application, extensions: &Extensions) -> Option<String> {
    app.principal(extensions.get::<Parts>()?)
}
