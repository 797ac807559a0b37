//! The header names of streamable HTTP, and the interface between the streamable HTTP endpoint and the handler of a
//! request.

#[cfg(feature = "server")]
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::HeaderName;

#[cfg(feature = "server")]
use crate::weight::{Share, Weight};

/// `Last-Event-ID`: when a client resumes a stream, the ID of the last event that the client has received.
pub static LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// `Mcp-Method`: the MCP method of an MCP 2026-07-28 request.
pub static METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// `Mcp-Name`: the name of the tool or prompt, or the URI of the resource, in an MCP 2026-07-28 request.
pub static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// `Mcp-Session-Id`: the session that a request belongs to, in protocol revisions up to MCP 2025-11-25.
pub static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// `MCP-Protocol-Version`: the protocol revision of a request.
pub static VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// A mark on requests that arrive over streamable HTTP. A request over streamable HTTP can exist without a session. The
/// streamable HTTP endpoint adds this mark to the extensions of the HTTP request.
///
/// Messages over WebSocket and HTTP+SSE also contain an HTTP request, but not the mark `Streamable`, because these
/// messages always belong to a session.
#[cfg(feature = "server")]
#[derive(Clone, Debug, Default)]
pub struct Streamable {
    /// The slot in which the handler reports that it has rejected the request because of a limit.
    pub shed: RejectionSlot,
    /// The request's share of the memory budget, if the endpoint has a budget.
    pub room: Option<Room>,
}

/// The share of a [`MemoryBudget`](crate::weight::MemoryBudget) that a request uses. When the last clone of a `Room`
/// is dropped, the memory returns to the budget.
#[cfg(feature = "server")]
#[derive(Clone, Debug)]
pub struct Room(Arc<Mutex<(Share, Weight)>>);

#[cfg(feature = "server")]
impl Room {
    /// Creates a `Room` that keeps `share` for a message with the weight `weight`.
    pub fn new(share: Share, weight: Weight) -> Self {
        Self(Arc::new(Mutex::new((share, weight))))
    }

    /// Releases the memory that only the parsing needed, so that other requests can use this memory. Call `parsed`
    /// after the request is parsed.
    pub fn parsed(&self) {
        let (share, weight) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        share.shrink(weight.kept());
    }
}

/// A slot in which a handler reports that it has rejected a request because of a limit. If the slot contains a
/// rejection, the endpoint sets the HTTP status of the response.
#[cfg(feature = "server")]
#[derive(Clone, Debug, Default)]
pub struct RejectionSlot(Arc<OnceLock<(bool, u64)>>);

#[cfg(feature = "server")]
impl RejectionSlot {
    /// Reports that the handler rejected the request. `own` states whether the limit applies only to the caller of
    /// this request. `retry_after` is the number of seconds after which the client can retry.
    pub fn set(&self, own: bool, retry_after: u64) {
        let _ = self.0.set((own, retry_after));
    }

    /// Returns the values `own` and `retry_after` that were passed to [`set`](Self::set), or `None` if the request was
    /// not rejected.
    pub fn get(&self) -> Option<(bool, u64)> {
        self.0.get().copied()
    }
}
