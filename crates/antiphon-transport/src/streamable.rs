//! What a streamable HTTP endpoint and the handler of a request tell each other.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::weight::{Share, Weight};

/// Marks a request that came over streamable HTTP, where a request can belong to no session. The endpoint puts it into the
/// extensions of the HTTP request.
///
/// Messages over WebSocket and HTTP+SSE also bring an HTTP request, but they always belong to a session and have no such
/// mark.
#[derive(Clone, Debug, Default)]
pub struct Streamable {
    /// Set by the handler if it rejects the request because of a limit.
    pub shed: RejectionSlot,
    /// The memory that the request takes.
    pub room: Option<Room>,
}

/// The memory that a request takes of a [`MemoryBudget`](crate::weight::MemoryBudget), until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Room(Arc<Mutex<(Share, Weight)>>);

impl Room {
    /// Holds the share of a message with this weight.
    pub fn new(share: Share, weight: Weight) -> Self {
        Self(Arc::new(Mutex::new((share, weight))))
    }

    /// Gives back the memory that only the parser needed. Call it when the request is parsed.
    pub fn parsed(&self) {
        let (share, weight) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        share.shrink(weight.kept());
    }
}

/// Tells the endpoint that a request was rejected because of a limit, so that the response gets the matching HTTP status.
#[derive(Clone, Debug, Default)]
pub struct RejectionSlot(Arc<OnceLock<(bool, u64)>>);

impl RejectionSlot {
    /// Says that the request was rejected: whether by a limit of this caller, and after how many seconds to try again.
    pub fn set(&self, own: bool, retry_after: u64) {
        let _ = self.0.set((own, retry_after));
    }

    /// Returns what was set, or `None` if the request was taken.
    pub fn get(&self) -> Option<(bool, u64)> {
        self.0.get().copied()
    }
}
