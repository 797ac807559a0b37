//! The interface between a streamable HTTP endpoint and the handler of a request.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::weight::{Share, Weight};

/// Marks a request over streamable HTTP, where a request can belong to no session. The endpoint puts it into the
/// extensions of the HTTP request.
///
/// Messages over WebSocket and HTTP+SSE also contain an HTTP request, but they always belong to a session and have no
/// such mark.
#[derive(Clone, Debug, Default)]
pub struct Streamable {
    /// The handler sets it if it rejects the request because of a limit.
    pub shed: RejectionSlot,
    /// The memory of the request.
    pub room: Option<Room>,
}

/// The memory of a request in a [`MemoryBudget`](crate::weight::MemoryBudget), until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Room(Arc<Mutex<(Share, Weight)>>);

impl Room {
    /// Holds the share of a message with this weight.
    pub fn new(share: Share, weight: Weight) -> Self {
        Self(Arc::new(Mutex::new((share, weight))))
    }

    /// Frees the memory that only the parser needed. Call it after the request is parsed.
    pub fn parsed(&self) {
        let (share, weight) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        share.shrink(weight.kept());
    }
}

/// Reports to the endpoint that a request was rejected because of a limit, so that the response has the matching
/// status.
#[derive(Clone, Debug, Default)]
pub struct RejectionSlot(Arc<OnceLock<(bool, u64)>>);

impl RejectionSlot {
    /// Sets that the request was rejected: whether by a limit of this caller, and after how many seconds to retry.
    pub fn set(&self, own: bool, retry_after: u64) {
        let _ = self.0.set((own, retry_after));
    }

    /// Returns the rejection, or `None` if the request was accepted.
    pub fn get(&self) -> Option<(bool, u64)> {
        self.0.get().copied()
    }
}
